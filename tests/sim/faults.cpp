// The faults that are planted in random training jobs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tests/sim/training.h"

namespace rollcall::sim {
namespace {

bool is_call(const Step& step) { return step.act == Act::call; }

// A captured call is executed by nobody here, and whoever gets no signal waits for it alone: other
// calls' faults are not planted in them.
bool is_aside(const Step& step) { return step.graph != 0 || is_rma(step.kind); }

// A call more behind the last one of its communicator.
bool is_added_behind(Fault fault) {
  return fault == Fault::alone || fault == Fault::detour || fault == Fault::again ||
         fault == Fault::p2p_extra;
}

bool is_p2p_size(Fault fault) { return fault == Fault::p2p_count || fault == Fault::part_count; }

bool is_same_transfer(const Step& a, const Step& b) {
  return is_call(a) && a.kind == b.kind && a.comm == b.comm && a.count == b.count &&
         a.root_or_peer == b.root_or_peer;
}

bool is_size_of_others(const std::vector<Step>& steps, size_t at) {
  return std::count_if(steps.begin(), steps.end(),
                       [&](const Step& other) { return is_same_transfer(other, steps[at]); }) > 1;
}

// Wrong arguments are wrong in a captured call, too.
bool is_argument(Fault fault) {
  constexpr Fault kArguments[] = {Fault::op, Fault::count, Fault::dtype, Fault::redop, Fault::root};
  return std::count(std::begin(kArguments), std::end(kArguments), fault) != 0;
}

bool is_signal(const Step& step) {
  return is_call(step) && step.graph == 0 &&
         (step.kind == OpKind::Signal || step.kind == OpKind::PutSignal);
}

// Every signal of this one's kind is waited for.
bool is_awaited(const Program& program, const std::vector<Step>& steps, const Step& signal) {
  uint64_t sent = 0;
  uint64_t awaited = 0;
  const std::vector<int>& ranks = program.comms[signal.comm].ranks;
  const auto mine = static_cast<int>(&steps - program.ranks.data());
  for (const Step& step : steps) {
    sent += is_signal(step) && step.comm == signal.comm && step.root_or_peer == signal.root_or_peer;
  }
  for (const Step& step : program.ranks[ranks[signal.root_or_peer]]) {
    const bool waits = is_call(step) && step.kind == OpKind::WaitSignal &&
                       step.comm == signal.comm && ranks[step.root_or_peer] == mine;
    if (waits) awaited += step.count;
  }
  return sent == awaited;
}

// Position of a call among those it is counted with.
uint64_t position(const std::vector<Step>& steps, size_t at) {
  uint64_t before = 0;
  for (size_t i = 0; i < at; ++i) {
    if (!is_call(steps[i]) || steps[i].comm != steps[at].comm) continue;
    if (is_rma(steps[at].kind)) {
      before += is_signal(steps[i]) && steps[i].root_or_peer == steps[at].root_or_peer;
    } else if (is_p2p(steps[at].kind)) {
      before += steps[i].kind == steps[at].kind && steps[i].root_or_peer == steps[at].root_or_peer;
    } else {
      before += is_collective(steps[i].kind);
    }
  }
  return before;
}

bool contains(const std::vector<int>& ranks, size_t rank) {
  return std::find(ranks.begin(), ranks.end(), static_cast<int>(rank)) != ranks.end();
}

bool looks_the_same(const Step& a, const Step& b) {
  return a.kind == b.kind && a.count == b.count && a.datatype == b.datatype &&
         (!traits_of(a.kind).reduces || a.reduction == b.reduction) &&
         (!traits_of(a.kind).rooted || a.root_or_peer == b.root_or_peer);
}

// The next collective of the same communicator; the size of the program if there is none.
size_t next_on(const std::vector<Step>& steps, size_t at) {
  for (size_t i = at + 1; i < steps.size(); ++i) {
    if (is_call(steps[i]) && is_collective(steps[i].kind) && steps[i].comm == steps[at].comm) {
      return i;
    }
  }
  return steps.size();
}

// The first collective of the communicator that is executed from step `from` on; the size of the
// program if there is none. Captured calls are executed where their graph is replayed.
size_t executed_on(const std::vector<Step>& steps, int comm, size_t from) {
  const auto is_on = [&](const Step& step) {
    return is_call(step) && is_collective(step.kind) && step.comm == comm;
  };
  for (size_t i = from; i < steps.size(); ++i) {
    if (is_on(steps[i]) && steps[i].graph == 0) return i;
    if (steps[i].act != Act::replay) continue;
    const auto captured = std::find_if(steps.begin(), steps.end(), [&](const Step& step) {
      return is_on(step) && step.graph == steps[i].graph;
    });
    if (captured != steps.end()) return static_cast<size_t>(captured - steps.begin());
  }
  return steps.size();
}

// The call at `at` looks like the one behind it on its communicator, where sizes change but for the
// size; behind the last one stands the first, because steps repeat.
bool is_twin(const std::vector<Step>& steps, size_t at, bool is_of_any_size = false) {
  if (at >= steps.size() || !is_call(steps[at]) || !is_collective(steps[at].kind)) return false;
  const int comm = steps[at].comm;
  size_t next = steps[at].graph == 0 ? executed_on(steps, comm, at + 1) : next_on(steps, at);
  if (next == steps.size()) next = executed_on(steps, comm, 0);
  if (next == steps.size()) return false;
  Step resized = steps[next];
  if (steps[at].is_varied || is_of_any_size) resized.count = steps[at].count;
  return looks_the_same(steps[at], resized);
}

bool is_again_behind_next(const std::vector<Step>& steps, size_t at) {
  size_t calls = 0;
  for (size_t i = at + 1; i < steps.size(); ++i) {
    if (!is_call(steps[i]) || ++calls < 2) continue;
    return steps[i].comm == steps[at].comm && looks_the_same(steps[at], steps[i]);
  }
  return false;
}

// Everybody else of the call's communicator meets the caller once more, in another one.
bool is_met_again(const std::vector<Step>& steps, size_t at, const Program& program) {
  const std::vector<int>& ranks = program.comms[steps[at].comm].ranks;
  std::vector<int> met;
  for (size_t i = at + 1; i < steps.size(); ++i) {
    if (!is_call(steps[i]) || !is_collective(steps[i].kind) || steps[i].graph != 0) continue;
    if (steps[i].comm == steps[at].comm) continue;
    const std::vector<int>& others = program.comms[steps[i].comm].ranks;
    met.insert(met.end(), others.begin(), others.end());
  }
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return std::find(met.begin(), met.end(), rank) != met.end();
  });
}

