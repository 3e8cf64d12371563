// The readers against files that are whole, cut off, foreign, and scribbled on.
#include <cstring>
#include <functional>
#include <random>

#include "tests/catch.h"
#include "tests/trace/files.h"
#include "trace/ring_reader.h"
#include "trace/segment_reader.h"

namespace rollcall::trace {
namespace reader_test {

using test::make_channel;
using test::make_op;
using test::make_segment;
using test::RingBytes;

bool read(const std::vector<std::byte>& bytes, RingImage& image, std::vector<Issue>& issues) {
  return read_ring(MemorySource(bytes), "x.ring", false, image, issues);
}

uint64_t count_ops(const std::vector<std::byte>& bytes, std::vector<Issue>& issues) {
  uint64_t ops = 0;
  const SegmentSink sink{.op = [&](const OpRecord&) { ++ops; }, .digest = {}};
  read_segment(MemorySource(bytes), "x.segment", {}, sink, issues);
  return ops;
}

TEST_CASE("every published record of a ring is read, by ticket, and nothing else") {
  RingBytes ring;
  for (uint64_t t = 1; t <= 40; ++t) ring.add(make_op(t));
  ring.add(make_op(41, Phase::called));
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read(ring.bytes, image, issues));
  CHECK(issues.empty());
  REQUIRE(image.ops.size() == 41);
  CHECK(ticket_of(image.ops.front().publish) == 1);
  CHECK(image.ops.back().returned_ticks == 0);
  CHECK(image.torn == 0);
}

TEST_CASE("a ring that wrapped holds its newest records") {
  RingBytes ring;
  for (uint64_t t = 1; t <= 100; ++t) ring.add(make_op(t));
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read(ring.bytes, image, issues));
  REQUIRE(image.ops.size() == 64);
  CHECK(ticket_of(image.ops.front().publish) == 37);
}

TEST_CASE("kernel phases are read with their operation, entries that no writer leaves are not") {
  RingBytes ring;
  const auto put = [&](uint64_t place, const KernelPhasesEntry& entry) {
    ring.put(ring.header.kernel_phases.offset + place * sizeof entry, entry);
  };
  put(7, {.ticket = 7, .ns = {1, 2, 3}});
  put(5, {.ticket = 21, .ns = {4, 5, 6}});
  put(8, {.ticket = kKernelPhasesChanging, .ns = {9, 9, 9}});
  put(9, {.ticket = 10, .ns = {9, 9, 9}});  // not its place
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read(ring.bytes, image, issues));
  REQUIRE(image.kernel_phases.size() == 2);
  CHECK(image.kernel_phases[0].ticket == 7);
  CHECK(image.kernel_phases[0].ns[2] == 3);
  CHECK(image.kernel_phases[1].ticket == 21);
  ring.header.kernel_phase_slots = 0;  // a file from before
  ring.store_header();
  RingImage older;
  REQUIRE(read(ring.bytes, older, issues));
  CHECK(older.kernel_phases.empty());
}

TEST_CASE("the sums of channels are read wherever they stand, and a file from before has none") {
  RingBytes ring;
  ring.put_channel(3, make_channel(1));
  ChannelEntry collnet = make_channel(0);
  collnet.comm_index = kCommUnknown;
  collnet.peer = 2;  // behind the last rank: the network
  ring.put_channel(15, collnet);
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read(ring.bytes, image, issues));
  CHECK(issues.empty());
  REQUIRE(image.channels.size() == 2);
  CHECK(image.channels[0].channel == 1);
  CHECK(image.channels[0].steps_done == 3);
  CHECK(image.channels[1].peer == 2);
  ring.header.channels_max = 0;
  ring.header.channels = {};
  ring.store_header();
  RingImage older;
  REQUIRE(read(ring.bytes, older, issues));
  CHECK(older.channels.empty());
  CHECK(issues.empty());
}

TEST_CASE("Malicious_channels that no recorder leaves are left out and counted") {
  const auto scribbled = [](auto scribble) {
    ChannelEntry entry = make_channel(0);
    scribble(entry);
    RingBytes ring;
    ring.put_channel(0, make_channel(7));
    ring.put_channel(5, entry);
    RingImage image;
    std::vector<Issue> issues;
    REQUIRE(read(ring.bytes, image, issues));
    REQUIRE(image.channels.size() == 1);
    CHECK(image.channels[0].channel == 7);
    CHECK(image.unbelievable == 1);
    CHECK(issues.size() == 1);
  };
  scribbled([](ChannelEntry& entry) { entry.state = 2; });
  scribbled([](ChannelEntry& entry) { entry.comm_index = 1; });  // the table has one
  scribbled([](ChannelEntry& entry) { entry.peer = -2; });
  scribbled([](ChannelEntry& entry) { entry.peer = static_cast<int32_t>(kRanksMax) + 1; });
  scribbled([](ChannelEntry& entry) { entry.is_send = 2; });
  scribbled([](ChannelEntry& entry) { entry.waiting = kChannelWaitCount; });
}

