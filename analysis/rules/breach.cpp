#include "analysis/rules/breach.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/rules/stray_call.h"
#include "analysis/slips/order_vote.h"
#include "analysis/slips/own_past.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

// Who made calls of the circle that its steps before do not have there, while those who did not
// make them did as before.
std::vector<uint32_t> find_unusual_callers(const Facts& facts, const Circle& circle) {
  std::vector<uint32_t> odd;
  for (size_t i = 0; i < std::min(circle.collectives.size(), kCircleAskedMax); ++i) {
    const Node& node = facts.graph.nodes()[circle.collectives[i]];
    if (!is_against_habit(facts, node)) continue;
    odd.insert(odd.end(), node.callers.begin(), node.callers.end());
  }
  std::sort(odd.begin(), odd.end());
  odd.erase(std::unique(odd.begin(), odd.end()), odd.end());
  return odd;
}

// Who called two calls of the circle in another order than most.
template <class Vote>
std::vector<uint32_t> outvoted(const Facts& facts, const Circle& circle, Vote vote) {
  for (const auto& [x, y] : circle.queued) {
    const Node& a = facts.graph.nodes()[x];
    const Node& b = facts.graph.nodes()[y];
    if (a.kind != NodeKind::collective || b.kind != NodeKind::collective) continue;
    const Votes& votes = vote(a, b);
    if (votes.forward.empty() || votes.backward.empty()) continue;
    if (votes.forward.size() != votes.backward.size()) {
      return votes.forward.size() < votes.backward.size() ? votes.forward : votes.backward;
    }
  }
  return {};
}

// Who called in another order than in its own steps before? Empty: nothing tells.
std::vector<uint32_t> find_unlike_before(const Facts& facts, const Circle& circle) {
  // What stopped the circle has not finished; what a rank did otherwise before that is past.
  std::vector<uint32_t> odd;
  std::vector<uint32_t> odd_now;
  bool any_is_sure = false;
  for (const uint32_t p : circle.hosts) {
    const std::optional<HabitBreak> habit = habit_break(facts, p);
    if (!habit) continue;
    // What follows may differ as well, where whole steps before it were alike.
    any_is_sure = any_is_sure || habit->alignment.contradicted == 0 || habit->is_settled;
    odd.push_back(p);
    if (!facts.playback.is_done(p, habit->op)) odd_now.push_back(p);
  }
  // What is contradicted by what follows may be no more than the first repetition of a step.
  if (!any_is_sure) {
    odd = find_odd_caller(facts, circle);
    return odd.empty() ? find_unusual_callers(facts, circle) : odd;
  }
  if (!odd_now.empty() && odd_now.size() < odd.size()) return odd_now;
  return odd.size() < circle.hosts.size() ? odd : find_unusual_callers(facts, circle);
}

// Who called in another order than the rest? Nobody: nothing tells.
struct Deviators {
  std::vector<uint32_t> processes;
  Confidence confidence = Confidence::certain;
  bool made_both = false;  // the calls whose order is another one
};
Deviators find_deviators(const Facts& facts, const Circle& circle) {
  OrderVotes votes(facts);
  std::vector<uint32_t> few =
      outvoted(facts, circle,
               [&](const Node& x, const Node& y) -> const Votes& { return votes.on_order(x, y); });
  if (!few.empty()) return {std::move(few), Confidence::certain, true};
  Deviators found{find_unlike_before(facts, circle)};
  // What only one step before was like, a longer step may have otherwise at its end.
  const auto is_sure = [&](uint32_t p) {
    const std::optional<HabitBreak> habit = habit_break(facts, p);
    return habit && habit->is_settled;
  };
  if (!std::all_of(found.processes.begin(), found.processes.end(), is_sure))
    found.confidence = Confidence::likely;
  return found;
}

std::vector<uint32_t> outvoted_by_place(const Facts& facts, const Circle& circle) {
  OrderVotes votes(facts);
  return outvoted(facts, circle, [&](const Node& x, const Node& y) -> const Votes& {
    return votes.by_place(x, y);
  });
}