// In either order the second waits for the first.
bool take_turns(const Step& a, const Step& b) {
  return a.stream == b.stream || (a.joins && b.joins && !a.detached && !b.detached);
}

bool is_of_replay(Fault fault) { return static_cast<uint64_t>(fault) >= kFaultsOfStreams; }

// Of a graph's replays: calls, or groups of them.
uint32_t units_of(const std::vector<Step>& steps, uint32_t graph) {
  uint32_t units = 0;
  uint32_t group = 0;
  for (const Step& step : steps) {
    if (!is_call(step) || step.graph != graph) continue;
    units += step.group == 0 || step.group != group;
    group = step.group;
  }
  return units;
}

bool fits_replay(Fault fault, const std::vector<Step>& steps, size_t at) {
  const uint32_t graph = steps[at].graph;
  switch (fault) {
    case Fault::replay_missing:
    case Fault::replay_lame:
    case Fault::block:
    case Fault::die:
    case Fault::stop:
    case Fault::exit:
    case Fault::stick:
      return true;
    case Fault::replay_block:
      return units_of(steps, graph) > 1;
    case Fault::replay_order:
      return at + 1 < steps.size() && steps[at + 1].act == Act::replay &&
             steps[at + 1].graph != graph;
    default:
      return false;
  }
}

