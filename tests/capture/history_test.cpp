// What goes into history, and when: the policy on a few slots, without threads and files.
#include "core/capture/history.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "core/base/crc32c.h"
#include "core/capture/back_off.h"
#include "core/format/header_check.h"
#include "tests/catch.h"

namespace rollcall::capture {
namespace history_test {

// A ring in ordinary memory, and the operations of it that a test steps through by hand.
class Ring {
 public:
  explicit Ring(uint32_t slots) : records_(slots) {}

  ring::Slots<OpRecord> slots() {
    return {records_.data(), &next_ticket_, records_.size() - 1, &stepped_over_};
  }
  // Claims a slot; the record is not readable yet.
  ring::Claim<OpRecord> claim() { return ring::claim_slot(slots()); }
  void publish(const ring::Claim<OpRecord>& claim) {
    OpRecord& record = *claim.record;
    record.called_ticks = claim.ticket * 100;
    record.returned_ticks = 0;
    record.count = claim.ticket;
    record.seq = claim.ticket - 1;
    record.comm_index = 0;
    record.root_or_peer = -1;
    record.thread_index = 0;
    record.datatype = 7;
    record.result = kResultUnknown;
    ring::publish_slot(claim.record, claim.ticket, Phase::called);
  }
  ring::Claim<OpRecord> enter() {
    const auto claim = this->claim();
    REQUIRE(claim.record != nullptr);
    publish(claim);
    return claim;
  }
  void leave(const ring::Claim<OpRecord>& claim, int16_t result = 0) {
    ring::store_return(claim.record, claim.ticket * 100 + 50, result);
    ring::publish_slot(claim.record, claim.ticket, Phase::settled);
  }
  void call(int times) {
    for (int i = 0; i < times; ++i) leave(enter());
  }
  void draw(uint64_t tickets) { next_ticket_ += tickets; }
  void scribble_on_counter(uint64_t value) { next_ticket_ = value; }
  uint64_t stepped_over() const { return stepped_over_; }

 private:
  std::vector<OpRecord> records_;
  uint64_t next_ticket_ = 1;
  uint64_t stepped_over_ = 0;
};

std::unique_ptr<History> history_of(Ring& ring) {
  auto history = std::make_unique<History>();
  history->begin(ring.slots(), {.time_shift = 0, .first_ticket = 1});
  return history;
}

struct Block {
  BlockHeader header{};
  std::vector<OpRecord> ops;

