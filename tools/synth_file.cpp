#include "tools/synth_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/text.h"
#include "core/format/digest.h"
#include "core/format/file_name.h"
#include "core/format/header_check.h"
#include "core/format/op_codec.h"
#include "core/format/segment_layout.h"

namespace rollcall::tools {
namespace {

// Times are nanoseconds of a clock that starts here, so that the same arguments give the same
// bytes.
constexpr uint64_t kStartTicks = 1'000'000'000;
constexpr uint64_t kStartRealtimeNs = 1'700'000'000'000'000'000;
constexpr uint64_t kSetupNs = 10'000'000;
constexpr uint64_t kCallNs = 10'000;
constexpr uint64_t kReturnNs = 2'000;
constexpr uint64_t kStepNs = 100'000'000;
constexpr uint64_t kStallNs = 60'000'000'000;
constexpr uint32_t kTimeShift = 8;
constexpr uint32_t kRanksPerHost = 8;
constexpr uint32_t kTenthOfSecondNs = 100'000'000;

// Small, so that large runs fit on a disk. As in a recorder's ring, the newest quarter is not in
// the history yet, and the rest is in both.
constexpr RingGeometry kGeometry{.ring_slots = 2 * kDigestPeriod,
                                 .event_slots = 16,
                                 .comms_max = 16,
                                 .threads_max = 4,
                                 .meta_bytes_max = 4096,
                                 .graphs_max = 0,
                                 .kernel_phase_slots = 0};

}  // namespace

// What is too large for the stack and worth keeping between ranks.
struct SynthWriter::Buffers {
  alignas(64) std::byte codec[kOpCodecStateBytes];
  std::vector<uint8_t> block =
      std::vector<uint8_t>(sizeof(BlockHeader) + size_t{kBlockRecordsMax} * kOpCodedBytesMax);
};

namespace {

// The segment of one rank: blocks of operations, and digests beside them.
class SegmentStream {
 public:
  SegmentStream(const OpenDirectory& directory, std::string name, const FileHeader& owner,
                std::span<std::byte> codec, std::vector<uint8_t>& block)
      : directory_(directory),
        name_(std::move(name)),
        owner_(owner),
        encoder_(codec, kTimeShift),
        block_(block) {
    digests_.resize(kGeometry.comms_max, kDigestStart);
  }

  void add(const OpRecord& record) {
    if (records_ == 0) begin_block(record);
    take_digest(record);
    used_ += encoder_.encode(record, std::span(block_).subspan(used_));
    last_ticket_ = ticket_of(record.publish);
    if (++records_ == kBlockRecordsMax) end_block();
  }

  // Number of segments, 0 or 1.
  uint32_t finish() {
    end_block();
    put_digests();
    return file_ ? 1 : 0;
  }
  // False: `why` says what went wrong.
  bool put_in_place(std::string& why) {
    if (!file_ || file_->put_in_place()) return true;
    why = file_->why();
    return false;
  }

 private:
  void put_digests() {
    for (size_t at = 0; at < pending_.size(); at += kBlockRecordsMax) {
      const size_t count = std::min<size_t>(kBlockRecordsMax, pending_.size() - at);
      const std::span<const DigestRecord> some = std::span(pending_).subspan(at, count);
      uint64_t first = UINT64_MAX;
      uint64_t last = 0;
      for (const DigestRecord& digest : some) {
        first = std::min(first, digest.ticket);
        last = std::max(last, digest.ticket);
      }
      std::vector<uint8_t> body(some.size_bytes());
      std::memcpy(body.data(), some.data(), body.size());
      put_block(BlockType::digests, static_cast<uint32_t>(count), first, last, body);
    }
    pending_.clear();
  }

  void begin_block(const OpRecord& record) {
    encoder_.begin_block();
    used_ = 0;
    first_ticket_ = ticket_of(record.publish);
  }

  void take_digest(const OpRecord& record) {
    if (!is_collective(record.kind)) return;
    uint64_t& digest = digests_[record.comm_index];
    if (record.seq != 0 && record.seq % kDigestPeriod == 0) {
      pending_.push_back({.comm_index = record.comm_index,
                          .gap = 0,
                          .seq = record.seq,
                          .digest = digest,
                          .ticket = ticket_of(record.publish)});
    }
    digest = extend_digest(digest, record);
  }