bool fits(Fault fault, const std::vector<Step>& steps, size_t at, const Program& program) {
  const Step& step = steps[at];
  if (is_creation(fault)) {
    if (step.act != Act::create) return false;
    const CommSpec& comm = program.comms[step.comm];
    if (comm.parent < 0) return fault == Fault::init_missing;
    if (comm.origin == CommOrigin::split) return fault == Fault::split_missing;
    // Alone, nobody waits.
    if (comm.ranks.size() < 2) return false;
    return fault ==
           (comm.origin == CommOrigin::shrink ? Fault::shrink_missing : Fault::grow_missing);
  }
  if (step.act == Act::replay) return fits_replay(fault, steps, at);
  if (is_of_replay(fault)) return false;
  // A communicator that was made on the way has little history, and may have one rank only.
  if (!is_call(step) || program.comms[step.comm].is_late) return false;
  if (fault == Fault::signal_missing) return is_signal(step) && is_awaited(program, steps, step);
  const bool is_of_captured = is_argument(fault) || fault == Fault::missing;
  if (is_rma(step.kind) || (step.graph != 0 && !is_of_captured)) return false;
  const bool coll = is_collective(step.kind);
  const size_t next = coll ? next_on(steps, at) : steps.size();
  const bool has_next = next < steps.size();
  switch (fault) {
    case Fault::missing:
      return coll && has_next && !looks_the_same(step, steps[next]);
    case Fault::order:
      return coll && at + 1 == next && has_next && !looks_the_same(step, steps[next]);
    case Fault::comm_order:
      return coll && at + 1 < steps.size() && is_call(steps[at + 1]) && !is_aside(steps[at + 1]) &&
             is_collective(steps[at + 1].kind) && steps[at + 1].comm != step.comm &&
             (step.comm == 0 || steps[at + 1].comm == 0) && step.group == 0 &&
             steps[at + 1].group == 0 && take_turns(step, steps[at + 1]);
    case Fault::alone:
    case Fault::detour:
    case Fault::again:
      return coll && !has_next && step.group == 0 && program.comms[step.comm].ranks.size() > 1 &&
             is_met_again(steps, at, program);
    case Fault::hold:
    case Fault::refuse:
    case Fault::lame:
      return coll && step.group == 0;
    case Fault::block:
      return coll && (step.group == 0 || at == 0 || steps[at - 1].group != step.group);
    case Fault::redop:
      return coll && traits_of(step.kind).reduces;
    case Fault::root:
      return coll && traits_of(step.kind).rooted && program.comms[step.comm].ranks.size() > 1;
    case Fault::p2p_unmatched:
    case Fault::p2p_count:
      return step.kind == OpKind::Send && step.group == 0;
    case Fault::part_missing:
    case Fault::part_count:
      return is_p2p(step.kind) && step.group != 0;
    case Fault::batch_missing:
      return is_p2p(step.kind) && step.group != 0 &&
             (at == 0 || steps[at - 1].group != step.group || !is_call(steps[at - 1]));
    case Fault::p2p_extra:
      return is_p2p(step.kind) && step.group == 0 && step.count > kLargeCount;
    case Fault::p2p_cycle:
      return is_p2p(step.kind) && step.group == 0 && step.count > kLargeCount &&
             at + 1 < steps.size() && is_call(steps[at + 1]) && is_p2p(steps[at + 1].kind) &&
             steps[at + 1].kind != step.kind && steps[at + 1].count == step.count &&
             steps[at + 1].root_or_peer == step.root_or_peer;
    default:
      return coll;
  }
}

// Ranks and indices of their steps where the fault can be planted.
std::vector<std::pair<int, size_t>> places_for(Fault fault, const Program& program,
                                               const std::vector<int>& spared) {
  std::vector<std::pair<int, size_t>> places;
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    const std::vector<Step>& steps = program.ranks[r];
    // The second half: the job has a history by then. Communicators are made before.
    const size_t first = is_creation(fault) ? 0 : steps.size() / 2;
    for (size_t at = 0; at < steps.size(); ++at) {
      // So are graphs that are replayed.
      if (at < first && (!program.replays() || steps[at].graph == 0 || !is_call(steps[at])))
        continue;
      if (contains(spared, r) || !fits(fault, steps, at, program)) continue;
      places.emplace_back(static_cast<int>(r), at);
    }
  }
  return places;
}

