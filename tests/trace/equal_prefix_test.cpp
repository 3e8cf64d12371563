// What a large run leaves on disk: two ranks of one communicator, with and without a difference.
#include "trace/equal_prefix.h"

#include <algorithm>

#include "core/format/digest.h"
#include "tests/catch.h"
#include "tests/trace/files.h"

namespace rollcall::trace {
namespace {

constexpr uint64_t kNever = UINT64_MAX;

// A rank of `calls` calls, of which those from seq `differs_from` on have another count. The ring
// holds the newest 64, the segment all but the newest 16, with the recorder's digests.
RingFiles write_rank(const test::Directory& directory, uint32_t rank, uint64_t calls,
                     uint64_t differs_from) {
  test::RingBytes ring(4711 + rank, static_cast<int>(rank));
  std::vector<OpRecord> history;
  std::vector<DigestRecord> digests;
  uint64_t digest = kDigestStart;
  for (uint64_t ticket = 1; ticket <= calls; ++ticket) {
    OpRecord op = test::make_op(ticket);
    if (op.seq >= differs_from) op.count = 65;
    ring.add(op);
    if (ticket + 16 > calls) continue;
    if (op.seq != 0 && op.seq % kDigestPeriod == 0) {
      digests.push_back(
          {.comm_index = 0, .gap = 0, .seq = op.seq, .digest = digest, .ticket = ticket});
    }
    digest = extend_digest(digest, op);
    history.push_back(op);
  }
  ring.put(ring.header.comms.offset + offsetof(CommEntry, collectives), calls);
  test::SegmentBytes segment(ring.header);
  segment.add_ops(history);
  segment.add_digests(digests);
  const std::string stem = "node0." + std::to_string(4711 + rank) + ".4d";
  directory.write(stem + ".ring", ring.bytes);
  directory.write(stem + ".000000.segment", segment.bytes());
  const std::string path = directory.path() + "/" + stem;
  return {path + ".ring", {path + ".000000.segment"}};
}

bool is_wanted(const ReadingPlan& plan, size_t ring, uint64_t ticket) {
  const auto& ranges = plan.wanted[ring];
  return std::any_of(ranges.begin(), ranges.end(), [&](const TicketRange& range) {
    return ticket >= range.begin && ticket < range.end;
  });
}

constexpr uint64_t kCalls = 2000;
constexpr uint64_t kRecordsMax = 200;  // 100 of each rank

TEST_CASE("of ranks that called alike only the newest calls are wanted") {
  const test::Directory directory;
  const std::vector<RingFiles> rings = {write_rank(directory, 0, kCalls, kNever),
                                        write_rank(directory, 1, kCalls, kNever)};
  const ReadingPlan plan = plan_reading(rings, kRecordsMax, 2);
  CHECK(plan.calls == 2 * kCalls);
  CHECK(plan.skipped == 2 * (kCalls - 100));
  for (size_t ring = 0; ring < 2; ++ring) {
    CHECK(is_wanted(plan, ring, kCalls));
    CHECK_FALSE(is_wanted(plan, ring, kCalls - 200));
  }
}

TEST_CASE("where ranks part long before their newest digests, the place is wanted of both") {
  const uint64_t differs_from = GENERATE(uint64_t{0}, uint64_t{5}, uint64_t{300}, uint64_t{1024});
  const test::Directory directory;
  const std::vector<RingFiles> rings = {write_rank(directory, 0, kCalls, kNever),
                                        write_rank(directory, 1, kCalls, differs_from)};
  const ReadingPlan plan = plan_reading(rings, kRecordsMax, 2);
  CHECK(plan.skipped > 2 * kCalls / 2);
  for (size_t ring = 0; ring < 2; ++ring) {
    CHECK(is_wanted(plan, ring, differs_from + 1));
    CHECK(is_wanted(plan, ring, kCalls));
    CHECK_FALSE(is_wanted(plan, ring, differs_from + 600));
  }
}

TEST_CASE("a rank that is far behind is compared where it is") {
  const test::Directory directory;
  const std::vector<RingFiles> rings = {write_rank(directory, 0, kCalls, kNever),
                                        write_rank(directory, 1, 700, kNever)};
  const ReadingPlan plan = plan_reading(rings, kRecordsMax, 2);
  CHECK(is_wanted(plan, 0, 700));
  CHECK(is_wanted(plan, 0, 701));
  CHECK(is_wanted(plan, 1, 700));
  CHECK_FALSE(is_wanted(plan, 0, 1400));
  CHECK_FALSE(is_wanted(plan, 1, 100));
}

}  // namespace
}  // namespace rollcall::trace
