#include "tests/sim/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>

namespace rollcall::sim {
namespace {

using Random = std::mt19937_64;

uint64_t pick(Random& random, uint64_t below) { return random() % below; }

// One part of a training step: the same for every rank that takes part.
struct Phase {
  enum Kind {
    collective,
    shift,
    ring,
    group,
    exchange,
    batch,
    all_to_all,
    aside
  } kind = collective;
  int role = 0;  // 0 world, 1 tensor, 2 data, 3 pipeline, 4 pairs within a data group
  Step step;
  bool sync = false;
  bool detached = false;     // chained: what comes behind it on other streams does not wait for it
  std::vector<Phase> parts;  // of a group: collectives of different roles
};
constexpr int kRoles = 5;
// More than NCCL buffers: such a send waits for its receive.
constexpr uint64_t kLargeCount = 200'000;

Step random_collective(Random& random, int size) {
  constexpr OpKind kKinds[] = {OpKind::AllReduce,     OpKind::AllReduce, OpKind::AllReduce,
                               OpKind::ReduceScatter, OpKind::AllGather, OpKind::Broadcast,
                               OpKind::Reduce,        OpKind::AlltoAll,  OpKind::Gather,
                               OpKind::Scatter};
  constexpr uint8_t kTypes[] = {7, 9, 6, 2};
  Step step;
  step.kind = kKinds[pick(random, std::size(kKinds))];
  step.count = 1 + pick(random, 64) * 16;
  step.datatype = kTypes[pick(random, std::size(kTypes))];
  step.reduction = static_cast<uint8_t>(pick(random, 3));
  if (traits_of(step.kind).rooted) step.root_or_peer = static_cast<int>(pick(random, size));
  return step;
}

Phase make_group(Random& random, const std::vector<int>& sizes) {
  Phase phase;
  phase.kind = Phase::group;
  for (int role = 0; role < kRoles; ++role) {
    if (sizes[role] < 2 || pick(random, 2) == 0) continue;
    Phase& part = phase.parts.emplace_back();
    part.role = role;
    part.step = random_collective(random, sizes[role]);
  }
  return phase;
}

std::vector<Phase> make_phases(Random& random, const TrainingOptions& options,
                               const std::vector<int>& sizes) {
  std::vector<Phase> phases;
  const uint64_t number = 3 + pick(random, 8);
  for (uint64_t i = 0; i < number; ++i) {
    Phase phase;
    if (options.groups && pick(random, 5) == 0) {
      phases.push_back(make_group(random, sizes));
      continue;
    }
    if (options.batches && pick(random, 3) == 0) {
      phase.role = static_cast<int>(pick(random, kRoles - 1));
      if (sizes[phase.role] < 2) phase.role = 0;
      phase.kind = pick(random, 2) == 0 ? Phase::batch : Phase::all_to_all;
      phase.step.count = 1 + pick(random, 64) * 8;
      phases.push_back(phase);
      continue;
    }
    if (options.asides && pick(random, 3) == 0) {
      phase.kind = Phase::aside;
      phase.step = random_collective(random, sizes[0]);
      phase.step.graph = static_cast<uint32_t>(pick(random, 3));
      phases.push_back(phase);
      continue;
    }
    phase.role = static_cast<int>(pick(random, options.nested ? kRoles : kRoles - 1));
    if (sizes[phase.role] < 2) phase.role = 0;
    const uint64_t kind = pick(random, 6);
    if (phase.role == 3 && kind < 4) {
      phase.kind = kind == 3 ? Phase::exchange : kind == 2 ? Phase::ring : Phase::shift;
      phase.step.count = 1 + pick(random, 64) * 8;
      if (phase.kind == Phase::exchange) phase.step.count += kLargeCount;
    } else {
      phase.step = random_collective(random, sizes[phase.role]);
    }
    phase.sync = options.random_syncs && pick(random, 4) == 0;
    phases.push_back(phase);
  }
  return phases;
}

class Builder {
 public:
  explicit Builder(const TrainingOptions& options) : options_(options), random_(options.seed) {
    build_comms();
  }

