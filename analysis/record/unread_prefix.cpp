#include "analysis/record/unread_prefix.h"

#include <algorithm>
#include <map>
#include <optional>

namespace rollcall::analysis {
namespace {

using trace::PrefixDigest;

// The first position from which on all calls of the member up to its newest record are at hand.
uint64_t first_held(const Member& member) {
  const Lane& lane = member.lane;
  if (lane.ops.empty()) return lane.called;
  const size_t begin = lane.stretches.empty() ? 0 : lane.stretches.back().begin;
  const uint64_t first = lane.stretches.empty() ? lane.first : lane.stretches.back().first;
  const auto hole =
      std::find(lane.ops.rbegin(), lane.ops.rend() - static_cast<ptrdiff_t>(begin), kNoRecord);
  return first + static_cast<uint64_t>(lane.ops.rend() - static_cast<ptrdiff_t>(begin) - hole);
}

const std::vector<PrefixDigest>& digests_of(const Index& index, const Member& member) {
  return index.run().processes[member.process].comms[member.comm].digests;
}

std::optional<uint64_t> digest_at(const std::vector<PrefixDigest>& digests, uint64_t seq) {
  const auto found =
      std::lower_bound(digests.begin(), digests.end(), seq,
                       [](const PrefixDigest& one, uint64_t at) { return one.seq < at; });
  if (found == digests.end() || found->seq != seq) return std::nullopt;
  return found->digest;
}

// The newest position at which all members have a digest.
std::optional<uint64_t> newest_common(const Index& index, const Group& group) {
  const std::vector<PrefixDigest>& first = digests_of(index, group.members.front());
  for (auto candidate = first.rbegin(); candidate != first.rend(); ++candidate) {
    const bool is_common =
        std::all_of(group.members.begin(), group.members.end(), [&](const Member& member) {
          return digest_at(digests_of(index, member), candidate->seq).has_value();
        });
    if (is_common) return candidate->seq;
  }
  return std::nullopt;
}

// Those who are not of the largest camp, or all where that is no majority; nobody where all agree.
std::vector<uint32_t> deviators_at(const Index& index, const Group& group, uint64_t seq) {
  std::map<uint64_t, std::vector<uint32_t>> camps;
  for (const Member& member : group.members) {
    camps[*digest_at(digests_of(index, member), seq)].push_back(member.process);
  }
  const auto most = std::find_if(camps.begin(), camps.end(), [&](const auto& camp) {
    return camp.second.size() * 2 > group.members.size();
  });
  if (most != camps.end()) camps.erase(most);
  std::vector<uint32_t> deviators;
  for (const auto& [digest, processes] : camps) {
    deviators.insert(deviators.end(), processes.begin(), processes.end());
  }
  std::sort(deviators.begin(), deviators.end());
  return deviators;
}

}  // namespace

UnreadPrefixes unread_prefixes(const Index& index) {
  UnreadPrefixes prefixes;
  for (uint32_t g = 0; g < index.groups().size(); ++g) {
    const Group& group = index.groups()[g];
    if (!group.may_be_matched || group.members.size() < 2) continue;
    uint64_t held = 0;
    for (const Member& member : group.members) held = std::max(held, first_held(member));
    if (held == 0) continue;
    const std::optional<uint64_t> seq = newest_common(index, group);
    if (seq) {
      std::vector<uint32_t> deviators = deviators_at(index, group, *seq);
      if (!deviators.empty()) {
        prefixes.parted.push_back({g, *seq, std::min(*seq, held), std::move(deviators)});
        continue;
      }
    }
    if (!seq || *seq < held) prefixes.open.push_back({g, held});
  }
  return prefixes;
}

}  // namespace rollcall::analysis
