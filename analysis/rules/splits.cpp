// Lists of members that contradict each other: PyTorch's process groups, made of splits.
//
// NCCL makes a communicator of whoever passes one colour to one split, and asks nobody whom he
// expected there. Who makes his groups in another order, or of other lists, gets communicators with
// fewer ranks than he listed: all calls match, and every sum is wrong.
//
// That two communicators of one name have no rank in common proves nothing, since that is what the
// parts of a mesh look like. But PyTorch passes its place in the list of ranks as the key of the
// split, and NCCL numbers the members by their keys: with equal lists the key is the rank. A key
// that is not says that ranks below it were listed and did not come. Others may pass keys as they
// like, and mostly pass the rank in the parent; so only names as PyTorch gives them count, and only
// parents whose children all have keys that can be places in a list.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/rules/rules.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;

constexpr size_t kSplitSidesMax = 4;

const Comm& comm_of(const Facts& facts, const Member& member) {
  return facts.process(member.process).comms[member.comm];
}

// new_group() numbers the groups of the job, also on ranks that are in none of them: "1", or, of
// the backend before PyTorch 2.15's, "undefined:1", with a description before it. split_group() and
// device meshes use a SHA-1 of the list in hexadecimal, of which all but one digit is on file; that
// older backend leaves them the parent's name.
bool is_counted(std::string_view name) {
  const size_t colon = name.rfind(':');
  const std::string_view number = colon == std::string_view::npos ? name : name.substr(colon + 1);
  return !number.empty() && number.size() < 10 &&
         number.find_first_not_of("0123456789") == std::string_view::npos;
}

// What new_group() splits is the default group, the first of the job.
bool is_default_group(std::string_view name) { return name == "0" || name == "default_pg:0"; }

bool is_hashed(std::string_view name) {
  return name.size() == kCommNameBytes - 1 &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_named_by_pytorch(const Facts& facts, const Group& group) {
  return std::all_of(group.members.begin(), group.members.end(), [&](const Member& member) {
    const std::string& name = comm_of(facts, member).name;
    return is_counted(name) || is_hashed(name);
  });
}

// Splits of one parent, which are to be numbered by it and known from the shim.
bool is_split(const Facts& facts, const Group& group) {
  return group.parent != kNone && group.origin == CommOrigin::split &&
         std::none_of(group.members.begin(), group.members.end(), [&](const Member& member) {
           return facts.process(member.process).is_foreign();
         });
}

bool is_torn(const Facts& facts, const Member& member) {
  return member.rank >= 0 && comm_of(facts, member).split_key != member.rank;
}

bool is_torn(const Facts& facts, const Group& group) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [&](const Member& member) { return is_torn(facts, member); });
}

// Whether the keys can be places in lists: none twice in one communicator, none negative, and not
// simply the ranks in the parent.
bool are_places(const Facts& facts, uint32_t parent, const std::vector<uint32_t>& children) {
  std::map<uint32_t, int32_t> parent_ranks;
  for (const Member& member : facts.group(parent).members)
    parent_ranks[member.process] = member.rank;
  bool are_parent_ranks = true;
  for (const uint32_t g : children) {
    std::set<int32_t> keys;
    for (const Member& member : facts.group(g).members) {
      const int32_t key = comm_of(facts, member).split_key;
      if (key < 0 || !keys.insert(key).second) return false;
      const auto found = parent_ranks.find(member.process);
      are_parent_ranks = are_parent_ranks && found != parent_ranks.end() && found->second == key;
    }
  }
  return !are_parent_ranks;
}

// Ranks that had different lists for one group: one new_group() that became several communicators,
// or one communicator whose members call it differently.
struct SplitDispute {
  uint32_t group = kNone;  // a communicator in question: a torn one where there is any
  bool is_torn = false;
  std::vector<std::vector<uint32_t>> sides;  // processes that agree
  std::vector<uint32_t> groups;
};