// What others of the circle wait for longest, and it has not called, while it waits in another call
// of the circle; kNone where there is nothing.
uint32_t lacked_by(const Facts& facts, const Circle& circle, uint32_t p) {
  uint32_t lacked = kNone;
  if (waits_in(facts, circle, p) == kNone) return lacked;
  const std::vector<Node>& nodes = facts.graph.nodes();
  for (const AbsentEdge& edge : circle.absent) {
    if (edge.process != p || nodes[edge.node].kind == NodeKind::creation) continue;
    if (lacked == kNone || nodes[edge.node].since_ns < nodes[lacked].since_ns) lacked = edge.node;
  }
  return lacked;
}

// Who made one call without another, where most made the other first, or it alone so far.
Breach outvoted_by_absence(const Facts& facts, const Circle& circle) {
  size_t asked = 0;
  for (const AbsentEdge& edge : circle.absent) {
    const uint32_t waits = waits_in(facts, circle, edge.process);
    const auto is_collective_node = [&](uint32_t n) {
      return n != kNone && facts.graph.nodes()[n].kind == NodeKind::collective;
    };
    if (!is_collective_node(waits) || !is_collective_node(edge.node)) continue;
    if (++asked > kCircleAskedMax) break;
    Votes votes =
        vote_by_place(facts, facts.graph.nodes()[edge.node], facts.graph.nodes()[waits], true);
    if (!contains(votes.backward, edge.process)) continue;
    if (votes.backward.size() >= votes.forward.size()) continue;
    const bool are_several = votes.backward.size() > 1;
    return breach_without(facts, std::move(votes.backward), waits, edge.node, are_several);
  }
  return {};
}

// Few of the circle did as in the steps before, and most did not: who is right is for neither the
// number nor the habit to say. `odd`: who would be blamed by one of the two.
std::optional<Breach> against_habit(const Facts& facts, const Circle& circle,
                                    const std::vector<uint32_t>& odd) {
  const std::vector<uint32_t> all = processes_of(facts, circle);
  if (odd.empty() || all.size() > kCircleAskedMax) return std::nullopt;
  std::vector<uint32_t> kept;
  std::vector<uint32_t> changed;
  for (const uint32_t p : all) (habit_break(facts, p) ? changed : kept).push_back(p);
  const bool is_against = !kept.empty() && kept.size() < changed.size();
  if (!is_against || (odd != kept && odd != changed)) return std::nullopt;
  Breach both;
  both.confidence = Confidence::likely;
  both.who = processes_text(facts.index.run(), kept);
  both.how = fmt::format("called in another order than {}, who changed theirs here",
                         processes_text(facts.index.run(), changed));
  both.processes = all;
  both.misstep = Misstep::reordered;
  return both;
}

// Who is blamed for what the steps before or the others have first: if each of them lacks a call
// that others wait in, it may have left that out.
std::optional<Breach> breach_of_lacking(const Facts& facts, const Circle& circle,
                                        const std::vector<uint32_t>& odd) {
  const bool all_lack = !odd.empty() && std::all_of(odd.begin(), odd.end(), [&](uint32_t p) {
    return lacked_by(facts, circle, p) != kNone;
  });
  if (!all_lack) return std::nullopt;
  const uint32_t without = lacked_by(facts, circle, odd.front());
  const bool are_several = std::any_of(
      odd.begin(), odd.end(), [&](uint32_t p) { return lacked_by(facts, circle, p) != without; });
  return breach_without(facts, odd, waits_in(facts, circle, odd.front()), without, are_several);
}

// What a rank owes to those who wait in a call: "the AllReduce", "the receive".
std::string owed_text(const Facts& facts, uint32_t n) {
  const OpRef example = example_of(facts, n);
  if (example.process == kNone) return "that call";
  const OpKind kind = facts.index.op(example.process, example.op).kind;
  const bool is_pair = facts.graph.nodes()[n].kind == NodeKind::p2p;
  return fmt::format("the {}", is_pair ? other_side_text(kind) : rollcall::name_of(kind));
}

}  // namespace

