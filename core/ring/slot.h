// The protocol of a ring slot: claim, fill, publish, settle (core/format/ring_layout.h). Works on
// any memory, so that tests run it on a few slots with tickets next to the wrap.
//
// The body is stored in whole words with release order. On x86 these are plain stores; elsewhere
// they are what makes the reader's check sound: who sees a word of the new body also sees the claim
// that came before it, so the publish word it reads afterwards cannot be the old one. (A fence
// before plain stores says the same, but is a data race to the language and to ThreadSanitizer.)
//
// Threads: any number of writers and readers at once.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/base/atomic_word.h"
#include "core/base/limits.h"
#include "core/format/ring_layout.h"

namespace rollcall::ring {

template <class Record>
struct Slots {
  Record* records;
  uint64_t* next_ticket;
  uint64_t mask;           // slots - 1
  uint64_t* stepped_over;  // statistics
  // The ring was found full, and until when that is believed: a ticket one lap later. Null: nobody
  // keeps it, and every search is a whole one.
  uint64_t* full_until = nullptr;
};

template <class Record>
struct Claim {
  Record* record;  // null: the ring is full of operations in flight
  uint64_t ticket;
};

template <class Record>
[[gnu::cold]] inline bool is_believed_full(const Slots<Record>& slots, uint64_t ticket) noexcept {
  return slots.full_until != nullptr && ticket < load_relaxed(*slots.full_until);
}

// `next_ticket` gives tickets that were drawn from the counter for this claim or an earlier one.
template <class Record, class NextTicket>
[[gnu::always_inline]] inline Claim<Record> claim_slot(const Slots<Record>& slots,
                                                       NextTicket next_ticket) noexcept {
  uint64_t ticket = 0;
  for (uint32_t attempt = 0; attempt < kSlotAttemptsMax && attempt <= slots.mask; ++attempt) {
    if (attempt == kSlotAttemptsFew && is_believed_full(slots, ticket)) return {nullptr, 0};
    ticket = next_ticket();
    Record* record = &slots.records[ticket & slots.mask];
    uint64_t word = load_relaxed(record->publish);
    const bool taken = is_pinned(phase_number_of(word)) || ticket_of(word) > ticket;
    // Acquire: no store of the body may move above the claim. Release: who sees the claim sees that
    // its ticket was drawn. A failed exchange means that a
    // writer of another lap was faster; its record stands, this ticket goes.
    if (__builtin_expect(!taken, 1) &&
        __builtin_expect(__atomic_compare_exchange_n(&record->publish, &word,
                                                     publish_word(ticket, Phase::writing), false,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED),
                         1)) {
      return {record, ticket};
    }
    add_relaxed(*slots.stepped_over, uint64_t{1});
  }
  if (slots.full_until != nullptr) store_relaxed(*slots.full_until, ticket + slots.mask + 1);
  return {nullptr, 0};
}
template <class Record>
inline Claim<Record> claim_slot(const Slots<Record>& slots) noexcept {
  return claim_slot(slots, [&] { return add_relaxed(*slots.next_ticket, uint64_t{1}); });
}

template <class Record>
inline void store_word(Record* record, size_t offset, uint64_t value) noexcept {
  __atomic_store_n(words_of(record) + offset / 8, value, __ATOMIC_RELEASE);
}
// Where there is something to store, and nothing was yet.
template <class Record>
inline void store_word_once(Record* record, size_t offset, uint64_t value) noexcept {
  uint64_t* word = reinterpret_cast<uint64_t*>(words_of(record)) + offset / 8;
  if (value != 0 && load_relaxed(*word) == 0) store_word(record, offset, value);
}

// Two 32-bit fields that share a word, in memory order.
static_assert(std::endian::native == std::endian::little);
inline uint64_t word_of(uint32_t first, uint32_t second) noexcept {
  return uint64_t{second} << 32 | first;
}

template <class Record>
inline void publish_slot(Record* record, uint64_t ticket, Phase phase) noexcept {
  store_release(record->publish, publish_word(ticket, phase));
}

// True while the slot still holds this ticket in this phase. False after fork(), where the mapping
// behind an old token has been replaced by zeros.
template <class Record>
inline bool slot_holds(const Record* record, uint64_t ticket, Phase phase) noexcept {
  return load_relaxed(record->publish) == publish_word(ticket, phase);
}

// The fields that are learned when the host comes back. Each is one store, final, and behind it the
// publish word.
template <class Record>
inline void store_return(Record* record, uint64_t returned_ticks, int16_t result) noexcept {
  __atomic_store_n(&record->result, result, __ATOMIC_RELEASE);
  store_release(record->returned_ticks, returned_ticks);
}

}  // namespace rollcall::ring
