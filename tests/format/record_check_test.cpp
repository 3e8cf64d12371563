// The recovery table and the rules a record is held against.
#include "core/format/record_check.h"

#include <cstring>
#include <vector>

#include "tests/catch.h"

namespace rollcall {
namespace {

OpRecord settled_op(uint64_t ticket) {
  OpRecord op{};
  op.publish = publish_word(ticket, Phase::settled);
  op.called_ticks = 10;
  op.returned_ticks = 20;
  op.comm_index = kCommUnknown;
  op.thread_index = kThreadUnknown;
  op.reduction = kUnknown8;
  return op;
}

std::vector<RecordFacts> all_facts() {
  std::vector<RecordFacts> facts;
  for (int phase = 0; phase < 256; ++phase) {
    for (int bits = 0; bits < 16; ++bits) {
      facts.push_back({.phase_number = static_cast<uint8_t>(phase),
                       .same_word = (bits & 1) != 0,
                       .writer_gone = (bits & 2) != 0,
                       .ticket_plausible = (bits & 4) != 0,
                       .fields_plausible = (bits & 8) != 0});
    }
  }
  return facts;
}

TEST_CASE("every combination of facts matches exactly one row of the recovery table") {
  std::vector<int> uses(kRecoveryRows);
  for (const RecordFacts& facts : all_facts()) {
    int matches = 0;
    for (uint32_t i = 0; i < kRecoveryRows; ++i) {
      if (!row_matches(recovery_row(i), facts)) continue;
      ++matches;
      ++uses[i];
      REQUIRE(&decide(facts) == &recovery_row(i));
    }
    REQUIRE(matches == 1);
  }
  for (const int count : uses) REQUIRE(count > 0);
}

TEST_CASE("the rows are lettered in order") {
  for (uint32_t i = 0; i < kRecoveryRows; ++i) {
    REQUIRE(recovery_row(i).letter == static_cast<char>('A' + i));
    REQUIRE_FALSE(recovery_row(i).reason.empty());
  }
}

TEST_CASE("nothing implausible is ever called valid or in flight") {
  for (const RecordFacts& facts : all_facts()) {
    const RecordVerdict verdict = decide(facts).verdict;
    const bool accepted = verdict == RecordVerdict::valid || verdict == RecordVerdict::in_flight;
    if (!accepted) continue;
    REQUIRE(facts.same_word);
    REQUIRE(facts.ticket_plausible);
    REQUIRE(facts.fields_plausible);
    REQUIRE(facts.phase_number >= 2);
    REQUIRE(facts.phase_number <= 4);
  }
}

TEST_CASE("torn is said only of a writer that is gone") {
  for (const RecordFacts& facts : all_facts()) {
    if (decide(facts).verdict != RecordVerdict::torn) continue;
    REQUIRE(facts.writer_gone);
    REQUIRE(facts.phase_number == static_cast<uint8_t>(Phase::writing));
  }
}

// Of a ring of eight slots that has handed out eleven tickets.
RecordVerdict verdict_of(const OpRecord& record, uint32_t slot, bool writer_gone = true) {
  const SlotPlace place{.slot = slot, .slots = 8, .next_ticket = 12};
  const RecordCopy<OpRecord> copy = copy_record(record);
  const bool same_word = copy.publish_before_untrusted == copy.publish_after_untrusted;
  return decide(facts_of(copy.record, same_word, writer_gone, place, {})).verdict;
}

TEST_CASE("a slot is read as its phase says") {
  CHECK(verdict_of(settled_op(11), 3) == RecordVerdict::valid);
  CHECK(verdict_of(OpRecord{}, 4) == RecordVerdict::empty);
  OpRecord called = settled_op(10);
  called.publish = publish_word(10, Phase::called);
  called.returned_ticks = 0;
  CHECK(verdict_of(called, 2) == RecordVerdict::in_flight);
  OpRecord written = settled_op(9);
  written.publish = publish_word(9, Phase::writing);
  CHECK(verdict_of(written, 1) == RecordVerdict::torn);
  CHECK(verdict_of(written, 1, false) == RecordVerdict::overwritten);
}

TEST_CASE("Hostile: a ticket from the future, or of another slot, is not believed") {
  CHECK(verdict_of(settled_op(12), 4) == RecordVerdict::hostile);  // never handed out
  CHECK(verdict_of(settled_op(11), 5) == RecordVerdict::hostile);  // belongs to slot 3
  CHECK(verdict_of(settled_op(0), 6) == RecordVerdict::hostile);
}

TEST_CASE("a record is judged by what the recorder fills in, not by what the job passed") {
  const RecordBounds bounds{.comms_max = 4, .threads_max = 4};
  OpRecord op = settled_op(1);
  REQUIRE(record_is_valid(op, bounds));
  op.root_or_peer = -77;  // nonsense of the job's is recorded as it was
  op.count = ~uint64_t{0};
  op.datatype = 200;
  REQUIRE(record_is_valid(op, bounds));
  op.reduction = kReductionCount;  // of a newer recorder, whose vocabularies are longer
  op.method = method_of(15, 15);
  REQUIRE(record_is_valid(op, bounds));
  const auto reject = [&](auto change) {
    OpRecord bad = settled_op(1);
    change(bad);
    CHECK_FALSE(record_is_valid(bad, bounds));
  };
  reject([](OpRecord& bad) { bad.called_ticks = 0; });
  reject([](OpRecord& bad) { bad.returned_ticks = 0; });
  reject([](OpRecord& bad) { bad.comm_index = 4; });
  reject([](OpRecord& bad) { bad.thread_index = 4; });
  reject([](OpRecord& bad) { bad.publish = publish_word(0, Phase::settled); });
  reject([](OpRecord& bad) { bad.publish = publish_word(1, Phase::writing); });
  reject([](OpRecord& bad) {
    const uint8_t kind = 200;
    std::memcpy(&bad.kind, &kind, 1);
  });
}

TEST_CASE("an event with an impossible text length is not believed") {
  EventRecord event{};
  event.publish = publish_word(1, Phase::settled);
  event.called_ticks = 1;
  event.returned_ticks = 2;
  event.comm_index = kCommUnknown;
  event.thread_index = kThreadUnknown;
  event.text_bytes = kEventTextBytes;
  REQUIRE(record_is_valid(event, RecordBounds{}));
  event.text_bytes = kEventTextBytes + 1;
  REQUIRE_FALSE(record_is_valid(event, RecordBounds{}));
}

}  // namespace
}  // namespace rollcall
