// The coding of operations. A training loop calls the same operations with the same arguments over
// and over; what changes is the time. So:
//
//   * A *shape* is everything of a record that a loop repeats: kind, datatype, reduction, flags,
//     result, count, addresses, stream, caller, communicator, root or peer, thread, graph, frames,
//     and how the group number follows from the record before. Both ends keep the last
//     kShapes different ones, and for each the shape that followed it last time.
//   * The record that fits the prediction in everything (ticket + 1, the predicted shape, the
//     expected seq, returned, no GPU times) costs one bit, plus the two times.
//   * Times are ticks >> time_shift. The time of the call is coded as the change of its distance
//     from the call before, against the distance this shape had last time; the duration as its
//     change against this shape's last duration.
//   * A new shape is coded field by field against the shape of the record before; streams and
//     callers by their place among the last few different ones.
//
// Layout of a record, bits from the least significant, the record padded to a byte:
//
//     usual:1
//     not usual: next_ticket:1 [0: gap:n]  known:1 [1: predicted:1 [0: shape:10]] [0: new shape]
//                expected_seq:1 [0: seq change:n]  returned:1  gpu_times:1 [1: launched:1 started:1
//                finished:1]
//     [group change is explicit: group:32]
//     called:n  [returned: duration:n]  [launched, started, finished: distance from called:n]
//
// `n` is a class of 3 bits and as many bits as the class has (NumberWidths). Signed values are
// zigzag coded. All arithmetic is modulo 2^64, so that any record, also one that a job scribbled
// over, comes back as it was, but for the low bits of its times and the phase.
//
// One function describes the format for both ends (transfer_record), because two would drift.
#include "core/format/op_codec.h"

#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <type_traits>

#include "core/base/check.h"
#include "core/format/bit_stream.h"

namespace rollcall {

namespace {

constexpr uint32_t kShapes = 1024;  // 10 bits
constexpr uint32_t kShapeBits = 10;
constexpr uint32_t kShapeHashSlots = 4096;  // load at most a quarter: probes stay short
constexpr uint32_t kSeqSlots = 2048;
constexpr uint16_t kNoShape = 0xffff;

enum class GroupChange : uint8_t { none = 0, same = 1, next = 2, other = 3 };

// Whole words, so that comparing and hashing shapes are loops over words.
struct Shape {
  uint64_t count;
  uint64_t send_address;
  uint64_t recv_address;
  uint64_t stream;
  uint64_t caller;
  uint32_t comm_index;
  int32_t root_or_peer;
  uint32_t thread_index;
  uint32_t graph;
  uint32_t frames;  // above them the kernel, 0 without CUPTI
  uint32_t flags;   // OpRecord's flags; above them method and channels, 0 without a plugin
  int16_t result;
  uint8_t kind;
  uint8_t datatype;
  uint8_t reduction;
  uint8_t group_change;
  uint8_t zero[2];
};
static_assert(sizeof(Shape) == 72);
static_assert(std::has_unique_object_representations_v<Shape>);
using ShapeWords = std::array<uint64_t, sizeof(Shape) / 8>;

constexpr NumberWidths kTicketWidths{{1, 2, 4, 8, 16, 32, 48, 64}};
constexpr NumberWidths kSeqWidths{{2, 4, 8, 12, 16, 24, 32, 64}};
constexpr NumberWidths kCalledWidths{{5, 8, 11, 14, 16, 18, 21, 64}};
constexpr NumberWidths kDurationWidths{{4, 6, 8, 10, 12, 16, 32, 64}};
constexpr NumberWidths kCountWidths{{8, 12, 16, 20, 24, 28, 32, 64}};
constexpr NumberWidths kWordWidths{{0, 4, 8, 12, 16, 32, 48, 64}};
constexpr NumberWidths kHalfWidths{{0, 3, 5, 8, 10, 16, 20, 32}};

constexpr uint64_t zigzag(uint64_t change) {
  return change << 1 ^ (change >> 63 ? ~uint64_t{0} : 0);
}
constexpr uint64_t unzigzag(uint64_t coded) { return coded >> 1 ^ (coded & 1 ? ~uint64_t{0} : 0); }
static_assert(unzigzag(zigzag(0)) == 0 && unzigzag(zigzag(~uint64_t{0})) == ~uint64_t{0});
static_assert(unzigzag(zigzag(uint64_t{1} << 63)) == uint64_t{1} << 63);

uint64_t hash_shape(const Shape& shape) noexcept {
  const auto words = std::bit_cast<ShapeWords>(shape);
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  return hash;
}

bool is_known_kind(uint8_t kind) noexcept { return kind < kOpKinds; }

}  // namespace

// The last few different values of a field whose values are few but far apart: streams, callers.
template <uint32_t kIndexBits>
struct RecentValues {
  static constexpr uint32_t kCount = 1u << kIndexBits;
  uint64_t values[kCount];
  uint64_t added;