// A file that its writer works on: `during` may change what a read has just copied, as if parts of
// it were older, and the file itself.
class LiveSource final : public ByteSource {
 public:
  using Moment = std::function<void(uint64_t offset, std::byte* copied, size_t bytes)>;
  LiveSource(const std::vector<std::byte>& bytes, Moment during)
      : source_(bytes), during_(std::move(during)) {}
  size_t read(uint64_t offset, void* to, size_t bytes) const override {
    const size_t got = source_.read(offset, to, bytes);
    during_(offset, static_cast<std::byte*>(to), got);
    return got;
  }
  uint64_t size() const override { return source_.size(); }

 private:
  MemorySource source_;
  Moment during_;
};

TEST_CASE("a record is not put together from what two moments left in one read") {
  RingBytes ring;
  for (uint64_t t = 1; t <= 68; ++t) ring.add(make_op(t));
  ring.add(make_op(69, Phase::called));
  const OpRecord before = make_op(5);  // of the lap before, in the same slot
  int reads = 0;
  const LiveSource source(ring.bytes, [&](uint64_t offset, std::byte* copied, size_t bytes) {
    const uint64_t at = ring.header.ops.offset + 5 * sizeof(OpRecord);
    if (offset > at || offset + bytes < at + sizeof(OpRecord) || ++reads > 1) return;
    const auto* old = reinterpret_cast<const std::byte*>(&before);
    std::memcpy(copied + (at - offset) + 64, old + 64, 64);
  });
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read_ring(source, "x.ring", true, image, issues));
  CHECK(reads > 1);
  CHECK(issues.empty());
  REQUIRE(image.ops.size() == 64);
  CHECK(ticket_of(image.ops.back().publish) == 69);
  CHECK(image.ops.back().seq == 68);
  CHECK(image.ops.back().result == kResultUnknown);
}

TEST_CASE("a record that never holds still is left out") {
  RingBytes ring;
  for (uint64_t t = 1; t <= 3; ++t) ring.add(make_op(t));
  uint64_t reads = 0;
  const LiveSource source(ring.bytes, [&](uint64_t offset, std::byte* copied, size_t bytes) {
    const uint64_t at = ring.header.ops.offset + 2 * sizeof(OpRecord) + offsetof(OpRecord, count);
    if (offset > at || offset + bytes < at + sizeof(uint64_t)) return;
    ++reads;
    std::memcpy(copied + (at - offset), &reads, sizeof reads);
  });
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read_ring(source, "x.ring", true, image, issues));
  CHECK(image.ops.size() == 2);
  CHECK(reads < 100);
}

TEST_CASE("the clock's anchor is not put together from two of them") {
  RingBytes ring;
  const ClockAnchor older{.ticks = 5, .monotonic_ns = 5, .realtime_ns = 1'000'004, .error_ns = 0};
  const ClockAnchor newer{.ticks = 9, .monotonic_ns = 9, .realtime_ns = 1'000'008, .error_ns = 0};
  ring.header.latest_anchor[1] = newer;
  ring.header.anchor_count = 3;
  ring.store_header();
  int mixed = 0;
  const LiveSource source(ring.bytes, [&](uint64_t offset, std::byte* copied, size_t bytes) {
    const uint64_t count_at = offsetof(FileHeader, anchor_count);
    const uint64_t at = offsetof(FileHeader, latest_anchor) + sizeof(ClockAnchor);
    const uint64_t count = 1;
    // Until the second look the writer is just about to store the newer one.
    if (offset == count_at && mixed < 2) std::memcpy(copied, &count, sizeof count);
    if (offset > at || offset + bytes < at + sizeof(ClockAnchor) || ++mixed > 2) return;
    std::memcpy(copied + (at - offset) + offsetof(ClockAnchor, realtime_ns), &older.realtime_ns,
                sizeof older.realtime_ns);
  });
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read_ring(source, "x.ring", true, image, issues));
  CHECK(mixed > 2);
  CHECK(image.header.anchor_count == 3);
  CHECK(image.header.latest_anchor[1].ticks == 9);
  CHECK(image.header.latest_anchor[1].realtime_ns == 1'000'008);
}

TEST_CASE("a torn last record is dropped and counted once") {
  RingBytes ring;
  ring.add(make_op(1));
  ring.add(make_op(2, Phase::writing));
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read(ring.bytes, image, issues));
  CHECK(image.ops.size() == 1);
  CHECK(image.torn == 1);
  CHECK(image.unbelievable == 0);
}

TEST_CASE("a ring cut off at any byte is read as far as it goes, and says so") {
  RingBytes ring;
  for (uint64_t t = 1; t <= 64; ++t) ring.add(make_op(t));
  size_t before = 0;
  for (size_t length = 0; length < ring.bytes.size(); ++length) {
    const std::vector<std::byte> cut(ring.bytes.begin(),
                                     ring.bytes.begin() + static_cast<ptrdiff_t>(length));
    RingImage image;
    std::vector<Issue> issues;
    const bool usable = read(cut, image, issues);
    if (issues.empty()) FAIL("nothing was said at length " << length);
    if (usable != (length >= sizeof(FileHeader))) FAIL("usable at length " << length);
    if (!usable && !issues.back().unusable) FAIL("not marked at length " << length);
    if (image.ops.size() < before) FAIL("fewer records in a longer file, at " << length);
    before = image.ops.size();
    // What a short file takes along is skipped in large steps where nothing changes.
    if (length > sizeof(FileHeader) && length < ring.header.ops.offset) length += 96;
  }
  CHECK(before > 0);
}