void add_divided_groups(const Facts& facts, uint32_t parent, const std::vector<uint32_t>& children,
                        std::vector<SplitDispute>& disputes) {
  const std::string& parent_name = comm_of(facts, facts.group(parent).members.front()).name;
  if (!is_default_group(parent_name)) return;
  std::map<std::pair<uint32_t, std::string>, std::map<uint32_t, std::vector<uint32_t>>> splits;
  for (const uint32_t g : children) {
    for (const Member& member : facts.group(g).members) {
      const std::string& name = comm_of(facts, member).name;
      if (!is_counted(name) || name == parent_name) continue;
      splits[{facts.group(g).child_number, name}][g].push_back(member.process);
    }
  }
  for (auto& [split, parts] : splits) {
    if (parts.size() < 2) continue;
    SplitDispute dispute;
    for (auto& [g, processes] : parts) {
      if (!dispute.is_torn) dispute.group = g;
      dispute.is_torn = dispute.is_torn || is_torn(facts, facts.group(g));
      dispute.groups.push_back(g);
      dispute.sides.push_back(std::move(processes));
    }
    disputes.push_back(std::move(dispute));
  }
}

void add_renamed_groups(const Facts& facts, const std::vector<uint32_t>& children,
                        std::vector<SplitDispute>& disputes) {
  for (const uint32_t g : children) {
    std::map<std::string_view, std::vector<uint32_t>> names;
    for (const Member& member : facts.group(g).members) {
      names[comm_of(facts, member).name].push_back(member.process);
    }
    if (names.size() < 2) continue;
    SplitDispute dispute{
        .group = g, .is_torn = is_torn(facts, facts.group(g)), .sides = {}, .groups = {g}};
    for (auto& [name, processes] : names) dispute.sides.push_back(std::move(processes));
    disputes.push_back(std::move(dispute));
  }
}

// Who disagrees with the most others. Where nobody was listed and did not come, each part may have
// listed itself alone, which is not as new_group() is meant, but works: that decides between
// equals.
std::vector<uint32_t> most_disputed(const std::vector<SplitDispute>& disputes) {
  using Opponents = std::pair<size_t, size_t>;  // in torn disputes first, then in the others
  std::map<uint32_t, Opponents> opponents;
  for (const SplitDispute& dispute : disputes) {
    size_t all = 0;
    for (const auto& side : dispute.sides) all += side.size();
    for (const auto& side : dispute.sides) {
      for (const uint32_t p : side) {
        Opponents& here = opponents[p];
        (dispute.is_torn ? here.first : here.second) += all - side.size();
      }
    }
  }
  Opponents most;
  for (const auto& [p, count] : opponents) most = std::max(most, count);
  std::vector<uint32_t> processes;
  for (const auto& [p, count] : opponents) {
    if (count == most) processes.push_back(p);
  }
  return processes;
}

std::string sides_text(const Facts& facts, const SplitDispute& dispute) {
  std::string text;
  for (size_t i = 0; i < dispute.sides.size() && i < kSplitSidesMax; ++i) {
    text += fmt::format("{}{}", text.empty() ? "" : " and of ",
                        processes_text(facts.index.run(), dispute.sides[i]));
  }
  if (dispute.sides.size() > kSplitSidesMax) text += " and more";
  return text;
}

std::string summary_of(const Facts& facts, const SplitDispute& dispute,
                       const std::vector<uint32_t>& culprits) {
  std::vector<uint32_t> here;
  std::vector<uint32_t> others;
  for (const auto& side : dispute.sides) {
    for (const uint32_t p : side) {
      (std::binary_search(culprits.begin(), culprits.end(), p) ? here : others).push_back(p);
    }
  }
  const trace::Run& run = facts.index.run();
  const Group& group = facts.group(dispute.group);
  const std::string split =
      fmt::format("split {} of {}", group.child_number, facts.group(group.parent).name);
  const bool is_one = dispute.groups.size() == 1;
  const std::string what = is_one ? "the process group of " + split : group.name;
  std::string text;
  if (here.empty() || others.empty()) {
    here.insert(here.end(), others.begin(), others.end());
    text = fmt::format("{} listed different members for {}", processes_text(run, here), what);
  } else {
    text = fmt::format("{} listed other members for {} than {}", processes_text(run, here), what,
                       processes_text(run, others));
  }
  text += is_one
              ? fmt::format(": together {} became one communicator", ranks_text(facts.index, group))
              : fmt::format(": {} made {} communicators of it, of {}", split, dispute.sides.size(),
                            sides_text(facts, dispute));
  const auto torn = std::find_if(group.members.begin(), group.members.end(),
                                 [&](const Member& member) { return is_torn(facts, member); });
  if (torn == group.members.end()) return text;
  return text + fmt::format(
                    "; {} is number {} there and was listed as number {}, and calls there "
                    "reach other ranks than were listed",
                    rank_text(facts.process(torn->process)), torn->rank,
                    comm_of(facts, *torn).split_key);
}