  uint32_t find(uint64_t value) const noexcept {
    for (uint32_t i = 0; i < kCount; ++i) {
      if (values[i] == value) return i;
    }
    return kCount;
  }
  void add(uint64_t value) noexcept { values[added++ % kCount] = value; }
};

class OpCodecState {
 public:
  // What a shape's last record tells about its next one.
  struct Memory {
    uint64_t gap;  // shifted ticks between this call and the one before it
    uint64_t duration;
    uint16_t successor;
    uint16_t is_fresh;  // 1: there was no record yet, so there is nothing to expect
    uint16_t reserved_memory[2];
  };

  // Shapes, their memories and hashes stay as they are: none is looked at before it was added. They
  // are most of the state, and a large run has thousands of blocks.
  void clear() noexcept {
    shapes_added = 0;
    last_shape = kNoShape;
    ticket = called = 0;
    group = 0;
    std::memset(seqs, 0, sizeof(seqs));
    streams = {};
    callers = {};
    std::memset(hash_slots, 0xff, sizeof(hash_slots));
  }

  uint16_t find(const Shape& shape, uint64_t hash) const noexcept {
    for (uint64_t slot = hash & (kShapeHashSlots - 1);; slot = (slot + 1) & (kShapeHashSlots - 1)) {
      const uint16_t index = hash_slots[slot];
      if (index == kNoShape) return kNoShape;
      if (std::memcmp(&shapes[index], &shape, sizeof(Shape)) == 0) return index;
    }
  }

  // Takes the place of the oldest shape. The decoder has no use for the hash and does not keep it.
  uint16_t add(const Shape& shape, uint64_t hash, bool hashed) noexcept {
    const auto index = static_cast<uint16_t>(shapes_added % kShapes);
    if (hashed) {
      if (shapes_added >= kShapes) forget(index);
      uint64_t slot = hash & (kShapeHashSlots - 1);
      while (hash_slots[slot] != kNoShape) slot = (slot + 1) & (kShapeHashSlots - 1);
      hash_slots[slot] = index;
      hashes[index] = static_cast<uint32_t>(hash);
    }
    ++shapes_added;
    shapes[index] = shape;
    memories[index] = Memory{
        .gap = 0, .duration = 0, .successor = kNoShape, .is_fresh = 1, .reserved_memory = {}};
    return index;
  }

  uint32_t shapes_added;
  uint16_t last_shape;
  uint16_t reserved;
  uint64_t ticket;
  uint64_t called;
  uint32_t group;
  uint32_t reserved1;
  Shape shapes[kShapes];
  Memory memories[kShapes];
  uint64_t seqs[kSeqSlots];
  RecentValues<3> streams;
  RecentValues<5> callers;
  uint32_t hashes[kShapes];
  uint16_t hash_slots[kShapeHashSlots];