  void end_block() {
    if (records_ == 0) return;
    put_block(BlockType::ops, records_, first_ticket_, last_ticket_,
              std::span(block_).first(used_));
    records_ = 0;
  }

  void put_block(BlockType type, uint32_t records, uint64_t first, uint64_t last,
                 std::span<const uint8_t> body) {
    if (!file_) open();
    BlockHeader header{};
    header.magic = kBlockMagic;
    header.type = type;
    header.body_bytes = header.raw_bytes = static_cast<uint32_t>(body.size());
    header.record_count = records;
    header.body_crc = crc32c(body.data(), body.size());
    header.first_ticket = first;
    header.last_ticket = last;
    header.header_crc = crc32c(&header, offsetof(BlockHeader, header_crc));
    append(&header, sizeof header);
    append(body.data(), body.size());
  }

  void open() {
    file_.emplace(directory_, name_, Privacy::own);
    SegmentHeader header{};
    header.magic = kSegmentMagic;
    header.version = kSegmentVersion;
    header.endian_mark = kEndianMark;
    header.pid = owner_.pid;
    header.start_time_ticks = owner_.start_time_ticks;
    header.time_shift = kTimeShift;
    append(&header, sizeof header);
  }

  void append(const void* data, size_t bytes) {
    file_->write_at(offset_, data, bytes);
    offset_ += bytes;
  }

  const OpenDirectory& directory_;
  const std::string name_;
  const FileHeader& owner_;
  OpEncoder encoder_;
  std::vector<uint8_t>& block_;
  std::optional<OutputFile> file_;
  uint64_t offset_ = 0;
  uint32_t records_ = 0;
  size_t used_ = 0;
  uint64_t first_ticket_ = 0;
  uint64_t last_ticket_ = 0;
  std::vector<uint64_t> digests_;
  std::vector<DigestRecord> pending_;
};

// One rank's calls in order, with their positions and times, and the tables of its ring.
class RankWriter {
 public:
  RankWriter(const SynthJob& job, uint32_t number, SegmentStream& segment, FileHeader& header)
      : rank_(job.rank(number)), number_(number), segment_(segment), header_(header) {
    seq_.resize(rank_.comms.size());
    sends_.resize(rank_.comms.size());
    recvs_.resize(rank_.comms.size());
    ring_.resize(kGeometry.ring_slots);
    comms_.resize(rank_.comms.size());
    events_.resize(kGeometry.event_slots);
  }

  // Writes the history on the way; `total` is the number of calls in all.
  void run() {
    fill_comms();
    total_ = rank_.setup_calls + rank_.steps * rank_.step.size() + rank_.last.size();
    const SynthCall parameters{
        .kind = OpKind::Broadcast, .datatype = 9, .root_or_peer = 0, .comm = 0, .count = 65536};
    for (uint64_t i = 0; i < rank_.setup_calls; ++i) call(parameters);
    for (uint64_t step = 0; step < rank_.steps; ++step) {
      begin_step(step);
      for (const SynthCall& one : rank_.step) call(one);
    }
    begin_step(rank_.steps);
    for (const SynthCall& one : rank_.last) call(one);
    end();
  }

  uint64_t calls() const { return total_; }

  void write_ring(OutputFile& file) const {
    file.set_size(header_.file_bytes);
    const std::string meta = meta_text();
    FileHeader header = header_;
    header.meta_bytes = static_cast<uint32_t>(meta.size());
    file.write_at(header.meta.offset, meta.data(), meta.size());
    const ThreadEntry thread{
        .tid = header.pid, .open_block = 0, .first_ticks = kStartTicks, .name = "synth"};
    file.write_at(header.threads.offset, &thread, sizeof thread);
    file.write_at(header.comms.offset, comms_.data(), comms_.size() * sizeof(CommEntry));
    file.write_at(header.events.offset, events_.data(), events_.size() * sizeof(EventRecord));
    file.write_at(header.ops.offset, ring_.data(), ring_.size() * sizeof(OpRecord));
    header.magic = kRingMagic;
    file.write_at(0, &header, sizeof header);
  }

 private:
  void begin_step(uint64_t step) {
    // A rank's clock and pace differ a little from the next one's.
    now_ = std::max(now_, kStartTicks + kSetupNs * 2 + rank_.setup_calls * kCallNs +
                              step * kStepNs + number_ % 97 * 1000) +
           rank_.delay_ns;
  }