TEST_CASE("a segment cut off at any byte keeps its whole blocks") {
  const RingBytes ring;
  const std::vector<std::byte> whole = make_segment(ring.header, 6, 20);
  std::vector<Issue> none;
  REQUIRE(count_ops(whole, none) == 120);
  REQUIRE(none.empty());
  uint64_t before = 0;
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    std::vector<Issue> issues;
    const uint64_t ops = count_ops(cut, issues);
    if (ops % 20 != 0) FAIL("half a block at length " << length);
    if (ops < before) FAIL("fewer records in a longer file, at " << length);
    const bool on_boundary = issues.empty();
    if (on_boundary && length < sizeof(SegmentHeader)) FAIL("silent at length " << length);
    before = ops;
  }
  CHECK(before == 100);
}

TEST_CASE("a damaged block costs itself, and the blocks behind it are read") {
  const RingBytes ring;
  std::vector<std::byte> bytes = make_segment(ring.header, 3, 20);
  bytes[sizeof(SegmentHeader) + sizeof(BlockHeader) + 3] ^= std::byte{0x40};
  std::vector<Issue> issues;
  CHECK(count_ops(bytes, issues) == 40);
  REQUIRE(issues.size() == 1);
  CHECK(issues[0].lost == 20);
}

TEST_CASE("files of another version, byte order or maker are refused with a reason each") {
  const auto reason = [](auto change) {
    RingBytes ring;
    change(ring);
    RingImage image;
    std::vector<Issue> issues;
    CHECK_FALSE(read(ring.bytes, image, issues));
    REQUIRE(issues.size() == 1);
    CHECK(issues[0].unusable);
    return issues[0].text;
  };
  const std::string version = reason([](RingBytes& ring) {
    ring.header.version = 99;
    ring.store_header();
  });
  const std::string endian = reason([](RingBytes& ring) {
    ring.header.magic = __builtin_bswap64(kRingMagic);
    ring.store_header();
  });
  const std::string foreign = reason([](RingBytes& ring) {
    ring.header.magic = 12345;
    ring.store_header();
  });
  const std::string areas = reason([](RingBytes& ring) {
    ring.header.ops.offset = ~uint64_t{0};
    ring.store_header();
  });
  const std::string unfinished = reason([](RingBytes& ring) {
    ring.header.magic = 0;
    ring.store_header();
  });
  CHECK(version.find("99") != std::string::npos);
  CHECK(endian.find("byte order") != std::string::npos);
  CHECK(foreign != areas);
  CHECK(unfinished.find("look again") != std::string::npos);
}

TEST_CASE("Malicious_records that no recorder writes are left out and counted") {
  RingBytes ring;
  for (uint64_t t = 1; t <= 8; ++t) ring.add(make_op(t));
  OpRecord kind = make_op(2);
  const uint8_t number = 200;
  std::memcpy(&kind.kind, &number, 1);
  ring.add(kind);
  OpRecord comm = make_op(3);
  comm.comm_index = 3;  // the table has one
  ring.add(comm);
  OpRecord slot = make_op(4);
  slot.publish = publish_word(9999, Phase::settled);
  ring.put(ring.header.ops.offset + 4 * sizeof slot, slot);
  RingImage image;
  std::vector<Issue> issues;
  REQUIRE(read(ring.bytes, image, issues));
  CHECK(image.ops.size() == 5);
  CHECK(image.unbelievable == 3);
  REQUIRE(issues.size() == 1);
  CHECK(issues[0].lost == 3);
}

TEST_CASE("Malicious_bytes anywhere never break the readers") {
  RingBytes ring;
  for (uint64_t t = 1; t <= 90; ++t) ring.add(make_op(t));
  for (uint8_t place = 0; place < 16; ++place) ring.put_channel(place, make_channel(place));
  const std::vector<std::byte> segment = make_segment(ring.header, 4, 30);
  std::mt19937_64 random(20260101);
  uint64_t refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::byte> bytes = round % 2 ? segment : ring.bytes;
    const size_t reach = round % 3 == 0 ? std::min<size_t>(bytes.size(), 600) : bytes.size();
    for (uint64_t i = 0; i < 1 + random() % 24; ++i) {
      bytes[random() % reach] = static_cast<std::byte>(random());
    }
    std::vector<Issue> issues;
    if (round % 2) {
      refused += count_ops(bytes, issues) < 120;
    } else {
      RingImage image;
      refused += !read(bytes, image, issues);
      if (image.ops.size() > 64) FAIL("more records than slots");
      for (const ChannelEntry& entry : image.channels) {
        if (entry.waiting >= kChannelWaitCount) FAIL("a wait without a name");
      }
    }
  }
  CHECK(refused > 100);
}

}  // namespace reader_test
}  // namespace rollcall::trace