  Program build() {
    std::vector<Phase> phases = make_phases(random_, options_, sizes_);
    if (options_.chained) detach_some(phases);
    for (int step = 0; step < options_.steps; ++step) {
      if (options_.creations && step == 0) add_creations();
      for (size_t i = 0; i < phases.size(); ++i) {
        if (options_.left_out >> i & 1) continue;
        const Phase phase = options_.varied ? varied(phases[i], step) : phases[i];
        for (size_t r = 0; r < program_.ranks.size(); ++r) add(static_cast<int>(r), phase);
        ++group_;
      }
      if (options_.creations) use_creations();
      for (auto& rank : program_.ranks) rank.push_back({.act = Act::sync});
    }
    return std::move(program_);
  }

 private:
  void build_comms() {
    const int tp = options_.tp;
    const int dp = options_.dp;
    const int world = dp * tp * options_.pp;
    program_.ranks.resize(world);
    of_role_.assign(kRoles, std::vector<int>(world, -1));
    CommSpec all;
    for (int r = 0; r < world; ++r) all.ranks.push_back(r);
    program_.comms.push_back(all);
    of_role_[0].assign(world, 0);
    sizes_ = {world, tp, dp, options_.pp, 0};
    const auto colour = [&](int role, int r) {
      const int t = r % tp;
      const int d = r / tp % dp;
      const int p = r / tp / dp;
      if (role == 1) return p * dp + d;
      return role == 2 ? p * tp + t : d * tp + t;
    };
    for (int role = 1; role <= 3; ++role) {
      if (sizes_[role] < 2) continue;
      std::vector<int> comm_of_colour(world, -1);
      for (int r = 0; r < world; ++r) {
        int& comm = comm_of_colour[colour(role, r)];
        if (comm < 0) {
          comm = static_cast<int>(program_.comms.size());
          program_.comms.push_back({.ranks = {},
                                    .parent = 0,
                                    .child_number = static_cast<uint32_t>(role - 1),
                                    .colour = colour(role, r)});
        }
        program_.comms[comm].ranks.push_back(r);
        of_role_[role][r] = comm;
      }
    }
    if (options_.nested && dp >= 4) split_pairs();
  }

  // A communicator of all ranks by its own init, and the world split into even and odd ranks.
  void add_creations() {
    const int world = static_cast<int>(program_.ranks.size());
    const int init = static_cast<int>(program_.comms.size());
    program_.comms.push_back(
        {.ranks = program_.comms[0].ranks, .parent = -1, .child_number = 0, .is_late = true});
    for (int colour = 0; colour < 2; ++colour) {
      program_.comms.push_back(
          {.ranks = {}, .parent = 0, .child_number = kRoles, .colour = colour, .is_late = true});
    }
    // The world without its last rank, and with it again.
    const int shrunk = init + 3;
    std::vector<int> ranks = program_.comms[0].ranks;
    program_.comms.push_back(
        {.ranks = ranks, .parent = shrunk, .origin = CommOrigin::grow, .is_late = true});
    ranks.pop_back();
    program_.comms.insert(program_.comms.end() - 1, {.ranks = ranks,
                                                     .parent = 0,
                                                     .origin = CommOrigin::shrink,
                                                     .child_number = kRoles + 1,
                                                     .is_late = true});
    for (int r = 0; r < world; ++r) {
      const int half = init + 1 + r % 2;
      program_.comms[half].ranks.push_back(r);
      made_.push_back({init, half});
      if (r + 1 < world) made_.back().push_back(shrunk);
      made_.back().push_back(shrunk + 1);
      for (const int comm : made_.back()) {
        program_.ranks[r].push_back({.act = Act::create, .comm = comm});
      }
    }
  }

  // As where sequences have their own lengths: in every step of another size.
  static Phase varied(Phase phase, int step) {
    if (phase.kind == Phase::aside) return phase;
    phase.step.count += static_cast<uint64_t>(step) * 7;
    phase.step.is_varied = true;
    for (Phase& part : phase.parts) part = varied(part, step);
    return phase;
  }

  void use_creations() {
    for (size_t r = 0; r < program_.ranks.size(); ++r) {
      for (const int comm : made_[r]) {
        Step step{.act = Act::call, .comm = comm, .count = 64, .datatype = 7};
        if (options_.chained) chain(step);
        program_.ranks[r].push_back(step);
      }
    }
  }

