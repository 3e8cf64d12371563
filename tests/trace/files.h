// Ring and segment files made in memory, byte by byte as the format says, for the readers' tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/crc32c.h"
#include "core/format/digest.h"
#include "core/format/header_check.h"
#include "core/format/op_codec.h"
#include "core/format/ring_layout.h"
#include "core/format/segment_layout.h"

namespace rollcall::test {

// The sends to rank 1: two operations of which one is over, with three steps.
inline ChannelEntry make_channel(uint8_t number) {
  ChannelEntry entry{};
  entry.state = 1;
  entry.comm_index = 0;
  entry.peer = 1;
  entry.channel = number;
  entry.is_send = 1;
  entry.waiting = static_cast<uint8_t>(ChannelWait::send_peer);
  entry.operations_started = 2;
  entry.operations_done = 1;
  entry.steps_done = 3;
  entry.bytes = 4096;
  entry.waiting_since_ticks = 5000;
  entry.wait_ticks[static_cast<size_t>(ChannelWait::send_gpu)] = 600;
  entry.wait_ticks[static_cast<size_t>(ChannelWait::send_network)] = 900;
  return entry;
}

inline OpRecord make_op(uint64_t ticket, Phase phase = Phase::settled) {
  OpRecord op{};
  op.publish = publish_word(ticket, phase);
  op.called_ticks = 1000 * ticket;
  op.returned_ticks = phase == Phase::called ? 0 : 1000 * ticket + 500;
  op.count = 64;
  op.seq = ticket - 1;
  op.root_or_peer = -1;
  op.result = phase == Phase::called ? kResultUnknown : kResultSuccess;
  op.kind = OpKind::AllReduce;
  op.datatype = 7;
  op.reduction = 0;
  return op;
}

struct RingBytes {
  RingGeometry geometry{.ring_slots = 64,
                        .event_slots = 16,
                        .comms_max = 4,
                        .threads_max = 4,
                        .meta_bytes_max = 256,
                        .channels_max = 16,
                        .graphs_max = 512,
                        .kernel_phase_slots = 16};
  FileHeader header{};
  std::vector<std::byte> bytes;

  explicit RingBytes(uint32_t pid = 4711, int rank = 0, uint64_t run_id = 1) {
    fill_layout(header, geometry);
    header.magic = kRingMagic;
    header.pid = pid;
    header.start_time_ticks = 77;
    header.run_id = run_id;
    header.clock_kind = ClockKind::monotonic;
    header.first_anchor = {.ticks = 1, .monotonic_ns = 1, .realtime_ns = 1'000'000, .error_ns = 0};
    std::memcpy(header.host, "node0", 6);
    std::memcpy(header.boot_id, "another-boot", 13);
    header.capture_state = static_cast<uint32_t>(CaptureState::recording);
    bytes.resize(header.file_bytes);
    add_meta("job_rank=" + std::to_string(rank));
    add_meta("exe=/bin/t\\nest");
    CommEntry comm{};
    comm.state = static_cast<uint32_t>(CommState::ready);
    comm.origin = CommOrigin::init;
    comm.key = {1, 2};
    comm.parent_index = kCommUnknown;
    comm.nranks = 2;
    comm.rank = rank;
    put(header.comms.offset, comm);
    header.comm_count = 1;
    header.thread_count = 1;
    store_header();
  }

  template <typename T>
  void put(uint64_t offset, const T& value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
  void put_channel(uint64_t place, const ChannelEntry& entry) {
    put(header.channels.offset + place * sizeof entry, entry);
  }
  void put_graph(uint64_t place, const GraphEntry& entry) {
    put(header.graphs.offset + place * sizeof entry, entry);
  }
  void store_header() { put(0, header); }
  void add_meta(const std::string& line) {
    std::memcpy(bytes.data() + header.meta.offset + header.meta_bytes, line.data(), line.size());
    header.meta_bytes += static_cast<uint32_t>(line.size()) + 1;
    put(header.meta.offset + header.meta_bytes - 1, '\n');
    store_header();
  }
  // What NCCL said of the communicator when it was asked last.
  void set_async_state(int16_t state) {
    put(header.comms.offset + offsetof(CommEntry, async_state), static_cast<uint64_t>(state));
  }
  void add(const EventRecord& event) {
    const uint64_t ticket = ticket_of(event.publish);
    put(header.events.offset + (ticket & (header.event_slots - 1)) * sizeof event, event);
    if (ticket >= header.next_event_ticket) header.next_event_ticket = ticket + 1;
    store_header();
  }
  void add(const OpRecord& op) {
    const uint64_t ticket = ticket_of(op.publish);
    put(header.ops.offset + (ticket & (header.ring_slots - 1)) * sizeof op, op);
    if (ticket >= header.next_ticket) header.next_ticket = ticket + 1;
    store_header();
  }
};

// A segment of the ring above, block by block.
class SegmentBytes {
 public:
  explicit SegmentBytes(const FileHeader& ring) {
    SegmentHeader header{};
    header.magic = kSegmentMagic;
    header.version = kSegmentVersion;
    header.endian_mark = kEndianMark;
    header.pid = ring.pid;
    header.start_time_ticks = ring.start_time_ticks;
    header.run_id = ring.run_id;
    append(&header, sizeof header);
  }

