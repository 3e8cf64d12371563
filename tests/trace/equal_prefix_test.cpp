// What a large run leaves on disk: two ranks of one communicator, with and without a difference.
#include "trace/equal_prefix.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/trace/files.h"

namespace rollcall::trace {
namespace equal_prefix_test {

constexpr uint64_t kNever = UINT64_MAX;

RingFiles write_rank(const test::Directory& directory, uint32_t rank, uint64_t calls,
                     uint64_t differs_from) {
  const test::RankFiles files = test::make_rank(rank, calls, differs_from);
  directory.write(files.ring_name, files.ring);
  directory.write(files.segment_name, files.segment);
  const std::string path = directory.path() + "/";
  return {path + files.ring_name, {path + files.segment_name}};
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

TEST_CASE("the digests at the ranks' last calls are the same where all that they called is") {
  const uint64_t differs_from = GENERATE(values({kNever, uint64_t{300}}));
  const test::Directory directory;
  const std::vector<RingFiles> rings = {write_rank(directory, 0, kCalls, kNever),
                                        write_rank(directory, 1, kCalls, differs_from)};
  const ReadingPlan plan = plan_reading(rings, kRecordsMax, 2);
  REQUIRE(plan.ends.size() == 2);
  for (const std::vector<PrefixDigest>& ends : plan.ends) {
    REQUIRE_FALSE(ends.empty());
    CHECK(ends[0].seq == kCalls);
  }
  CHECK((plan.ends[0][0].digest == plan.ends[1][0].digest) == (differs_from == kNever));
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

}  // namespace equal_prefix_test
}  // namespace rollcall::trace