// What a rank does in front of a call, where that is the fault.
std::optional<Act> act_of(Fault fault) {
  switch (fault) {
    case Fault::die:
      return Act::die;
    case Fault::stop:
      return Act::stop;
    case Fault::exit:
      return Act::exit;
    case Fault::stick:
    case Fault::init_missing:
      return Act::stick;
    case Fault::abort:
      return Act::abort;
    case Fault::hold:
      return Act::hold;
    case Fault::refuse:
      return Act::refuse;
    case Fault::block:
      return Act::block;
    default:
      return std::nullopt;
  }
}

// A collective on the communicator of this one that no step has.
Step unheard_of(const Step& step) {
  Step extra = step;
  extra.kind = OpKind::AllReduce;
  extra.root_or_peer = -1;
  extra.count = 7777;
  // Where sizes change, another size is nothing unheard of.
  if (step.is_varied) extra.datatype = 8;
  return extra;
}

void leave_out_group(std::vector<Step>& steps, uint32_t group) {
  std::erase_if(steps, [=](const Step& one) { return is_call(one) && one.group == group; });
}

void leave_out_comms(std::vector<Step>& steps, int first, int last) {
  std::erase_if(steps, [=](const Step& one) {
    return one.comm >= first && one.comm <= last &&
           (one.act == Act::create || one.act == Act::call);
  });
}

// In front of a step.
void insert_act(std::vector<Step>& steps, size_t at, Act act) {
  // What blocks a stream blocks that of the next call.
  Step step = act == Act::block ? steps[at] : Step{};
  step.act = act;
  step.group = 0;
  steps.insert(steps.begin() + static_cast<ptrdiff_t>(at), step);
}

void change_replay(std::vector<Step>& steps, size_t at, Fault fault) {
  const auto place = steps.begin() + static_cast<ptrdiff_t>(at);
  const uint32_t units = units_of(steps, steps[at].graph);
  switch (fault) {
    case Fault::replay_missing:
      steps.erase(place);
      break;
    case Fault::replay_order:
      std::iter_swap(place, place + 1);
      break;
    case Fault::replay_block:
      place->stands_at = 2 + static_cast<uint32_t>(at) % (units - 1);
      break;
    default:
      place->stands_at = 1 + static_cast<uint32_t>(at) % units;
      place->is_lame = true;
      break;
  }
}

// Makes the program of a rank wrong at one place.
void change(Program& program, int rank, size_t at, Fault fault) {
  std::vector<Step>& steps = program.ranks[rank];
  if (const std::optional<Act> act = act_of(fault)) return insert_act(steps, at, *act);
  if (is_of_replay(fault)) return change_replay(steps, at, fault);
  Step& step = steps[at];
  const auto place = steps.begin() + static_cast<ptrdiff_t>(at);
  switch (fault) {
    case Fault::missing:
    case Fault::p2p_unmatched:
    case Fault::part_missing:
    case Fault::signal_missing:
      steps.erase(place);
      break;
    case Fault::batch_missing:
      leave_out_group(steps, step.group);
      break;
    case Fault::extra:
      steps.insert(place, unheard_of(step));
      break;
    case Fault::p2p_extra:
      steps.insert(place + 1, Step(step));
      break;
    case Fault::alone:
    case Fault::detour:
    case Fault::again: {
      std::vector<Step> more = {fault == Fault::again ? step : unheard_of(step)};
      // The program waits for the call, or goes on.
      const bool waits = fault == Fault::detour || (fault == Fault::again && at % 2 == 0);
      if (waits) more.push_back({.act = Act::sync});
      steps.insert(place + 1, more.begin(), more.end());
      break;
    }
    case Fault::op:
      step.root_or_peer = -1;
      step.kind = step.kind == OpKind::AllGather ? OpKind::AllReduce : OpKind::AllGather;
      break;
    case Fault::count:
    case Fault::p2p_count:
    case Fault::part_count:
      step.count += 1;
      break;
    case Fault::dtype:
      step.datatype = step.datatype == 7 ? 8 : 7;
      break;
    case Fault::redop:
      step.reduction = static_cast<uint8_t>(step.reduction == 3 ? 0 : 3);
      break;
    case Fault::root:
      step.root_or_peer =
          (step.root_or_peer + 1) % static_cast<int>(program.comms[step.comm].ranks.size());
      break;
    case Fault::lame:
      step.is_lame = true;
      break;
    case Fault::order:
    case Fault::comm_order:
    case Fault::p2p_cycle:
      std::swap(steps[at], steps[at + 1]);
      break;
    case Fault::shrink_missing:
    case Fault::grow_missing:
    case Fault::split_missing:
      // Without the shrunk communicator there is none to grow.
      leave_out_comms(steps, step.comm, step.comm + (fault == Fault::shrink_missing ? 1 : 0));
      break;
    default:
      break;
  }
}

}  // namespace