  void add_ops(const std::vector<OpRecord>& ops) {
    encoder_.begin_block();
    std::vector<uint8_t> body;
    for (const OpRecord& op : ops) {
      uint8_t coded[kOpCodedBytesMax];
      const size_t size = encoder_.encode(op, coded);
      body.insert(body.end(), coded, coded + size);
    }
    add_block(BlockType::ops, ops.size(), ticket_of(ops.front().publish),
              ticket_of(ops.back().publish), body.data(), body.size());
  }

  void add_digests(const std::vector<DigestRecord>& digests) {
    add_block(BlockType::digests, digests.size(), digests.front().ticket, digests.back().ticket,
              digests.data(), digests.size() * sizeof(DigestRecord));
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  struct alignas(64) Storage {
    std::byte bytes[kOpCodecStateBytes];
  };

  void add_block(BlockType type, size_t records, uint64_t first_ticket, uint64_t last_ticket,
                 const void* body, size_t body_bytes) {
    BlockHeader block{};
    block.magic = kBlockMagic;
    block.type = type;
    block.first_ticket = first_ticket;
    block.last_ticket = last_ticket;
    block.record_count = static_cast<uint32_t>(records);
    block.body_bytes = block.raw_bytes = static_cast<uint32_t>(body_bytes);
    block.body_crc = crc32c(body, body_bytes);
    block.header_crc = crc32c(&block, offsetof(BlockHeader, header_crc));
    append(&block, sizeof block);
    append(body, body_bytes);
  }

  void append(const void* data, size_t size) {
    const auto* at = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), at, at + size);
  }

  std::vector<std::byte> bytes_;
  std::unique_ptr<Storage> storage_ = std::make_unique<Storage>();
  OpEncoder encoder_{storage_->bytes, 0};
};

// A segment of `blocks` blocks of `per_block` operations from ticket 1 on.
inline std::vector<std::byte> make_segment(const FileHeader& ring, uint32_t blocks,
                                           uint32_t per_block) {
  SegmentBytes segment(ring);
  uint64_t ticket = 1;
  for (uint32_t block = 0; block < blocks; ++block) {
    std::vector<OpRecord> ops;
    for (uint32_t i = 0; i < per_block; ++i) ops.push_back(make_op(ticket++));
    segment.add_ops(ops);
  }
  return segment.bytes();
}

// What a rank of two leaves on disk that made `calls` calls, of which those from seq `differs_from`
// on have another count. The ring holds the newest 64, the segment all but the newest 16, with the
// recorder's digests.
struct RankFiles {
  std::string ring_name;
  std::string segment_name;
  std::string captured_name;
  std::vector<std::byte> ring;
  std::vector<std::byte> segment;
};
inline RankFiles make_rank(uint32_t rank, uint64_t calls, uint64_t differs_from = UINT64_MAX) {
  constexpr uint64_t kInRingOnly = 16;
  const uint32_t pid = 4711 + rank;
  RingBytes ring(pid, static_cast<int>(rank));
  std::vector<OpRecord> history;
  std::vector<DigestRecord> digests;
  uint64_t digest = kDigestStart;
  for (uint64_t ticket = 1; ticket <= calls; ++ticket) {
    OpRecord op = make_op(ticket);
    if (op.seq >= differs_from) op.count = 65;
    ring.add(op);
    if (ticket + kInRingOnly > calls) continue;
    if (op.seq != 0 && op.seq % kDigestPeriod == 0) {
      digests.push_back(
          {.comm_index = 0, .gap = 0, .seq = op.seq, .digest = digest, .ticket = ticket});
    }
    digest = extend_digest(digest, op);
    history.push_back(op);
  }
  ring.put(ring.header.comms.offset + offsetof(CommEntry, collectives), calls);
  ring.put_channel(rank % ring.header.channels_max, make_channel(static_cast<uint8_t>(rank)));
  SegmentBytes segment(ring.header);
  segment.add_ops(history);
  segment.add_digests(digests);
  const std::string stem = "node0." + std::to_string(pid) + ".4d";
  return {.ring_name = stem + ".ring",
          .segment_name = stem + ".000000.segment",
          .captured_name = stem + ".000000.captured",
          .ring = std::move(ring.bytes),
          .segment = segment.bytes()};
}

// A captured segment for it: its first four calls went into a graph, which its `launch`th ticket
// replays.
inline std::vector<std::byte> capture_first_calls(uint64_t launch, RankFiles& files) {
  FileHeader header{};
  std::memcpy(&header, files.ring.data(), sizeof header);
  GraphEntry entry{};
  entry.state = 1;
  entry.graph = 1;
  entry.operations = 4;
  std::memcpy(files.ring.data() + header.graphs.offset, &entry, sizeof entry);
  OpRecord replay = make_op(launch);
  replay.kind = OpKind::GraphLaunch;
  replay.comm_index = kCommUnknown;
  replay.graph = 1;
  const uint64_t slot = launch & (header.ring_slots - 1);
  std::memcpy(files.ring.data() + header.ops.offset + slot * sizeof replay, &replay, sizeof replay);
  std::vector<OpRecord> ops;
  for (uint64_t ticket = 1; ticket <= 4; ++ticket) {
    ops.push_back(make_op(ticket));
    ops.back().graph = 1;
  }
  SegmentBytes segment(header);
  segment.add_ops(ops);
  return segment.bytes();
}

// A run directory that is gone with its test.
class Directory {
 public:
  Directory() {
    char name[] = "/tmp/rollcall-trace-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  void write(const std::string& name, const std::vector<std::byte>& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + "/" + name).parent_path());
    std::ofstream file(path_ + "/" + name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rollcall::test