std::vector<uint32_t> find_odd_caller(const Facts& facts, const Circle& circle) {
  std::vector<uint32_t> odd;
  size_t asked = 0;
  for (const uint32_t p : processes_of(facts, circle)) {
    if (++asked > kCircleAskedMax) return {};
    const std::optional<HabitBreak> habit = habit_break(facts, p);
    if (habit && habit->alignment.contradicted == 0) odd.push_back(p);
  }
  return odd.size() == 1 ? odd : std::vector<uint32_t>{};
}

std::vector<uint32_t> find_lonely(const Facts& facts, const Circle& circle) {
  std::vector<uint32_t> lonely;
  for (const uint32_t n : circle.collectives) {
    const Node& node = facts.graph.nodes()[n];
    if (node.callers.empty()) continue;
    const Group& group = facts.group(node.group);
    const auto called = static_cast<size_t>(
        std::count_if(group.members.begin(), group.members.end(),
                      [&](const Member& member) { return member.lane.called > node.seq; }));
    // Of two nobody is in the majority; where files are missing nobody knows.
    const bool has_majority = group.members.size() > 2 && group.is_whole();
    if (!has_majority || called * 2 >= group.members.size()) continue;
    if (!lonely.empty() && lonely != node.callers) return {};
    lonely = node.callers;
  }
  return lonely;
}

uint32_t waits_in(const Facts& facts, const Circle& circle, uint32_t p) {
  const auto is_there = [&](uint32_t n) {
    const Node& node = facts.graph.nodes()[n];
    return node.kind == NodeKind::p2p ? node.process == p : contains(node.callers, p);
  };
  const auto found = std::find_if(circle.calls.begin(), circle.calls.end(), is_there);
  return found == circle.calls.end() ? kNone : *found;
}

Breach breach_without(const Facts& facts, std::vector<uint32_t> odd, uint32_t waits,
                      uint32_t without, bool are_several) {
  Breach breach;
  breach.confidence = Confidence::likely;
  const bool is_pair = facts.graph.nodes()[without].kind == NodeKind::p2p;
  const std::string who = rank_text(facts.process(odd.front()));
  constexpr const char* kOrder =
      "called in another order than in the steps before, or than the "
      "others, or left out what comes first";
  constexpr const char* kLeftOut =
      "left out what comes first, or called in another order than in "
      "the steps before, or than the others";
  breach.how = fmt::format("{}: {} made the call {}, and not {}{}", are_several ? kOrder : kLeftOut,
                           who, node_text(facts, waits),
                           is_pair ? owed_text(facts, without) + " that belongs to " : "",
                           node_text(facts, without));
  breach.look =
      fmt::format("look at the branch that decides about {} on {}", owed_text(facts, without), who);
  breach.is_order_first = are_several;
  breach.processes = std::move(odd);
  return breach;
}

Breach find_breach(const Facts& facts, const Circle& circle) {
  auto [odd, confidence, made_both] = find_deviators(facts, circle);
  const char* order = "called in another order than in the steps before, or than the others";
  if (std::optional<Breach> both = against_habit(facts, circle, odd)) return *both;
  if (!made_both) {
    if (std::optional<Breach> lacking = breach_of_lacking(facts, circle, odd)) return *lacking;
  }
  if (!odd.empty()) return {std::move(odd), order, confidence, {}, Misstep::reordered};
  odd = outvoted_by_place(facts, circle);
  if (!odd.empty()) return {std::move(odd), order, Confidence::likely, {}, Misstep::reordered};
  if (Breach few = outvoted_by_absence(facts, circle); !few.processes.empty()) return few;
  odd = find_lonely(facts, circle);
  if (std::optional<Breach> lacking = breach_of_lacking(facts, circle, odd)) return *lacking;
  const char* waits = odd.size() > 1 ? "wait" : "waits";
  return {std::move(odd),
          fmt::format("{} in a call that most of its communicator have not made", waits),
          Confidence::likely};
}

}  // namespace rollcall::analysis