  void call(const SynthCall& one) {
    now_ += kCallNs;
    OpRecord record{};
    record.publish = publish_word(header_.next_ticket, Phase::settled);
    record.called_ticks = now_;
    record.returned_ticks = now_ + kReturnNs;
    record.count = one.count;
    record.send_address = 0x7f0000000000;
    record.recv_address = 0x7f0100000000;
    record.stream = 1;
    record.caller = 0x400000 + static_cast<uint64_t>(one.kind) * 64;
    record.comm_index = one.comm;
    record.root_or_peer = one.root_or_peer;
    record.kind = one.kind;
    record.datatype = one.datatype;
    record.reduction = one.reduction;
    record.seq = next_position(one);
    CommEntry& comm = comms_[one.comm];
    comm.last_ticket = header_.next_ticket;
    ring_[header_.next_ticket & (kGeometry.ring_slots - 1)] = record;
    if (header_.next_ticket + kGeometry.ring_slots / 4 <= total_) {
      segment_.add(record);
      ++header_.flushed_ticket;
    }
    ++header_.next_ticket;
  }

  uint64_t next_position(const SynthCall& one) {
    CommEntry& comm = comms_[one.comm];
    if (is_collective(one.kind)) return comm.collectives++;
    const bool is_send = one.kind == OpKind::Send;
    ++(is_send ? comm.sends : comm.recvs);
    return (is_send ? sends_ : recvs_)[one.comm][one.root_or_peer]++;
  }

  void fill_comms() {
    for (size_t i = 0; i < rank_.comms.size(); ++i) {
      const SynthComm& from = rank_.comms[i];
      CommEntry& to = comms_[i];
      to.state =
          static_cast<uint32_t>(from.is_pending ? CommState::initialising : CommState::ready);
      to.origin = from.is_split ? CommOrigin::split : CommOrigin::init;
      to.key = from.key;
      to.parent_key = from.parent_key;
      to.handle = 0x5500000000 + i * 4096;
      to.parent_index = from.is_split ? 0 : kCommUnknown;
      to.child_number = from.child_number;
      to.nranks = from.is_pending && from.is_split ? -1 : from.nranks;
      to.rank = from.is_pending && from.is_split ? -1 : from.rank;
      to.device = static_cast<int32_t>(number_ % kRanksPerHost);
      to.colour = from.colour;
      to.created_ticks = now_ + kSetupNs / 10 * i;
      if (!from.is_pending) to.ready_ticks = to.created_ticks + kSetupNs / 20;
      EventRecord event{};
      event.kind = from.is_split ? EventKind::CommSplit : EventKind::CommInitRank;
      event.arguments[0] = from.is_split ? from.colour : from.nranks;
      event.arguments[1] = from.rank;
      event.arguments[2] = from.is_split ? from.child_number : 1;
      if (from.is_split) event.arguments[3] = static_cast<int64_t>(i);
      event.comm_index = from.is_split ? 0 : static_cast<uint32_t>(i);
      add_event(event, to.created_ticks, to.ready_ticks);
    }
    header_.comm_count = static_cast<uint32_t>(rank_.comms.size());
    header_.thread_count = 1;
  }

  void add_event(EventRecord event, uint64_t called_ticks, uint64_t returned_ticks) {
    const uint64_t ticket = header_.next_event_ticket++;
    event.publish = publish_word(ticket, returned_ticks == 0 ? Phase::called : Phase::settled);
    event.called_ticks = called_ticks;
    event.returned_ticks = returned_ticks;
    event.op_ticket = header_.next_ticket;
    event.result = returned_ticks == 0 ? kResultUnknown : kResultSuccess;
    events_[ticket & (kGeometry.event_slots - 1)] = event;
  }

  void end_comms(CommState state, EventKind kind, uint64_t at) {
    for (uint32_t i = 0; i < comms_.size(); ++i) {
      comms_[i].state = static_cast<uint32_t>(state);
      comms_[i].ended_ticks = at;
      EventRecord event{};
      event.kind = kind;
      event.comm_index = i;
      add_event(event, at, at + kReturnNs);
    }
  }

