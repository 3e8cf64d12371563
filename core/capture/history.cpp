#include "core/capture/history.h"

#include <algorithm>
#include <cstring>

#include "core/format/digest.h"
#include "core/format/record_check.h"

namespace rollcall::capture {

namespace {

// Marks of a ticket in the late list. Tickets have 56 bits.
constexpr uint64_t kSeen = uint64_t{1} << 63;     // its record was read, and is in the digest
constexpr uint64_t kClaimed = uint64_t{1} << 62;  // its slot was claimed: there will be a record
constexpr uint64_t kMarks = kSeen | kClaimed;

// The newest operations are likely to be in flight still. Leaving a few in the ring keeps them out
// of the late list, which costs a block of its own.
constexpr uint32_t kSlackMax = 256;

}  // namespace

void History::begin(const ring::Slots<OpRecord>& slots, const Options& options) noexcept {
  slots_ = slots;
  block_.begin(options.time_shift);
  tail_ = head_ = options.first_ticket;
  counts_ = {};
  late_count_ = digest_count_ = 0;
  for (CommDigest& comm : comm_digests_) comm = {kDigestStart, 0, 0, 0};
}

uint32_t History::block_tickets() const noexcept {
  const uint64_t quarter = (slots_.mask + 1) / 4;
  return static_cast<uint32_t>(std::min<uint64_t>(kBlockRecordsMax, quarter));
}

// The counter is in the file, and the job may have written anything over it. One that fell back is
// waited for; of one that jumped ahead no ticket is believed but those that the ring has room for.
uint64_t History::tickets_behind(uint64_t ticket) const noexcept {
  const uint64_t next_untrusted = load_acquire(*slots_.next_ticket);
  return next_untrusted > ticket ? next_untrusted - ticket : 0;
}

bool History::block_is_due() const noexcept {
  const uint32_t tickets = block_tickets();
  const uint64_t slack = std::min(kSlackMax, tickets / 4);
  return tickets_behind(tail_) >= tickets + slack;
}

bool History::late_is_urgent() const noexcept {
  if (late_count_ == 0) return false;
  return tickets_behind(late_[0] & ~kMarks) > (slots_.mask + 1) / 2;
}

void History::look_ahead() noexcept {
  const uint64_t behind = tickets_behind(tail_);
  head_ = tail_ + behind;
  if (behind <= kTicketsBehindMax) return;
  counts_.lost += slots_.mask + 1;
  tail_ = head_ - (slots_.mask + 1);
}

History::Found History::look_at(uint64_t ticket, OpRecord& record) const noexcept {
  const OpRecord& slot = slots_.records[ticket & slots_.mask];
  const auto copy = copy_record(slot);
  const uint64_t word = copy.publish_before_untrusted;
  if (ticket_of(word) > ticket) return Found::gone;
  if (ticket_of(word) < ticket) return Found::not_yet;
  const uint8_t phase = phase_number_of(word);
  if (phase == static_cast<uint8_t>(Phase::writing)) return Found::claimed;
  // Changed while it was copied: overwritten, or settled, which changes no argument.
  if (ticket_of(copy.publish_after_untrusted) != ticket) return Found::gone;
  record = copy.record;
  if (word != copy.publish_after_untrusted) return Found::in_flight;
  return phase == static_cast<uint8_t>(Phase::settled) ? Found::settled : Found::in_flight;
}

bool History::add_record(const OpRecord& record, const RecordObserver* observer) noexcept {
  if (!block_.add(record)) {
    ++counts_.lost;
    return false;
  }
  ++counts_.records;
  if (observer != nullptr) observer->observe(observer->context, record);
  return true;
}

void History::keep_for_later(uint64_t ticket, uint64_t marks) noexcept {
  // Most tickets that nobody has claimed by now never will be: they do not take the room of those
  // that are in flight. A reader finds out by itself what is missing.
  if (marks == 0 && late_count_ >= kLateOpsMax / 2) return;
  if (late_count_ == kLateOpsMax) {
    ++counts_.late_overflow;
    return;
  }
  late_[late_count_++] = ticket | marks;
}

std::span<const uint8_t> History::next_block(bool everything,
                                             const RecordObserver* observer) noexcept {
  look_ahead();
  if (!everything && !block_is_due()) return {};
  block_.clear();
  const uint32_t limit = block_tickets();
  for (; tail_ < head_ && block_.records() < limit; ++tail_) {
    OpRecord record;
    switch (look_at(tail_, record)) {
      case Found::settled:
        if (add_record(record, observer)) digest(record);
        break;
      case Found::in_flight:
        digest_unsettled(record);  // its arguments are final already, and seq order matters here
        keep_for_later(tail_, kSeen);
        break;
      case Found::claimed:
        keep_for_later(tail_, kClaimed);
        break;
      case Found::not_yet:
        keep_for_later(tail_, 0);
        break;
      case Found::gone:
        ++counts_.lost;
        break;
    }
  }
  return block_.seal(BlockType::ops);
}

std::span<const uint8_t> History::next_late_block(const RecordObserver* observer) noexcept {
  if (late_count_ == 0) return {};
  head_ = tail_ + tickets_behind(tail_);
  block_.clear();
  uint32_t kept = 0;
  for (uint32_t i = 0; i < late_count_; ++i) {
    const bool seen = (late_[i] & kSeen) != 0;
    const uint64_t ticket = late_[i] & ~kMarks;
    if (block_.records() == kBlockRecordsMax) {
      late_[kept++] = late_[i];
      continue;
    }
    OpRecord record;
    switch (look_at(ticket, record)) {
      case Found::settled:
        if (add_record(record, observer) && !seen) digest(record);
        break;
      case Found::in_flight:
        if (!seen) digest_unsettled(record);
        late_[kept++] = ticket | kSeen;
        break;
      case Found::claimed:
        late_[kept++] = ticket | kClaimed;
        break;
      case Found::not_yet:
        // One lap later the slot cannot be claimed with this ticket any more.
        if (head_ - ticket <= slots_.mask) late_[kept++] = late_[i];
        break;
      case Found::gone:
        // Seen once and gone: it settled and was overwritten between two passes. Never seen: its
        // ticket was stepped over.
        if ((late_[i] & kMarks) != 0) ++counts_.lost;
        break;
    }
  }
  late_count_ = kept;
  return block_.seal(BlockType::late_ops);
}

// What the job has scribbled over is no call.
void History::digest_unsettled(const OpRecord& record) noexcept {
  if (record_is_valid(record, RecordBounds{})) digest(record);
}

void History::digest(const OpRecord& record) noexcept {
  if (record.comm_index >= kCommsMax || !is_collective(record.kind)) return;
  if ((record.flags & kOpSimulated) != 0) return;
  CommDigest& comm = comm_digests_[record.comm_index];
  if (record.seq != comm.next_seq) comm.gap = 1;
  if (record.seq % kDigestPeriod == 0 && record.seq != 0 && digest_count_ < kDigestsMax) {
    digests_[digest_count_++] = {.comm_index = record.comm_index,
                                 .gap = comm.gap,
                                 .seq = record.seq,
                                 .digest = comm.digest,
                                 .ticket = ticket_of(record.publish)};
  }
  comm.digest = extend_digest(comm.digest, record);
  comm.next_seq = record.seq + 1;
}

std::span<const uint8_t> History::next_digest_block() noexcept {
  if (digest_count_ == 0) return {};
  const size_t body_bytes = digest_count_ * sizeof(DigestRecord);
  std::memcpy(digest_block_ + sizeof(BlockHeader), digests_, body_bytes);
  const std::span<uint8_t> block = std::span(digest_block_).first(sizeof(BlockHeader) + body_bytes);
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  for (uint32_t i = 0; i < digest_count_; ++i) {
    first = std::min(first, digests_[i].ticket);
    last = std::max(last, digests_[i].ticket);
  }
  seal_block(block, BlockType::digests, digest_count_, first, last);
  digest_count_ = 0;
  return block;
}

History::Counts History::take_counts() noexcept {
  const Counts counts = counts_;
  counts_ = {};
  return counts;
}

}  // namespace rollcall::capture