  // As PyTorch does: a stream for each communicator, and nobody but the host waits for what was
  // called with async_op.
  static void chain(Step& step) {
    step.stream = step.comm;
    step.joins = true;
  }
  void detach_some(std::vector<Phase>& phases) const {
    Random random(options_.seed + 1);
    if (pick(random, 2) == 0) return;
    for (Phase& phase : phases) phase.detached = pick(random, 4) == 0;
  }

  // Every data group is split into pairs: a child of a child.
  void split_pairs() {
    sizes_[4] = 2;
    const size_t before = program_.comms.size();
    for (size_t parent = 1; parent < before; ++parent) {
      const std::vector<int> ranks = program_.comms[parent].ranks;
      if (of_role_[2][ranks[0]] != static_cast<int>(parent)) continue;
      for (size_t i = 0; i + 1 < ranks.size(); i += 2) {
        of_role_[4][ranks[i]] = of_role_[4][ranks[i + 1]] = static_cast<int>(program_.comms.size());
        program_.comms.push_back({.ranks = {ranks[i], ranks[i + 1]},
                                  .parent = static_cast<int>(parent),
                                  .child_number = 0,
                                  .colour = static_cast<int>(i / 2)});
      }
    }
  }

  void add(int r, const Phase& phase) {
    std::vector<Step>& steps = program_.ranks[r];
    for (const Phase& part : phase.parts) {
      Step one = part.step;
      one.comm = of_role_[part.role][r];
      one.group = group_;
      one.detached = phase.detached;
      if (options_.chained) chain(one);
      steps.push_back(one);
    }
    if (phase.kind == Phase::group) return;
    Step step = phase.step;
    if (options_.streams && phase.role == 2) step.stream = 1;
    step.comm = phase.kind == Phase::aside ? 0 : of_role_[phase.role][r];
    step.detached = phase.detached;
    if (options_.chained) chain(step);
    const CommSpec& comm = program_.comms[step.comm];
    const int mine = rank_in(comm, r);
    const int size = static_cast<int>(comm.ranks.size());
    const auto p2p = [&](OpKind kind, int peer, uint32_t group) {
      Step one = step;
      one.kind = kind;
      one.root_or_peer = peer;
      one.group = group;
      steps.push_back(one);
    };
    if (phase.kind == Phase::aside) {
      if (step.graph == 0) return add_signals(r, step);
      steps.push_back(step);  // a captured collective
    } else if (phase.kind == Phase::collective) {
      steps.push_back(step);
    } else if (phase.kind == Phase::exchange) {
      // Neighbours in pairs, the even one sends first; too large to be buffered.
      const int peer = mine ^ 1;
      if (peer < size) {
        p2p(mine % 2 == 0 ? OpKind::Send : OpKind::Recv, peer, 0);
        p2p(mine % 2 == 0 ? OpKind::Recv : OpKind::Send, peer, 0);
      }
    } else if (phase.kind == Phase::batch) {
      add_batch(r, step);
    } else if (phase.kind == Phase::all_to_all) {
      add_all_to_all(r, step);
    } else if (phase.kind == Phase::shift) {
      if (mine > 0) p2p(OpKind::Recv, mine - 1, 0);
      if (mine + 1 < size) p2p(OpKind::Send, mine + 1, 0);
    } else {
      p2p(OpKind::Send, (mine + 1) % size, group_);
      p2p(OpKind::Recv, (mine + size - 1) % size, group_);
    }
    if (phase.sync) steps.push_back({.act = Act::sync});
  }

  // Two tensors to the next rank and one back, as pipelines exchange them.
  void add_batch(int r, Step step) {
    const CommSpec& comm = program_.comms[step.comm];
    const int mine = rank_in(comm, r);
    const uint64_t count = step.count;
    step.group = group_;
    const auto part = [&](OpKind kind, int peer, uint64_t elements) {
      if (peer < 0 || peer >= static_cast<int>(comm.ranks.size())) return;
      step.kind = kind;
      step.root_or_peer = peer;
      step.count = elements;
      program_.ranks[r].push_back(step);
    };
    part(OpKind::Send, mine + 1, count);
    part(OpKind::Send, mine + 1, 3 * count + 1);
    part(OpKind::Recv, mine - 1, count);
    part(OpKind::Recv, mine - 1, 3 * count + 1);
    part(OpKind::Send, mine - 1, 2 * count);
    part(OpKind::Recv, mine + 1, 2 * count);
  }

