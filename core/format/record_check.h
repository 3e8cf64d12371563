// Copying a record out of a ring that may be written at the same moment, and judging the copy.
//
// One set of rules for both ends: the writer checks what it is about to publish with
// record_is_valid(), the reader checks what it copied with the same function. What the job passed
// to NCCL (counts, roots, addresses) is recorded as it was, so nonsense there is not invalid; what
// the recorder itself fills in is.
//
// Threads: plain functions. The copy is a data-race-free read of live memory (atomic word loads).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/format/ring_layout.h"

namespace rollcall {

// A record as found, with the publish word as it was before and after the body was copied.
template <class Record>
struct RecordCopy {
  Record record;
  uint64_t publish_before_untrusted;
  uint64_t publish_after_untrusted;
};
RecordCopy<OpRecord> copy_record(const OpRecord& live_untrusted) noexcept;
RecordCopy<EventRecord> copy_record(const EventRecord& live_untrusted) noexcept;

// What the fields of a record are held against.
struct RecordBounds {
  uint32_t comms_max = kCommsMax;
  uint32_t threads_max = kThreadsMax;
};

// True when every field that the recorder fills in is within bounds and consistent with the phase
// in `record.publish`. Looks at nothing but its arguments. Datatype, reduction, algorithm and
// protocol may be any number: a newer recorder's vocabularies are longer (docs/FORMAT.md,
// Versions), and what has no name here is shown by its number.
bool record_is_valid(const OpRecord& record, const RecordBounds& bounds) noexcept;
bool record_is_valid(const EventRecord& record, const RecordBounds& bounds) noexcept;

// A ticket can stand in a slot if it was handed out and belongs there. `next_ticket` has to be
// read after the record, or the newest records look as if they came from the future.
constexpr bool ticket_is_plausible(uint64_t ticket, uint64_t slot, uint32_t slots,
                                   uint64_t next_ticket) {
  return ticket != 0 && ticket < next_ticket && (ticket & (slots - 1)) == slot;
}

enum class RecordVerdict : uint8_t {
  empty,        // never used
  valid,        // whole and final
  in_flight,    // whole; the call has not returned, or its GPU work is still awaited
  torn,         // its writer died before the record was whole
  overwritten,  // is being written right now: read again
  hostile,      // cannot have been written by the recorder
  Count
};
std::string_view name_of(RecordVerdict verdict) noexcept;

// The facts a decision rests on.
struct RecordFacts {
  uint8_t phase_number;   // of the word before
  bool same_word;         // publish word equal before and after the copy
  bool writer_gone;       // the process is known to have ended
  bool ticket_plausible;  // for phase empty: the ticket is 0
  bool fields_plausible;  // record_is_valid()
};

// Where a record stands. `next_ticket` is read after the record was copied.
struct SlotPlace {
  uint32_t slot = 0;
  uint32_t slots = 1;
  uint64_t next_ticket = 0;
};
// Of a copy. `same_word`: it held still meanwhile.
RecordFacts facts_of(const OpRecord& copy, bool same_word, bool writer_gone, const SlotPlace& place,
                     const RecordBounds& bounds) noexcept;
RecordFacts facts_of(const EventRecord& copy, bool same_word, bool writer_gone,
                     const SlotPlace& place, const RecordBounds& bounds) noexcept;

// One row of the recovery table; `any` where the fact does not matter.
struct RecoveryRow {
  enum class Need : uint8_t { no, yes, any };
  enum class PhaseNeed : uint8_t { empty, writing, pending, settled, readable, unknown, any };
  char letter;
  Need same_word;
  PhaseNeed phase;
  Need writer_gone;
  Need ticket_plausible;
  Need fields_plausible;
  RecordVerdict verdict;
  std::string_view reason;
};
inline constexpr uint32_t kRecoveryRows = 11;
const RecoveryRow& recovery_row(uint32_t index) noexcept;
bool row_matches(const RecoveryRow& row, const RecordFacts& facts) noexcept;
// The row that matches; for every combination of facts there is exactly one.
const RecoveryRow& decide(const RecordFacts& facts) noexcept;

}  // namespace rollcall