// The split as each rank called it: those whose place is not what they listed come first.
void add_evidence(const Facts& facts, const std::vector<SplitDispute>& disputes, Finding& finding) {
  for (const bool torn : {true, false}) {
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (const SplitDispute& dispute : disputes) {
      for (const uint32_t g : dispute.groups) {
        for (const Member& member : facts.group(g).members) {
          if (finding.evidence.size() == kEvidenceMax) return;
          if (is_torn(facts, member) != torn || !seen.insert({g, member.process}).second) continue;
          const Comm& comm = comm_of(facts, member);
          finding.evidence.push_back(
              {.file = facts.process(member.process).file,
               .record = fmt::format("comm {}", member.comm),
               .text =
                   fmt::format("{}: number {} of its list for \"{}\", in split {} of {}; number "
                               "{} of the {} that came",
                               rank_text(facts.process(member.process)), comm.split_key, comm.name,
                               comm.child_number, facts.group(facts.group(g).parent).name,
                               member.rank, comm.nranks)});
        }
      }
    }
  }
}

Draft draft_of(const Facts& facts, std::vector<SplitDispute> disputes) {
  const std::vector<uint32_t> culprits = most_disputed(disputes);
  std::erase_if(disputes, [&](const SplitDispute& dispute) {
    return std::none_of(dispute.sides.begin(), dispute.sides.end(), [&](const auto& side) {
      return std::find_first_of(side.begin(), side.end(), culprits.begin(), culprits.end()) !=
             side.end();
    });
  });
  // There is one: who is in the most torn disputes is in one.
  const auto first = std::find_if(disputes.begin(), disputes.end(),
                                  [](const SplitDispute& dispute) { return dispute.is_torn; });
  // Likely: that a name and a key are PyTorch's is not on file.
  Draft draft = make_draft(Verdict::split_mismatch, Confidence::likely, Misstep::other_arguments);
  draft.since_ns = INT64_MAX;
  std::vector<uint32_t> victims;
  for (const SplitDispute& dispute : disputes) {
    for (const uint32_t g : dispute.groups) {
      for (const Member& member : facts.group(g).members) {
        victims.push_back(member.process);
        draft.since_ns = std::min(draft.since_ns, comm_of(facts, member).created_ns);
      }
    }
  }
  for (const uint32_t p : culprits) {
    Culprit culprit = culprit_of(facts, p, facts.group(first->group).parent);
    culprit.op = "CommSplit";
    draft.finding.culprits.push_back(std::move(culprit));
  }
  draft.finding.summary = summary_of(facts, *first, culprits);
  draft.finding.next =
      "compare the order and the lists of new_group(), or the shape of the device mesh, on that "
      "rank with another's";
  set_victims(facts, victims, draft.finding);
  add_evidence(facts, disputes, draft.finding);
  return draft;
}

}  // namespace

std::vector<Draft> judge_splits(const Facts& facts) {
  std::map<uint32_t, std::vector<uint32_t>> families;
  for (uint32_t g = 0; g < facts.index.groups().size(); ++g) {
    const Group& group = facts.group(g);
    if (is_split(facts, group) && is_named_by_pytorch(facts, group))
      families[group.parent].push_back(g);
  }
  // Once per parent, which may have as many children as members.
  std::erase_if(families, [&](const auto& family) {
    return !is_named_by_pytorch(facts, facts.group(family.first));
  });
  std::vector<Draft> drafts;
  for (const auto& [parent, children] : families) {
    const bool any_torn = std::any_of(children.begin(), children.end(),
                                      [&](uint32_t g) { return is_torn(facts, facts.group(g)); });
    if (!any_torn || !are_places(facts, parent, children)) continue;
    std::vector<SplitDispute> disputes;
    add_divided_groups(facts, parent, children, disputes);
    add_renamed_groups(facts, children, disputes);
    const bool is_proven = std::any_of(disputes.begin(), disputes.end(),
                                       [](const SplitDispute& dispute) { return dispute.is_torn; });
    if (is_proven) drafts.push_back(draft_of(facts, std::move(disputes)));
  }
  return drafts;
}

}  // namespace rollcall::analysis
