#include "core/format/record_check.h"

#include <cstring>

#include "core/base/check.h"

namespace rollcall {

namespace {

using Need = RecoveryRow::Need;
using PhaseNeed = RecoveryRow::PhaseNeed;

// The recovery table. Read a row as: when the words are ..., the phase is ..., the writer is ...
//
// A  The word changed while the body was copied: whatever was copied is a mixture.
// B  Nothing was ever here.
// C  Phase empty with a ticket: the recorder never goes back to empty.
// D  A slot is being filled by a process that lives.
// E  A slot was being filled when its process ended: the one record that was lost in the act.
// F  Claimed with a ticket that was never handed out, or that belongs to another slot.
// G  Published, not final, and whole: the call in which the process is, was, or died.
// H  Final and whole.
// I  Published with a ticket that was never handed out, or that belongs to another slot.
// J  Published with fields no recorder writes: the job scribbled over the mapping.
// K  A phase this version does not know.
constexpr RecoveryRow kRows[kRecoveryRows] = {
    {'A', Need::no, PhaseNeed::any, Need::any, Need::any, Need::any, RecordVerdict::overwritten,
     "the record was rewritten while it was read"},
    {'B', Need::yes, PhaseNeed::empty, Need::any, Need::yes, Need::any, RecordVerdict::empty,
     "the slot was never used"},
    {'C', Need::yes, PhaseNeed::empty, Need::any, Need::no, Need::any, RecordVerdict::hostile,
     "an empty slot carries a ticket"},
    {'D', Need::yes, PhaseNeed::writing, Need::no, Need::yes, Need::any, RecordVerdict::overwritten,
     "the record is being written"},
    {'E', Need::yes, PhaseNeed::writing, Need::yes, Need::yes, Need::any, RecordVerdict::torn,
     "the process ended while it wrote the record"},
    {'F', Need::yes, PhaseNeed::writing, Need::any, Need::no, Need::any, RecordVerdict::hostile,
     "the ticket was never handed out for this slot"},
    {'G', Need::yes, PhaseNeed::pending, Need::any, Need::yes, Need::yes, RecordVerdict::in_flight,
     "the call is in flight"},
    {'H', Need::yes, PhaseNeed::settled, Need::any, Need::yes, Need::yes, RecordVerdict::valid,
     "the record is whole and final"},
    {'I', Need::yes, PhaseNeed::readable, Need::any, Need::no, Need::any, RecordVerdict::hostile,
     "the published record's ticket was never handed out for this slot"},
    {'J', Need::yes, PhaseNeed::readable, Need::any, Need::yes, Need::no, RecordVerdict::hostile,
     "the published record has fields that no recorder writes"},
    {'K', Need::yes, PhaseNeed::unknown, Need::any, Need::any, Need::any, RecordVerdict::hostile,
     "the phase is unknown"},
};

PhaseNeed phase_class(uint8_t phase_number) noexcept {
  if (phase_number >= static_cast<uint8_t>(Phase::Count)) return PhaseNeed::unknown;
  switch (static_cast<Phase>(phase_number)) {
    case Phase::empty:
      return PhaseNeed::empty;
    case Phase::writing:
      return PhaseNeed::writing;
    case Phase::called:
    case Phase::gpu_pending:
      return PhaseNeed::pending;
    case Phase::settled:
      return PhaseNeed::settled;
    case Phase::Count:
      break;
  }
  return PhaseNeed::unknown;
}

bool matches(Need need, bool fact) noexcept {
  return need == Need::any || (need == Need::yes) == fact;
}

// An aliasing-safe word of a record in shared memory.
using Word [[gnu::may_alias]] = uint64_t;

template <class Record>
RecordCopy<Record> copy_words(const Record& live) noexcept {
  static_assert(sizeof(Record) % 8 == 0 && offsetof(Record, publish) == 0);
  const auto* words = reinterpret_cast<const Word*>(&live);
  RecordCopy<Record> copy;
  copy.publish_before_untrusted = __atomic_load_n(words, __ATOMIC_ACQUIRE);
  uint64_t body[sizeof(Record) / 8];
  body[0] = copy.publish_before_untrusted;
  // Acquire on every word: the last load below stays behind them all, and a word written after a
  // later claim brings that claim with it. On x86 these are plain loads.
  for (size_t i = 1; i < sizeof(Record) / 8; ++i) {
    body[i] = __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
  }
  copy.publish_after_untrusted = __atomic_load_n(words, __ATOMIC_RELAXED);
  std::memcpy(&copy.record, body, sizeof(Record));
  return copy;
}

// The number of an enum field may be anything in a file; reading it as the enum would be undefined.
template <class Enum>
uint8_t number_of(const Enum& field) noexcept {
  uint8_t number;
  std::memcpy(&number, &field, 1);
  return number;
}

bool index_is_valid(uint32_t index, uint32_t unknown, uint32_t count) noexcept {
  return index == unknown || index < count;
}

template <class Record>
RecordFacts find_facts(const Record& copy, bool same_word, bool writer_gone, const SlotPlace& place,
                       const RecordBounds& bounds) noexcept {
  const uint8_t phase_number = phase_number_of(copy.publish);
  const uint64_t ticket = ticket_of(copy.publish);
  const bool is_empty = phase_number == static_cast<uint8_t>(Phase::empty);
  return {.phase_number = phase_number,
          .same_word = same_word,
          .writer_gone = writer_gone,
          .ticket_plausible =
              is_empty ? ticket == 0
                       : ticket_is_plausible(ticket, place.slot, place.slots, place.next_ticket),
          .fields_plausible = record_is_valid(copy, bounds)};
}

}  // namespace

RecordCopy<OpRecord> copy_record(const OpRecord& live_untrusted) noexcept {
  return copy_words(live_untrusted);
}
RecordCopy<EventRecord> copy_record(const EventRecord& live_untrusted) noexcept {
  return copy_words(live_untrusted);
}

bool record_is_valid(const OpRecord& record, const RecordBounds& bounds) noexcept {
  const uint8_t phase_number = phase_number_of(record.publish);
  if (phase_number < static_cast<uint8_t>(Phase::called)) return false;
  if (phase_number >= static_cast<uint8_t>(Phase::Count)) return false;
  if (ticket_of(record.publish) == 0) return false;
  if (record.called_ticks == 0) return false;
  if (phase_number >= static_cast<uint8_t>(Phase::gpu_pending) && record.returned_ticks == 0) {
    return false;
  }
  if (number_of(record.kind) >= kOpKinds) return false;
  if (!index_is_valid(record.comm_index, kCommUnknown, bounds.comms_max)) return false;
  return index_is_valid(record.thread_index, kThreadUnknown, bounds.threads_max);
}

bool record_is_valid(const EventRecord& record, const RecordBounds& bounds) noexcept {
  const uint8_t phase_number = phase_number_of(record.publish);
  if (phase_number < static_cast<uint8_t>(Phase::called)) return false;
  if (phase_number >= static_cast<uint8_t>(Phase::Count)) return false;
  if (ticket_of(record.publish) == 0) return false;
  if (record.called_ticks == 0) return false;
  if (phase_number == static_cast<uint8_t>(Phase::settled) && record.returned_ticks == 0) {
    return false;
  }
  if (number_of(record.kind) >= static_cast<uint8_t>(EventKind::Count)) return false;
  if (!index_is_valid(record.comm_index, kCommUnknown, bounds.comms_max)) return false;
  if (!index_is_valid(record.thread_index, kThreadUnknown, bounds.threads_max)) return false;
  return record.text_bytes <= kEventTextBytes;
}

RecordFacts facts_of(const OpRecord& copy, bool same_word, bool writer_gone, const SlotPlace& place,
                     const RecordBounds& bounds) noexcept {
  return find_facts(copy, same_word, writer_gone, place, bounds);
}
RecordFacts facts_of(const EventRecord& copy, bool same_word, bool writer_gone,
                     const SlotPlace& place, const RecordBounds& bounds) noexcept {
  return find_facts(copy, same_word, writer_gone, place, bounds);
}

std::string_view name_of(RecordVerdict verdict) noexcept {
  switch (verdict) {
    case RecordVerdict::empty:
      return "empty";
    case RecordVerdict::valid:
      return "valid";
    case RecordVerdict::in_flight:
      return "in flight";
    case RecordVerdict::torn:
      return "torn";
    case RecordVerdict::overwritten:
      return "overwritten";
    case RecordVerdict::hostile:
      return "hostile";
    case RecordVerdict::Count:
      break;
  }
  return "unknown";
}

const RecoveryRow& recovery_row(uint32_t index) noexcept {
  ROLLCALL_CHECK(index < kRecoveryRows);
  return kRows[index < kRecoveryRows ? index : 0];
}

bool row_matches(const RecoveryRow& row, const RecordFacts& facts) noexcept {
  const PhaseNeed phase = phase_class(facts.phase_number);
  if (!matches(row.same_word, facts.same_word)) return false;
  if (!matches(row.writer_gone, facts.writer_gone)) return false;
  if (!matches(row.ticket_plausible, facts.ticket_plausible)) return false;
  if (!matches(row.fields_plausible, facts.fields_plausible)) return false;
  if (row.phase == PhaseNeed::readable) {
    return phase == PhaseNeed::pending || phase == PhaseNeed::settled;
  }
  return row.phase == PhaseNeed::any || row.phase == phase;
}

const RecoveryRow& decide(const RecordFacts& facts) noexcept {
  for (const RecoveryRow& row : kRows) {
    if (row_matches(row, facts)) return row;
  }
  return kRows[kRecoveryRows - 1];  // unreachable: the test enumerates every input
}

}  // namespace rollcall