bool is_creation(Fault fault) {
  return fault == Fault::init_missing || fault == Fault::split_missing ||
         fault == Fault::shrink_missing || fault == Fault::grow_missing;
}

bool is_blemish(Fault fault) {
  return fault == Fault::leak || fault == Fault::version || fault == Fault::setting;
}

void blemish(const Truth& truth, Outcome& outcome) {
  for (trace::Process& process : outcome.run.processes) {
    const bool is_it = process.job_rank == truth.rank;
    if (truth.fault == Fault::version) process.meta["nccl_version"] = is_it ? "22707" : "22809";
    if (truth.fault == Fault::setting && is_it) process.meta["env.NCCL_ALGO"] = "Ring";
    if (truth.fault == Fault::leak && is_it && !outcome.hung) {
      process.comms[0].state = CommState::ready;
      process.comms[0].ended_ns = 0;
    }
  }
}

std::string_view name_of(Fault fault) {
  constexpr std::string_view kNames[] = {
#define ROLLCALL_X(name, words) #name,
      ROLLCALL_SIM_FAULTS(ROLLCALL_X)
#undef ROLLCALL_X
  };
  return kNames[static_cast<size_t>(fault)];
}

std::string_view words_of(Fault fault) {
  constexpr std::string_view kWords[] = {
#define ROLLCALL_X(name, words) words,
      ROLLCALL_SIM_FAULTS(ROLLCALL_X)
#undef ROLLCALL_X
  };
  return kWords[static_cast<size_t>(fault)];
}

Truth plant(Program& program, Fault fault, uint64_t seed, const std::vector<int>& spared) {
  Truth truth;
  truth.fault = fault;
  if (fault == Fault::none) {
    truth.is_planted = true;
    return truth;
  }
  Random random(seed);
  if (is_blemish(fault)) {
    // Of two ranks nobody can tell which is the odd one.
    truth.is_planted = program.ranks.size() > 2;
    truth.rank = static_cast<int>(pick(random, program.ranks.size()));
    truth.comm = 0;
    truth.where = fmt::format("{} at rank {}", name_of(fault), truth.rank);
    return truth;
  }
  const std::vector<std::pair<int, size_t>> places = places_for(fault, program, spared);
  if (places.empty()) return truth;
  const auto [rank, at] = places[pick(random, places.size())];
  std::vector<Step>& steps = program.ranks[rank];
  Step& step = steps[at];
  truth.is_planted = true;
  truth.rank = rank;
  truth.comm = step.comm;
  truth.seq = position(steps, at);
  truth.is_p2p = is_p2p(step.kind);
  truth.where =
      fmt::format("{} at rank {}, step {}: {} on comm {} seq {}", name_of(fault), rank, at,
                  step.act == Act::create   ? "create"
                  : step.act == Act::replay ? "replay"
                                            : rollcall::name_of(step.kind),
                  step.comm, truth.seq);
  truth.is_last =
      std::none_of(steps.begin() + static_cast<ptrdiff_t>(at) + 1, steps.end(), is_call);
  truth.may_be_order = is_again_behind_next(steps, at);
  truth.is_captured = step.graph != 0;
  truth.is_varied = step.is_varied;
  truth.is_size_twin = is_twin(steps, at, true);
  if (is_added_behind(fault)) ++truth.seq;
  change(program, rank, at, fault);
  truth.is_twin = is_twin(steps, at);
  truth.is_other_size = is_p2p_size(fault) && is_size_of_others(steps, at);
  return truth;
}

}  // namespace rollcall::sim