  std::set<uint64_t> tickets() const {
    std::set<uint64_t> found;
    for (const OpRecord& op : ops) found.insert(ticket_of(op.publish));
    return found;
  }
};

Block read_block(std::span<const uint8_t> bytes) {
  Block block;
  REQUIRE(bytes.size() >= sizeof(BlockHeader));
  std::memcpy(&block.header, bytes.data(), sizeof(BlockHeader));
  REQUIRE(block_header_is_valid(block.header, bytes.size()));
  std::span<const uint8_t> body = bytes.subspan(sizeof(BlockHeader));
  REQUIRE(body.size() == block.header.body_bytes);
  REQUIRE(crc32c(body.data(), body.size()) == block.header.body_crc);
  struct Memory {
    alignas(64) std::byte bytes[kOpCodecStateBytes];
  };
  const auto memory = std::make_unique<Memory>();
  OpDecoder decoder(memory->bytes, 0);
  decoder.begin_block();
  for (uint32_t i = 0; i < block.header.record_count; ++i) {
    OpRecord op;
    const size_t taken = decoder.decode(body, op);
    REQUIRE(taken != 0);
    body = body.subspan(taken);
    block.ops.push_back(op);
  }
  REQUIRE(body.empty());
  return block;
}

TEST_CASE("an operation in flight over many passes lands in one late block, once") {
  Ring ring(256);
  const auto history = history_of(ring);
  ring.call(4);
  const auto slow = ring.enter();
  std::set<uint64_t> seen;
  for (int pass = 0; pass < 10; ++pass) {
    ring.call(60);
    CHECK(history->next_late_block(nullptr).empty());
    const Block block = read_block(history->next_block(true, nullptr));
    CHECK(block.header.type == BlockType::ops);
    for (const uint64_t ticket : block.tickets()) CHECK(seen.insert(ticket).second);
    // The slow one, and a ticket of this lap that stepped over it.
    CHECK(history->late_count() <= 2);
  }
  CHECK(seen.count(slow.ticket) == 0);
  ring.leave(slow, 7);
  const Block late = read_block(history->next_late_block(nullptr));
  CHECK(late.header.type == BlockType::late_ops);
  REQUIRE(late.ops.size() == 1);
  CHECK(ticket_of(late.ops[0].publish) == slow.ticket);
  CHECK(late.ops[0].count == slow.ticket);
  CHECK(late.ops[0].result == 7);
  CHECK(late.ops[0].returned_ticks == slow.ticket * 100 + 50);
  ring.call(256);  // a lap on, nothing can be claimed with an old ticket any more
  CHECK(history->next_late_block(nullptr).empty());
  CHECK(history->late_count() == 0);
  const History::Counts counts = history->take_counts();
  CHECK(counts.records == seen.size() + 1);
  CHECK(counts.lost == 0);
}

TEST_CASE("what was in flight for a moment is urgent before its slot can be taken again") {
  Ring ring(256);
  const auto history = history_of(ring);
  const auto slow = ring.enter();
  ring.call(60);
  CHECK_FALSE(history->next_block(true, nullptr).empty());
  ring.leave(slow);
  CHECK_FALSE(history->late_is_urgent());
  // Blocks go on, one behind the other, without a look at what is late.
  ring.call(60);
  CHECK_FALSE(history->next_block(true, nullptr).empty());
  CHECK_FALSE(history->late_is_urgent());
  ring.call(60);
  CHECK(history->late_is_urgent());
  CHECK(read_block(history->next_late_block(nullptr)).tickets() == std::set{slow.ticket});
  CHECK_FALSE(history->late_is_urgent());
  CHECK(history->take_counts().lost == 0);
}

TEST_CASE("a ticket that was stepped over is neither history nor lost") {
  Ring ring(64);
  const auto history = history_of(ring);
  const auto slow = ring.enter();
  uint64_t recorded = 0;
  for (int pass = 0; pass < 20; ++pass) {
    ring.call(16);
    history->next_late_block(nullptr);
    recorded += read_block(history->next_block(true, nullptr)).ops.size();
  }
  CHECK(ring.stepped_over() > 0);
  CHECK(recorded == 320);
  // What waits is the slow one, and tickets of the newest lap that may still be claimed.
  CHECK(history->late_count() <= 2);
  ring.leave(slow);
  CHECK(read_block(history->next_late_block(nullptr)).tickets() == std::set{slow.ticket});
  CHECK(history->take_counts().lost == 0);
}

TEST_CASE("a record that is being written when its turn comes is taken when it is whole") {
  Ring ring(64);
  const auto history = history_of(ring);
  const auto claim = ring.claim();
  ring.call(3);
  CHECK(read_block(history->next_block(true, nullptr)).ops.size() == 3);
  CHECK(history->next_late_block(nullptr).empty());
  ring.publish(claim);
  CHECK(history->next_late_block(nullptr).empty());  // called is not settled
  ring.leave(claim);
  CHECK(read_block(history->next_late_block(nullptr)).tickets() == std::set{claim.ticket});
}

TEST_CASE("a record that was being written, then settled and was overwritten unread, is lost") {
  Ring ring(64);
  const auto history = history_of(ring);
  const auto claim = ring.claim();
  CHECK(history->next_block(true, nullptr).empty());
  ring.publish(claim);
  ring.leave(claim);
  ring.call(64);
  CHECK(history->next_late_block(nullptr).empty());
  CHECK(history->late_count() == 0);
  CHECK(history->take_counts().lost == 1);
}

TEST_CASE("what was overwritten before its turn is lost, counted once each") {
  Ring ring(64);
  const auto history = history_of(ring);
  ring.call(64 + 10);
  uint64_t recorded = 0;
  for (;;) {
    const auto block = history->next_block(true, nullptr);
    if (block.empty()) break;
    recorded += read_block(block).ops.size();
  }
  const History::Counts counts = history->take_counts();
  CHECK(counts.lost == 10);
  CHECK(recorded == 64);
  CHECK(history->take_counts().lost == 0);
}

TEST_CASE("more operations in flight than the late list holds are counted, the rest is kept") {
  constexpr uint32_t kInFlight = kLateOpsMax + 100;
  Ring ring(2 * kLateOpsMax);
  const auto history = history_of(ring);
  std::vector<ring::Claim<OpRecord>> in_flight;
  for (uint32_t i = 0; i < kInFlight; ++i) in_flight.push_back(ring.enter());
  CHECK(history->next_block(true, nullptr).empty());
  CHECK(history->late_count() == kLateOpsMax);
  CHECK(history->take_counts().late_overflow == 100);
  for (const auto& claim : in_flight) ring.leave(claim);
  std::set<uint64_t> tickets;
  for (;;) {
    const auto bytes = history->next_late_block(nullptr);
    if (bytes.empty()) break;
    for (const uint64_t ticket : read_block(bytes).tickets()) {
      CHECK(tickets.insert(ticket).second);
    }
  }
  CHECK(tickets.size() == kLateOpsMax);
  CHECK(*tickets.rbegin() == kLateOpsMax);
}

TEST_CASE("tickets that nobody claims leave half of the late list to operations in flight") {
  Ring ring(4 * kLateOpsMax);
  const auto history = history_of(ring);
  ring.draw(2 * kLateOpsMax);
  CHECK(history->next_block(true, nullptr).empty());
  CHECK(history->late_count() == kLateOpsMax / 2);
  std::vector<ring::Claim<OpRecord>> in_flight;
  for (uint32_t i = 0; i < kLateOpsMax / 2; ++i) in_flight.push_back(ring.enter());
  CHECK(history->next_block(true, nullptr).empty());
  CHECK(history->late_count() == kLateOpsMax);
  CHECK(history->take_counts().late_overflow == 0);
}

TEST_CASE("a block is due when a block's worth and some slack waits, not before") {
  Ring ring(256);  // blocks of 64, slack of 16
  const auto history = history_of(ring);
  ring.call(79);
  CHECK_FALSE(history->block_is_due());
  CHECK(history->next_block(false, nullptr).empty());
  ring.call(1);
  CHECK(history->block_is_due());
  CHECK(read_block(history->next_block(false, nullptr)).ops.size() == 64);
  CHECK_FALSE(history->block_is_due());
}

TEST_CASE("what no recorder writes does not reach history") {
  Ring ring(64);
  const auto history = history_of(ring);
  ring.call(2);
  const auto scribbled = ring.enter();
  scribbled.record->comm_index = 123456;
  ring.leave(scribbled);
  CHECK(read_block(history->next_block(true, nullptr)).tickets() == std::set<uint64_t>{1, 2});
  CHECK(history->take_counts().lost == 1);
}

// The digests of as many calls as have one behind the last; simulated ones in front of some, or
// records that the job scribbled over.
enum class Beside : uint8_t { nothing, simulated, scribbled };
std::vector<DigestRecord> digests_of_calls(Beside beside) {
  Ring ring(1024);
  const auto history = history_of(ring);
  const auto call = [&](uint64_t seq, uint8_t flags) {
    const auto claim = ring.enter();
    claim.record->seq = seq;
    claim.record->count = seq;
    claim.record->flags = flags;
    return claim;
  };
  for (uint64_t seq = 0; seq <= kDigestPeriod; ++seq) {
    const bool has_other = beside != Beside::nothing && seq % 100 == 7;
    if (has_other && beside == Beside::simulated) ring.leave(call(seq, kOpSimulated));
    if (has_other && beside == Beside::scribbled) {
      const auto scribbled = call(seq + 1, 0);
      scribbled.record->kind = static_cast<OpKind>(200);
      if (seq % 200 == 7) ring.leave(scribbled);  // others are in flight
    }
    ring.leave(call(seq, 0));
  }
  while (!history->next_block(true, nullptr).empty()) continue;
  const std::span<const uint8_t> block = history->next_digest_block();
  std::vector<DigestRecord> digests;
  for (size_t at = sizeof(BlockHeader); at < block.size(); at += sizeof(DigestRecord)) {
    std::memcpy(&digests.emplace_back(), block.data() + at, sizeof(DigestRecord));
  }
  return digests;
}

TEST_CASE("operations of simulated groups, and what is none, are in no digest") {
  const std::vector<DigestRecord> plain = digests_of_calls(Beside::nothing);
  REQUIRE(plain.size() == 1);
  for (const Beside beside : {Beside::simulated, Beside::scribbled}) {
    const std::vector<DigestRecord> with_others = digests_of_calls(beside);
    REQUIRE(with_others.size() == 1);
    CHECK(with_others[0].seq == plain[0].seq);
    CHECK(with_others[0].digest == plain[0].digest);
    CHECK(with_others[0].gap == 0);
  }
}

TEST_CASE("a refused write is tried again after 0.1 s, ever more rarely, at most every 30 s") {
  BackOff back_off;
  CHECK(back_off.may_try(0));
  uint64_t now_ns = 5'000'000'000;
  uint64_t wait_ns = BackOff::kFirstNs;
  for (int failure = 0; failure < 20; ++failure) {
    back_off.failed(now_ns);
    CHECK_FALSE(back_off.may_try(now_ns + wait_ns - 1));
    CHECK(back_off.may_try(now_ns + wait_ns));
    now_ns += wait_ns;
    wait_ns = std::min(wait_ns * 2, BackOff::kMaxNs);
  }
  CHECK(wait_ns == BackOff::kMaxNs);
  back_off.succeeded();
  CHECK(back_off.may_try(0));
  back_off.failed(now_ns);
  CHECK(back_off.may_try(now_ns + BackOff::kFirstNs));
}

TEST_CASE("a counter that fell back is waited for, and one that jumped is believed for one lap") {
  Ring ring(64);
  const auto history = history_of(ring);
  ring.call(40);
  REQUIRE(history->block_is_due());
  ring.scribble_on_counter(0);
  CHECK_FALSE(history->block_is_due());
  CHECK_FALSE(history->late_is_urgent());
  CHECK(history->next_block(true, nullptr).empty());
  CHECK(history->next_late_block(nullptr).empty());
  CHECK(history->tail() == 1);
  for (const uint64_t jumped : {kTicketsBehindMax + 2, uint64_t{1} << 63, ~uint64_t{0}}) {
    ring.scribble_on_counter(jumped);
    history->take_counts();
    while (history->block_is_due()) history->next_block(false, nullptr);
    CHECK(jumped - history->tail() <= 64);
    CHECK(history->take_counts().lost <= 2 * 64);
  }
}

}  // namespace history_test
}  // namespace rollcall::capture
