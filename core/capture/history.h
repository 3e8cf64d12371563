// What goes from the ring into history, and when: the policy, without threads and files.
//
// The policy walks the tickets in order. A ticket is settled (coded into a block), in flight (kept
// in the list of late operations and looked at again in every pass), stepped over (its slot was
// held by an older operation: there never was a record), or overwritten (lost, and counted).
//
// Threads: one at a time. Reads the ring while others write it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/limits.h"
#include "core/capture/op_block.h"
#include "core/format/segment_layout.h"
#include "core/ring/slot.h"

namespace rollcall::capture {

// Of one block: a communicator may need few more calls for its next one.
inline constexpr uint32_t kDigestsMax = kCommsMax + kBlockRecordsMax / kDigestPeriod;

// More tickets than this between two looks were never drawn: at ten million a second, minutes.
inline constexpr uint64_t kTicketsBehindMax = uint64_t{1} << 32;

// Sees every record as it is coded. No virtual function: the sanitizer asks the kernel about the
// object of each such call, and takes it for broken in a job that has no descriptors left.
struct RecordObserver {
  void (*observe)(void* context, const OpRecord& op) noexcept = nullptr;
  void* context = nullptr;
};

class History {
 public:
  struct Counts {
    uint64_t records = 0;
    uint64_t lost = 0;
    uint64_t late_overflow = 0;
  };
  struct Options {
    uint32_t time_shift = 0;
    uint64_t first_ticket = 1;
  };

  // The object is large (a megabyte): it lives in zeroed memory of its own, and is never copied.
  void begin(const ring::Slots<OpRecord>& slots, const Options& options) noexcept;

  // Whole blocks of settled operations wait in the ring.
  bool block_is_due() const noexcept;
  // Codes the next operations into a block; empty when there is none. `everything`: also a block
  // that is not full. The block stays valid until the next call of a next_* function.
  std::span<const uint8_t> next_block(bool everything, const RecordObserver* observer) noexcept;
  // Operations of the late list that have settled since.
  std::span<const uint8_t> next_late_block(const RecordObserver* observer) noexcept;
  // The oldest of the list is half a lap old: its slot may be taken again before all blocks that
  // are due are written, if others rush on meanwhile.
  bool late_is_urgent() const noexcept;
  // Digests that the blocks so far completed.
  std::span<const uint8_t> next_digest_block() noexcept;

  // Everything below is in a block, lost, or late.
  uint64_t tail() const noexcept { return tail_; }
  uint32_t late_count() const noexcept { return late_count_; }
  // What happened since the last call.
  Counts take_counts() noexcept;

 private:
  enum class Found : uint8_t { settled, in_flight, claimed, not_yet, gone };
  struct CommDigest {
    uint64_t digest;
    uint64_t next_seq;
    uint32_t gap;
    uint32_t reserved;
  };

  uint64_t tickets_behind(uint64_t ticket) const noexcept;
  void look_ahead() noexcept;
  Found look_at(uint64_t ticket, OpRecord& record) const noexcept;
  uint32_t block_tickets() const noexcept;
  // False where it is no record.
  bool add_record(const OpRecord& record, const RecordObserver* observer) noexcept;
  void keep_for_later(uint64_t ticket, uint64_t marks) noexcept;
  void digest(const OpRecord& record) noexcept;  // a valid one
  void digest_unsettled(const OpRecord& record) noexcept;

  ring::Slots<OpRecord> slots_{};
  uint64_t tail_ = 1;
  uint64_t head_ = 1;
  Counts counts_{};
  // Tickets in flight, ascending; the top two bits say what was seen of the record.
  uint32_t late_count_ = 0;
  uint32_t digest_count_ = 0;
  uint64_t late_[kLateOpsMax];
  CommDigest comm_digests_[kCommsMax];
  DigestRecord digests_[kDigestsMax];
  OpBlock block_;
  alignas(64) uint8_t digest_block_[sizeof(BlockHeader) + kDigestsMax * sizeof(DigestRecord)];
};

}  // namespace rollcall::capture