 private:
  // Removes a shape from the open-addressed table and closes the hole behind it, so that no probe
  // ends early and no tombstone is ever needed.
  void forget(uint16_t index) noexcept {
    constexpr uint32_t kMask = kShapeHashSlots - 1;
    uint32_t hole = hashes[index] & kMask;
    while (hash_slots[hole] != index) hole = (hole + 1) & kMask;
    for (uint32_t slot = (hole + 1) & kMask; hash_slots[slot] != kNoShape;
         slot = (slot + 1) & kMask) {
      const uint32_t home = hashes[hash_slots[slot]] & kMask;
      // An entry may move into the hole only if that does not put it before its home.
      if (((slot - home) & kMask) < ((slot - hole) & kMask)) continue;
      hash_slots[hole] = hash_slots[slot];
      hole = slot;
    }
    hash_slots[hole] = kNoShape;
  }
};
static_assert(sizeof(OpCodecState) <= kOpCodecStateBytes);
static_assert(std::is_trivially_copyable_v<OpCodecState>);

namespace {

// A value that is usually the same as, or near, another one.
template <class Io>
void transfer_change(Io& io, uint64_t& value, uint64_t expected,
                     const NumberWidths& widths) noexcept {
  uint64_t coded = zigzag(value - expected);
  io.number(coded, widths);
  value = expected + unzigzag(coded);
}

template <class Io, class T>
void transfer_field(Io& io, T& value, T expected, const NumberWidths& widths) noexcept {
  bool same = value == expected;
  io.flag(same);
  if (same) {
    value = expected;
    return;
  }
  auto coded = static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
  io.number(coded, widths);
  value = static_cast<T>(coded);
}

// Classes of an address, 3 bits (all eight are taken). Buffers of one job lie within one device's
// memory and on allocation boundaries, so the distance from the last address, in units of 512
// bytes, is what there is to tell.
enum class AddressClass : uint8_t {
  same,       // as in the shape before
  zero,       // none
  in_place,   // recv = send
  aligned,    // 28 bits of signed distance in 512 bytes: 64 GiB either way
  spread,     // 30 bits of signed distance in 512 bytes: 256 GiB either way
  near_by,    // 24 bits of signed distance in bytes
  far_away,   // 40 bits of signed distance in bytes
  unrelated,  // 64 bits
  Count
};

AddressClass class_of_address(uint64_t address, uint64_t base, uint64_t send) noexcept {
  if (address == base) return AddressClass::same;
  if (address == 0) return AddressClass::zero;
  if (address == send) return AddressClass::in_place;
  const uint64_t distance = zigzag(address - base);
  if (distance >> 24 == 0) return AddressClass::near_by;
  if (((address - base) & 511) == 0) {
    if (distance >> (28 + 9) == 0) return AddressClass::aligned;
    if (distance >> (30 + 9) == 0) return AddressClass::spread;
  }
  if (distance >> 40 == 0) return AddressClass::far_away;
  return AddressClass::unrelated;
}

// `send` is 0 when the send address itself is coded: zero is classed before in_place.
template <class Io>
void transfer_address(Io& io, uint64_t& address, uint64_t base, uint64_t send) noexcept {
  uint8_t number = static_cast<uint8_t>(class_of_address(address, base, send));
  io.bits(number, 3);
  uint64_t coded = 0;
  switch (static_cast<AddressClass>(number)) {
    case AddressClass::same:
      address = base;
      return;
    case AddressClass::zero:
      address = 0;
      return;
    case AddressClass::in_place:
      address = send;
      return;
    case AddressClass::aligned:
    case AddressClass::spread:
      coded = zigzag(static_cast<uint64_t>(static_cast<int64_t>(address - base) / 512));
      io.bits(coded, number == static_cast<uint8_t>(AddressClass::aligned) ? 28 : 30);
      address = base + unzigzag(coded) * 512;
      return;
    case AddressClass::near_by:
    case AddressClass::far_away:
      coded = zigzag(address - base);
      io.bits(coded, number == static_cast<uint8_t>(AddressClass::near_by) ? 24 : 40);
      address = base + unzigzag(coded);
      return;
    case AddressClass::unrelated:
      io.bits(address, 64);
      return;
    case AddressClass::Count:
      break;
  }
  io.fail();
}

// Small numbers in four bits where they fit; the escape costs a byte.
template <class Io>
void transfer_nibble(Io& io, uint8_t& value, uint8_t escape_meaning) noexcept {
  // 15 stands for `escape_meaning` (kUnknown8, say), 14 announces the whole byte.
  uint8_t nibble = value == escape_meaning ? 15 : value < 14 ? value : 14;
  io.bits(nibble, 4);
  if (nibble == 14) {
    io.bits(value, 8);
  } else {
    value = nibble == 15 ? escape_meaning : nibble;
  }
}

template <class Io, uint32_t kIndexBits>
void transfer_recent(Io& io, uint64_t& value, uint64_t base,
                     RecentValues<kIndexBits>& recent) noexcept {
  bool same = value == base;
  io.flag(same);
  if (same) {
    value = base;
    return;
  }
  uint32_t index = recent.kCount;
  if constexpr (Io::kWriting) index = recent.find(value);
  bool known = index < recent.kCount;
  io.flag(known);
  if (known) {
    io.bits(index, kIndexBits);
    value = recent.values[index & (recent.kCount - 1)];
  } else {
    io.number(value, kWordWidths);
    recent.add(value);
  }
}

// The fields that hardly ever differ between two shapes of one thread share one bit.
template <class Io>
void transfer_rare_fields(Io& io, Shape& shape, const Shape& base) noexcept {
  bool same = shape.thread_index == base.thread_index && shape.graph == base.graph &&
              shape.frames == base.frames && shape.result == base.result &&
              shape.flags == base.flags && shape.group_change == base.group_change;
  io.flag(same);
  if (same) {
    shape.thread_index = base.thread_index;
    shape.graph = base.graph;
    shape.frames = base.frames;
    shape.result = base.result;
    shape.flags = base.flags;
    shape.group_change = base.group_change;
    return;
  }
  transfer_field(io, shape.thread_index, base.thread_index, kHalfWidths);
  transfer_field(io, shape.graph, base.graph, kHalfWidths);
  transfer_field(io, shape.frames, base.frames, kHalfWidths);
  transfer_field(io, shape.result, base.result, kHalfWidths);
  transfer_field(io, shape.flags, base.flags, kHalfWidths);
  io.bits(shape.group_change, 2);
}

// -1 ("none") is the most frequent value: one up, it is 0.
template <class Io>
void transfer_root(Io& io, int32_t& root, int32_t base) noexcept {
  uint32_t up = static_cast<uint32_t>(root) + 1;
  transfer_field(io, up, static_cast<uint32_t>(base) + 1, kHalfWidths);
  root = static_cast<int32_t>(up - 1);
}

template <class Io>
void transfer_new_shape(Io& io, OpCodecState& state, Shape& shape, const Shape& base) noexcept {
  transfer_recent(io, shape.stream, base.stream, state.streams);
  transfer_recent(io, shape.caller, base.caller, state.callers);
  transfer_rare_fields(io, shape, base);
  transfer_nibble(io, shape.kind, 0xff);
  transfer_nibble(io, shape.datatype, kUnknown8);
  bool reduces = shape.reduction != kUnknown8;
  io.flag(reduces);
  if (!reduces) {
    shape.reduction = kUnknown8;
  } else {
    bool small = shape.reduction < 8;
    io.flag(small);
    io.bits(shape.reduction, small ? 3 : 8);
  }
  transfer_field(io, shape.comm_index, base.comm_index, kHalfWidths);
  transfer_root(io, shape.root_or_peer, base.root_or_peer);
  bool same_count = shape.count == base.count;
  io.flag(same_count);
  if (same_count) {
    shape.count = base.count;
  } else {
    io.number(shape.count, kCountWidths);
  }
  transfer_address(io, shape.send_address, base.send_address, 0);
  transfer_address(io, shape.recv_address, base.recv_address, shape.send_address);
}

Shape shape_of(const OpRecord& op, GroupChange change) noexcept {
  return Shape{.count = op.count,
               .send_address = op.send_address,
               .recv_address = op.recv_address,
               .stream = op.stream,
               .caller = op.caller,
               .comm_index = op.comm_index,
               .root_or_peer = op.root_or_peer,
               .thread_index = op.thread_index,
               .graph = op.graph,
               .frames = uint32_t{op.frames} | uint32_t{op.kernel} << 16,
               .flags = uint32_t{op.flags} | uint32_t{op.method} << 8 | uint32_t{op.channels} << 16,
               .result = op.result,
               .kind = static_cast<uint8_t>(op.kind),
               .datatype = op.datatype,
               .reduction = op.reduction,
               .group_change = static_cast<uint8_t>(change),
               .zero = {}};
}

void apply_shape(const Shape& shape, OpRecord& op) noexcept {
  op.count = shape.count;
  op.send_address = shape.send_address;
  op.recv_address = shape.recv_address;
  op.stream = shape.stream;
  op.caller = shape.caller;
  op.comm_index = shape.comm_index;
  op.root_or_peer = shape.root_or_peer;
  op.thread_index = shape.thread_index;
  op.graph = shape.graph;
  op.frames = static_cast<uint16_t>(shape.frames);
  op.kernel = static_cast<uint16_t>(shape.frames >> 16);
  op.result = shape.result;
  op.kind = static_cast<OpKind>(shape.kind);
  op.datatype = shape.datatype;
  op.reduction = shape.reduction;
  op.flags = static_cast<uint8_t>(shape.flags);
  op.method = static_cast<uint8_t>(shape.flags >> 8);
  op.channels = static_cast<uint8_t>(shape.flags >> 16);
}

GroupChange group_change_of(uint32_t group, uint32_t last) noexcept {
  if (group == 0) return GroupChange::none;
  if (group == last) return GroupChange::same;
  return group == last + 1 ? GroupChange::next : GroupChange::other;
}

// Where the next seq of this record's counter is remembered. Two counters may share a place: then
// the prediction is worse, never wrong.
uint32_t seq_slot(const Shape& shape) noexcept {
  const bool counted_by_peer = is_known_kind(shape.kind) && is_p2p(static_cast<OpKind>(shape.kind));
  uint32_t key = shape.comm_index * 0x9e3779b1u;
  if (counted_by_peer) {
    key += (static_cast<uint32_t>(shape.root_or_peer) * 2 + 1 + shape.kind % 2) * 0x85ebca6bu;
  }
  return (key ^ key >> 15) % kSeqSlots;
}

bool is_counted(const Shape& shape) noexcept {
  if (!is_known_kind(shape.kind)) return false;
  const auto kind = static_cast<OpKind>(shape.kind);
  return is_collective(kind) || is_p2p(kind);
}

// What of a record is not its shape.
struct Rest {
  uint64_t ticket_gap;  // tickets skipped since the record before
  uint16_t shape_index;
  bool returned;
  bool launched;
  bool started;
  bool finished;
};

// Everything about the shape but its fields: which one it is. Returns its index.
template <class Io>
uint16_t transfer_shape_choice(Io& io, OpCodecState& state, Shape& shape, uint64_t hash,
                               uint16_t known_index, uint16_t predicted) noexcept {
  bool known = known_index != kNoShape;
  io.flag(known);
  if (!known) {
    const Shape base = state.last_shape == kNoShape ? Shape{} : state.shapes[state.last_shape];
    transfer_new_shape(io, state, shape, base);
    if (io.failed()) return kNoShape;
    return state.add(shape, hash, Io::kWriting);
  }
  bool is_predicted = known_index == predicted;
  io.flag(is_predicted);
  if (is_predicted) {
    known_index = predicted;
  } else {
    io.bits(known_index, kShapeBits);
  }
  if constexpr (!Io::kWriting) {
    // kNoShape, where nothing was predicted, is beyond every index.
    if (known_index >= kShapes || known_index >= state.shapes_added) {
      io.fail();
      return kNoShape;
    }
    shape = state.shapes[known_index];
  }
  return known_index;
}

template <class Io>
void transfer_times(Io& io, OpCodecState& state, OpRecord& op, const Rest& rest,
                    uint32_t time_shift) noexcept {
  OpCodecState::Memory& memory = state.memories[rest.shape_index];
  uint64_t called = op.called_ticks >> time_shift;
  uint64_t gap = called - state.called;
  // Signed against what this shape did last time; of a fresh one nothing is known, and most calls
  // come after the one before.
  bool signed_gap = !memory.is_fresh;
  if (memory.is_fresh) {
    signed_gap = gap >> 63 != 0;
    io.flag(signed_gap);
  }
  if (signed_gap) {
    transfer_change(io, gap, memory.gap, kCalledWidths);
  } else {
    io.number(gap, kCalledWidths);
  }
  called = state.called + gap;
  memory.gap = gap;
  state.called = called;
  // A time that exists is never 0, whatever its low bits were.
  const auto restore = [time_shift](uint64_t shifted) {
    const uint64_t ticks = shifted << time_shift;
    return ticks == 0 ? 1 : ticks;
  };
  if (rest.returned) {
    uint64_t duration = (op.returned_ticks >> time_shift) - called;
    if (memory.is_fresh) {
      io.number(duration, kDurationWidths);
    } else {
      transfer_change(io, duration, memory.duration, kDurationWidths);
    }
    memory.duration = duration;
    if constexpr (!Io::kWriting) op.returned_ticks = restore(called + duration);
  }
  const auto transfer_distance = [&](bool present, uint64_t& ticks) {
    if (!present) return;
    uint64_t distance = (ticks >> time_shift) - called;
    transfer_change(io, distance, 0, kCalledWidths);
    if constexpr (!Io::kWriting) ticks = restore(called + distance);
  };
  transfer_distance(rest.launched, op.launched_ticks);
  transfer_distance(rest.started, op.started_ticks);
  transfer_distance(rest.finished, op.finished_ticks);
  memory.is_fresh = 0;
  if constexpr (!Io::kWriting) op.called_ticks = restore(called);
}

// The times as transfer_times lays them down, passed over. Nothing else of a record follows from
// them.
void skip_times(BitReader& reader, OpCodecState& state, const Rest& rest) noexcept {
  OpCodecState::Memory& memory = state.memories[rest.shape_index];
  uint64_t passed = 0;
  bool is_signed = false;
  if (memory.is_fresh) reader.flag(is_signed);
  reader.number(passed, kCalledWidths);
  if (rest.returned) reader.number(passed, kDurationWidths);
  for (const bool present : {rest.launched, rest.started, rest.finished}) {
    if (present) reader.number(passed, kCalledWidths);
  }
  memory.is_fresh = 0;
}

template <class Io>
void transfer_flags(Io& io, Rest& rest) noexcept {
  io.flag(rest.returned);
  bool gpu_times = rest.launched || rest.started || rest.finished;
  io.flag(gpu_times);
  if (!gpu_times) {
    rest.launched = rest.started = rest.finished = false;
    return;
  }
  io.flag(rest.launched);
  io.flag(rest.started);
  io.flag(rest.finished);
}

template <class Io>
void transfer_group(Io& io, OpCodecState& state, OpRecord& op, const Shape& shape) noexcept {
  switch (static_cast<GroupChange>(shape.group_change & 3)) {
    case GroupChange::none:
      op.group = 0;
      return;
    case GroupChange::same:
      op.group = state.group;
      break;
    case GroupChange::next:
      op.group = state.group + 1;
      break;
    case GroupChange::other:
      io.bits(op.group, 32);
      break;
  }
  state.group = op.group;
}

// Without times only when reading: `op` keeps what it had there.
template <bool kWithTimes, class Io>
void transfer_record(Io& io, OpCodecState& state, OpRecord& op, uint32_t time_shift) noexcept {
  Shape shape{};
  Rest rest{};
  uint64_t hash = 0;
  uint16_t known_index = kNoShape;
  const uint16_t predicted =
      state.last_shape == kNoShape ? kNoShape : state.memories[state.last_shape].successor;
  bool usual = false;
  uint64_t seq_change = 0;
  if constexpr (Io::kWriting) {
    shape = shape_of(op, group_change_of(op.group, state.group));
    rest.ticket_gap = ticket_of(op.publish) - state.ticket - 1;
    rest.returned = op.returned_ticks != 0;
    rest.launched = op.launched_ticks != 0;
    rest.started = op.started_ticks != 0;
    rest.finished = op.finished_ticks != 0;
    if (predicted != kNoShape &&
        std::memcmp(&state.shapes[predicted], &shape, sizeof(Shape)) == 0) {
      known_index = predicted;
    } else {
      hash = hash_shape(shape);
      known_index = state.find(shape, hash);
    }
    seq_change = op.seq - (is_counted(shape) ? state.seqs[seq_slot(shape)] : 0);
    usual = rest.ticket_gap == 0 && known_index != kNoShape && known_index == predicted &&
            seq_change == 0 && rest.returned && !rest.launched && !rest.started && !rest.finished;
  }
  io.flag(usual);
  if (usual) {
    if constexpr (!Io::kWriting) {
      if (predicted == kNoShape) return io.fail();
      shape = state.shapes[predicted];
      rest.returned = true;
    }
    rest.shape_index = predicted;
  } else {
    bool next_ticket = rest.ticket_gap == 0;
    io.flag(next_ticket);
    if (!next_ticket) io.number(rest.ticket_gap, kTicketWidths);
    rest.shape_index = transfer_shape_choice(io, state, shape, hash, known_index, predicted);
    if (io.failed()) return;
    bool expected_seq = seq_change == 0;
    io.flag(expected_seq);
    if (!expected_seq) transfer_change(io, seq_change, 0, kSeqWidths);
    transfer_flags(io, rest);
  }
  transfer_group(io, state, op, shape);
  if constexpr (kWithTimes) {
    transfer_times(io, state, op, rest, time_shift);
  } else {
    skip_times(io, state, rest);
  }
  if constexpr (!Io::kWriting) {
    apply_shape(shape, op);
    const uint64_t ticket = state.ticket + 1 + rest.ticket_gap;
    if (ticket <= state.ticket || ticket >> 56 != 0) return io.fail();
    op.publish = publish_word(ticket, Phase::settled);
    op.seq = seq_change + (is_counted(shape) ? state.seqs[seq_slot(shape)] : 0);
  }
  if (is_counted(shape)) state.seqs[seq_slot(shape)] = op.seq + 1;
  if (state.last_shape != kNoShape) {
    state.memories[state.last_shape].successor = rest.shape_index;
  }
  state.last_shape = rest.shape_index;
  state.ticket = ticket_of(op.publish);
}

OpCodecState* state_in(std::span<std::byte> storage) noexcept {
  if (!ROLLCALL_CHECK(storage.size() >= sizeof(OpCodecState))) return nullptr;
  auto* state = new (static_cast<void*>(storage.data())) OpCodecState;
  state->clear();
  return state;
}

}  // namespace

OpEncoder::OpEncoder(std::span<std::byte> storage, uint32_t time_shift) noexcept
    : state_(state_in(storage)), time_shift_(time_shift & 63) {}

void OpEncoder::begin_block() noexcept {
  if (state_ != nullptr) state_->clear();
}

size_t OpEncoder::encode(const OpRecord& op, std::span<uint8_t> out) noexcept {
  if (state_ == nullptr || out.size() < kOpCodedBytesMax) return 0;
  if (!ROLLCALL_CHECK(ticket_of(op.publish) > state_->ticket)) return 0;
  OpRecord copy = op;
  BitWriter writer(out.first(kOpCodedBytesMax));
  transfer_record<true>(writer, *state_, copy, time_shift_);
  const size_t bytes = writer.finish();
  ROLLCALL_CHECK(bytes != 0);
  return bytes;
}

OpDecoder::OpDecoder(std::span<std::byte> storage, uint32_t time_shift) noexcept
    : state_(state_in(storage)), time_shift_(time_shift & 63) {}

void OpDecoder::begin_block() noexcept {
  if (state_ != nullptr) state_->clear();
}

size_t OpDecoder::decode(std::span<const uint8_t> body, OpRecord& op) noexcept {
  if (state_ == nullptr || body.empty()) return 0;
  OpRecord result{};
  BitReader reader(body);
  transfer_record<true>(reader, *state_, result, time_shift_);
  const size_t bytes = reader.finish();
  if (bytes != 0) op = result;
  return bytes;
}

size_t OpDecoder::decode_timeless(std::span<const uint8_t> body, OpRecord& op) noexcept {
  if (state_ == nullptr || body.empty()) return 0;
  BitReader reader(body);
  transfer_record<false>(reader, *state_, op, time_shift_);
  return reader.finish();
}

}  // namespace rollcall