  void end() {
    // All hung ranks are killed at the same moment, long after the last call.
    const uint64_t killed =
        kStartTicks + kSetupNs * 2 + rank_.setup_calls * kCallNs + rank_.steps * kStepNs + kStallNs;
    header_.heartbeat_ticks = now_ + kTenthOfSecondNs / 20;
    bool exits = true;
    switch (rank_.end) {
      case SynthEnd::clean:
        end_comms(CommState::destroyed, EventKind::CommDestroy, now_ + kCallNs);
        break;
      case SynthEnd::aborted:
        now_ += rank_.aborts_first ? kCallNs : kTenthOfSecondNs;
        end_comms(CommState::aborted, EventKind::CommAbort, now_);
        break;
      case SynthEnd::hung:
        header_.heartbeat_ticks = killed;
        exits = false;
        break;
      case SynthEnd::silent:
        exits = false;
        break;
      case SynthEnd::exited:
        break;
    }
    if (!exits) return;
    header_.exit_state = static_cast<uint32_t>(ExitState::exited);
    header_.exited_ticks = now_ + kTenthOfSecondNs / 20;
  }

  std::string meta_text() const {
    return fmt::format(
        "rollcall_version={}\njob_rank={}\njob_rank_from=RANK\nnccl_version=23007\n"
        "synthetic=1\nexe=rollcall synth\n",
        ROLLCALL_VERSION, number_);
  }

  const SynthRank rank_;
  const uint32_t number_;
  SegmentStream& segment_;
  FileHeader& header_;
  std::vector<uint64_t> seq_;
  std::vector<std::map<int32_t, uint64_t>> sends_, recvs_;  // by communicator and peer
  std::vector<OpRecord> ring_;
  std::vector<CommEntry> comms_;
  std::vector<EventRecord> events_;
  uint64_t total_ = 0;
  uint64_t now_ = kStartTicks + kSetupNs;
};

FileHeader make_header(uint32_t rank) {
  FileHeader header{};
  fill_layout(header, kGeometry);
  header.pid = 100'000 + rank;
  header.parent_pid = 1;
  header.start_time_ticks = 1000 + rank;
  copy_padded(header.host, fmt::format("node{:04}", rank / kRanksPerHost));
  copy_padded(header.boot_id, "synthetic");
  header.clock_kind = ClockKind::monotonic;
  header.first_anchor = {.ticks = kStartTicks,
                         .monotonic_ns = kStartTicks,
                         .realtime_ns = kStartRealtimeNs,
                         .error_ns = 50};
  ClockAnchor later = header.first_anchor;
  later.ticks += 1'000'000'000;
  later.monotonic_ns += 1'000'000'000;
  later.realtime_ns += 1'000'000'000;
  header.anchor_count = 2;
  header.latest_anchor[0] = header.latest_anchor[1] = later;
  header.capture_state = static_cast<uint32_t>(CaptureState::recording);
  header.flushed_ticket = 1;
  return header;
}

}  // namespace

SynthWriter::SynthWriter(const std::string& directory)
    : directory_(directory), buffers_(std::make_unique<Buffers>()) {}
SynthWriter::~SynthWriter() = default;

bool SynthWriter::write(const SynthJob& job, uint32_t rank, std::string& error) {
  FileHeader header = make_header(rank);
  TextBuffer<kFileNameBytes> stem;
  write_stem(stem, {.host = padded_view(header.host),
                    .pid = header.pid,
                    .start_time_ticks = header.start_time_ticks});
  TextBuffer<kFileNameBytes> segment_name;
  write_segment_name(segment_name, {.stem = stem.view()});
  SegmentStream segment(directory_, std::string(segment_name.view()), header, buffers_->codec,
                        buffers_->block);
  RankWriter writer(job, rank, segment, header);
  writer.run();
  header.segment_count = segment.finish();
  const std::string name = fmt::format("{}{}", stem.view(), kRingEnding);
  OutputFile ring(directory_, name, Privacy::own);
  writer.write_ring(ring);
  std::string why;
  // The ring last: whoever reads meanwhile finds its history.
  if (!segment.put_in_place(why) || !ring.put_in_place()) {
    error = fmt::format("{}/{} cannot be written: {}", directory_.path(), name,
                        why.empty() ? ring.why() : why);
    return false;
  }
  calls_ += writer.calls();
  return true;
}

}  // namespace rollcall::tools