  // What each has for each, as experts get their tokens.
  void add_all_to_all(int r, Step step) {
    const CommSpec& comm = program_.comms[step.comm];
    const int mine = rank_in(comm, r);
    const uint64_t count = step.count;
    step.group = group_;
    const auto part = [&](OpKind kind, int peer, int from, int to) {
      step.kind = kind;
      step.root_or_peer = peer;
      step.count = count * static_cast<uint64_t>(1 + (3 * from + to) % 4);
      program_.ranks[r].push_back(step);
    };
    for (int peer = 0; peer < static_cast<int>(comm.ranks.size()); ++peer) {
      if (peer == mine) continue;
      part(OpKind::Send, peer, mine, peer);
      part(OpKind::Recv, peer, peer, mine);
    }
  }

  // Writes with a signal, or bare signals, to the next rank; most programs wait for those of the
  // rank before.
  void add_signals(int r, Step step) {
    const int world = static_cast<int>(program_.ranks.size());
    const uint64_t variant = step.count % 5;
    const uint64_t signals = variant == 0 ? 2 : 1;
    step.kind = variant < 3 ? OpKind::PutSignal : OpKind::Signal;
    step.root_or_peer = (r + 1) % world;
    for (uint64_t i = 0; i < signals; ++i) program_.ranks[r].push_back(step);
    if (options_.seed % 3 == 0) return;
    step.kind = OpKind::WaitSignal;
    step.root_or_peer = (r + world - 1) % world;
    step.count = signals;
    program_.ranks[r].push_back(step);
  }

  const TrainingOptions& options_;
  Random random_;
  Program program_;
  std::vector<std::vector<int>> of_role_;
  std::vector<int> sizes_;
  std::vector<std::vector<int>> made_;  // by rank: the communicators made on the way
  uint32_t group_ = 1;
};

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

// The call at `at` looks like the one behind it on its communicator, where sizes change but for the
// size; behind the last one stands the first, because steps repeat.
bool is_twin(const std::vector<Step>& steps, size_t at) {
  if (at >= steps.size() || !is_call(steps[at]) || !is_collective(steps[at].kind)) return false;
  size_t next = next_on(steps, at);
  for (size_t i = 0; i < at && next == steps.size(); ++i) {
    const bool is_same = is_call(steps[i]) && is_collective(steps[i].kind);
    if (is_same && steps[i].comm == steps[at].comm) next = i;
  }
  if (next == steps.size()) return false;
  Step resized = steps[next];
  if (steps[at].is_varied) resized.count = steps[at].count;
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
    for (size_t at = is_creation(fault) ? 0 : steps.size() / 2; at < steps.size(); ++at) {
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

// Makes the program of a rank wrong at one place.
void change(Program& program, int rank, size_t at, Fault fault) {
  std::vector<Step>& steps = program.ranks[rank];
  if (const std::optional<Act> act = act_of(fault)) return insert_act(steps, at, *act);
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
#define ROLLCALL_X(name) #name,
      ROLLCALL_SIM_FAULTS(ROLLCALL_X)
#undef ROLLCALL_X
  };
  return kNames[static_cast<size_t>(fault)];
}

Program make_training(const TrainingOptions& options) { return Builder(options).build(); }

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
  truth.where = fmt::format("{} at rank {}, step {}: {} on comm {} seq {}", name_of(fault), rank,
                            at, step.act == Act::create ? "create" : rollcall::name_of(step.kind),
                            step.comm, truth.seq);
  truth.is_last =
      std::none_of(steps.begin() + static_cast<ptrdiff_t>(at) + 1, steps.end(), is_call);
  truth.may_be_order = is_again_behind_next(steps, at);
  truth.is_captured = step.graph != 0;
  truth.is_varied = step.is_varied;
  truth.is_size_twin = step.is_varied && is_twin(steps, at);
  if (is_added_behind(fault)) ++truth.seq;
  change(program, rank, at, fault);
  truth.is_twin = is_twin(steps, at);
  truth.is_other_size = is_p2p_size(fault) && is_size_of_others(steps, at);
  return truth;
}

}  // namespace rollcall::sim
