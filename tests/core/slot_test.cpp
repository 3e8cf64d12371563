// The slot protocol over plain memory: few slots, tickets next to the wrap, many threads.
#include "core/ring/slot.h"

#include <atomic>
#include <thread>
#include <vector>

#include "core/format/record_check.h"
#include "tests/catch.h"

namespace rollcall {
namespace {

using ring::claim_slot;
using ring::publish_slot;

struct SmallRing {
  explicit SmallRing(uint32_t count, uint64_t first_ticket = 1)
      : records(count), next_ticket(first_ticket) {}
  ring::Slots<OpRecord> slots() {
    return {records.data(), &next_ticket, records.size() - 1, &stepped_over};
  }
  std::vector<OpRecord> records;
  uint64_t next_ticket;
  uint64_t stepped_over = 0;
};

void settle(const ring::Claim<OpRecord>& claim) {
  publish_slot(claim.record, claim.ticket, Phase::settled);
}

TEST_CASE("tickets go round the ring, whatever ticket it starts with") {
  for (const uint64_t first :
       {uint64_t{1}, uint64_t{6}, uint64_t{0xfffffffe}, (uint64_t{1} << 40) - 2}) {
    SmallRing ring(8, first);
    const auto slots = ring.slots();
    for (uint64_t n = 0; n < 30; ++n) {
      const auto claim = claim_slot(slots);
      REQUIRE(claim.ticket == first + n);
      REQUIRE(claim.record == &ring.records[claim.ticket & 7]);
      settle(claim);
    }
    CHECK(ring.stepped_over == 0);
  }
}

TEST_CASE("an operation in flight is stepped over, lap after lap, and never overwritten") {
  SmallRing ring(8);
  const auto slots = ring.slots();
  const auto held = claim_slot(slots);
  publish_slot(held.record, held.ticket, Phase::called);
  for (int n = 0; n < 70; ++n) {
    const auto claim = claim_slot(slots);
    REQUIRE(claim.record != nullptr);
    REQUIRE(claim.record != held.record);
    settle(claim);
  }
  CHECK(held.record->publish == publish_word(held.ticket, Phase::called));
  CHECK(ring.stepped_over == 9);  // 70 records in laps of 7
}

TEST_CASE("a ring full of operations in flight refuses, and holds what it has") {
  SmallRing ring(64);
  const auto slots = ring.slots();
  for (int n = 0; n < 64; ++n) {
    const auto claim = claim_slot(slots);
    REQUIRE(claim.record != nullptr);
    publish_slot(claim.record, claim.ticket, n % 2 == 0 ? Phase::called : Phase::gpu_pending);
  }
  CHECK(claim_slot(slots).record == nullptr);
  CHECK(ring.stepped_over == 64);
  for (const OpRecord& record : ring.records) CHECK(is_pinned(phase_number_of(record.publish)));
}

TEST_CASE("thousands of operations in flight, one behind the other, are all stepped over") {
  constexpr uint32_t kHeld = kGpuOpsInFlightMax + kLateOpsMax;
  SmallRing ring(2 * kSlotAttemptsMax);
  const auto slots = ring.slots();
  for (uint32_t n = 0; n < kHeld; ++n) {
    const auto claim = claim_slot(slots);
    publish_slot(claim.record, claim.ticket, Phase::gpu_pending);
  }
  for (uint32_t lap = 0; lap < 3; ++lap) {
    for (uint32_t n = kHeld; n < 2 * kSlotAttemptsMax; ++n) {
      const auto claim = claim_slot(slots);
      REQUIRE(claim.record == &ring.records[claim.ticket & slots.mask]);
      settle(claim);
    }
    CHECK(ring.stepped_over == uint64_t{lap} * kHeld);
  }
}

TEST_CASE("a ring that is larger than the search and full refuses all the same") {
  SmallRing ring(2 * kSlotAttemptsMax);
  const auto slots = ring.slots();
  for (uint32_t n = 0; n < 2 * kSlotAttemptsMax; ++n) {
    const auto claim = claim_slot(slots);
    publish_slot(claim.record, claim.ticket, Phase::called);
  }
  CHECK(claim_slot(slots).record == nullptr);
  CHECK(ring.stepped_over == kSlotAttemptsMax);
}

TEST_CASE("where the ring was found full, a call of the lap that follows gives up early") {
  constexpr uint32_t kSlots = 1024;
  SmallRing ring(kSlots);
  uint64_t full_until = 0;
  auto slots = ring.slots();
  slots.full_until = &full_until;
  std::vector<ring::Claim<OpRecord>> held;
  for (uint32_t n = 0; n < kSlots; ++n) {
    held.push_back(claim_slot(slots));
    publish_slot(held.back().record, held.back().ticket, Phase::called);
  }
  CHECK(full_until == 0);
  CHECK(claim_slot(slots).record == nullptr);
  CHECK(ring.stepped_over == kSlots);
  CHECK(full_until == 3 * kSlots);
  for (uint32_t n = 1; n < kSlots / kSlotAttemptsFew; ++n) {
    CHECK(claim_slot(slots).record == nullptr);
    CHECK(ring.stepped_over == kSlots + n * kSlotAttemptsFew);
  }
  // A lap later one slot is free: it is looked for everywhere.
  settle(held[0]);
  CHECK(claim_slot(slots).record == held[0].record);
  CHECK(ring.stepped_over == 2 * kSlots);
}

TEST_CASE("a late writer does not take a slot that a newer ticket has") {
  SmallRing ring(8);
  const auto slots = ring.slots();
  ring.records[1].publish = publish_word(9, Phase::settled);  // a lap ahead of ticket 1
  const auto claim = claim_slot(slots);
  CHECK(claim.ticket == 2);
  CHECK(ring.stepped_over == 1);
  CHECK(ring.records[1].publish == publish_word(9, Phase::settled));
}

// Every word of a body is its ticket, so a mixture of two bodies shows.
TEST_CASE("a reader racing with writers sees whole records or none") {
  SmallRing ring(64);
  const auto slots = ring.slots();
  std::atomic<bool> done{false};
  std::atomic<int> writing{4};
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int n = 0; n < 20000; ++n) {
        const auto claim = claim_slot(slots);
        if (claim.record == nullptr) continue;
        for (size_t word = 1; word < sizeof(OpRecord) / 8; ++word) {
          ring::store_word(claim.record, word * 8, claim.ticket);
        }
        publish_slot(claim.record, claim.ticket, Phase::called);
        settle(claim);
      }
      if (writing.fetch_sub(1) == 1) done.store(true);
    });
  }
  uint64_t whole = 0;
  uint64_t mixed = 0;
  while (!done.load() || whole == 0) {
    for (const OpRecord& slot : ring.records) {
      const auto copy = copy_record(slot);
      const uint64_t word = copy.publish_before_untrusted;
      if (word != copy.publish_after_untrusted || phase_number_of(word) < 2) continue;
      ++whole;
      mixed += copy.record.count != ticket_of(word);
      mixed += copy.record.called_ticks != ticket_of(word);
      mixed += copy.record.launched_ticks != ticket_of(word);
    }
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(whole > 0);
  CHECK(mixed == 0);
}

}  // namespace
}  // namespace rollcall
