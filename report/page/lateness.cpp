#include "report/page/lateness.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

namespace rollcall::report {
namespace {

using analysis::Group;
using analysis::kNoRecord;

// When the members came to one position, by member; false: of some it is not known.
bool arrivals_at(const analysis::Index& index, const Group& group, uint64_t seq,
                 std::vector<int64_t>& arrivals) {
  arrivals.clear();
  for (const analysis::Member& member : group.members) {
    const uint32_t op = member.lane.at(seq);
    if (op == kNoRecord) return false;
    const int64_t called_ns = index.op(member.process, op).called_ns;
    if (called_ns <= 0) return false;
    arrivals.push_back(called_ns);
  }
  return true;
}

struct Tally {
  std::vector<RankLateness> ranks;
  std::vector<std::vector<int64_t>> behind_first;
  std::vector<LateCall> calls;
};

void count(const std::vector<int64_t>& arrivals, uint64_t seq, Tally& tally) {
  size_t last = 0;
  int64_t first_ns = arrivals[0];
  for (size_t at = 1; at < arrivals.size(); ++at) {
    if (arrivals[at] > arrivals[last]) last = at;
    first_ns = std::min(first_ns, arrivals[at]);
  }
  int64_t before_ns = first_ns;
  for (size_t at = 0; at < arrivals.size(); ++at) {
    if (at != last) before_ns = std::max(before_ns, arrivals[at]);
    tally.behind_first[at].push_back(arrivals[at] - first_ns);
  }
  tally.ranks[last].times_last += 1;
  tally.ranks[last].behind_ns += arrivals[last] - before_ns;
  tally.calls.push_back({seq, static_cast<uint32_t>(last), arrivals[last] - first_ns});
}

int64_t median_of(std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Lateness lateness_of(const analysis::Index& index, uint32_t g) {
  const Group& group = index.groups()[g];
  Lateness lateness;
  if (group.members.size() < 2 || !group.is_whole()) return lateness;
  std::set<std::string_view> hosts;
  for (const analysis::Member& member : group.members) {
    const trace::Process& process = index.run().processes[member.process];
    hosts.insert(process.host);
    lateness.doubt_ns = std::max(lateness.doubt_ns, process.clock_doubt_ns);
  }
  lateness.across_hosts = hosts.size() > 1;

  Tally tally;
  tally.behind_first.resize(group.members.size());
  for (uint32_t at = 0; at < group.members.size(); ++at) tally.ranks.push_back({at, 0, 0, 0});
  std::vector<int64_t> arrivals;
  group.members.front().lane.for_each_stretch([&](uint64_t first, const auto& ops) {
    for (uint64_t seq = first; seq < first + ops.size(); ++seq) {
      if (arrivals_at(index, group, seq, arrivals)) count(arrivals, seq, tally);
    }
  });
  lateness.calls = tally.calls.size();
  for (RankLateness& rank : tally.ranks) {
    rank.median_ns = median_of(tally.behind_first[rank.member]);
    if (rank.times_last > 0) lateness.ranks.push_back(rank);
  }
  std::sort(lateness.ranks.begin(), lateness.ranks.end(), [](const auto& a, const auto& b) {
    return std::tuple(b.times_last, b.behind_ns, a.member) <
           std::tuple(a.times_last, a.behind_ns, b.member);
  });
  std::sort(tally.calls.begin(), tally.calls.end(), [](const LateCall& a, const LateCall& b) {
    return std::tuple(b.spread_ns, a.seq) < std::tuple(a.spread_ns, b.seq);
  });
  tally.calls.resize(std::min(tally.calls.size(), kLateCallsMax));
  lateness.latest = std::move(tally.calls);
  return lateness;
}

}  // namespace rollcall::report
