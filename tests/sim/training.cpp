#include "tests/sim/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rollcall::sim {
namespace {

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
  uint32_t graph = 0;        // that it is captured into
  bool detached = false;     // chained: what comes behind it on other streams does not wait for it
  std::vector<Phase> parts;  // of a group: collectives of different roles
};
constexpr int kRoles = 5;
// Where each communicator has a stream: that of the launches of graphs. Others' numbers are less.
constexpr int kStreamOfLaunches = 200;

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
    if (options_.graphs) capture_some(phases);
    if (options_.graphs && options_.chained) attach_captured(phases);
    for (int step = 0; step < options_.steps; ++step) {
      if (options_.creations && step == 0) add_creations();
      uint32_t replayed = 0;
      for (size_t i = 0; i < phases.size(); ++i) {
        if (options_.left_out >> i & 1) continue;
        if (phases[i].graph != 0) {
          if (phases[i].graph != replayed) replay(replayed = phases[i].graph);
          continue;
        }
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

  // One or two graphs, each of phases that come one behind the other.
  void capture_some(std::vector<Phase>& phases) {
    Random random(options_.seed + 2);
    uint32_t graph = 0;
    bool was_in = false;
    for (Phase& phase : phases) {
      const bool is_in = phase.kind != Phase::aside && pick(random, 3) != 0;
      if (is_in && (!was_in || pick(random, 4) == 0)) ++graph;
      if (graph > 2) break;
      phase.graph = is_in ? graph : 0;
      was_in = is_in;
    }
    for (size_t i = 0; i < phases.size(); ++i) {
      if (phases[i].graph == 0 || (options_.left_out >> i & 1)) continue;
      Phase captured = phases[i];
      captured.sync = false;
      const bool joins = pick(random, 2) == 0;
      for (size_t r = 0; r < program_.ranks.size(); ++r) {
        std::vector<Step>& steps = program_.ranks[r];
        const size_t before = steps.size();
        add(static_cast<int>(r), captured);
        for (size_t at = before; at < steps.size(); ++at) {
          steps[at].graph = captured.graph;
          steps[at].stream = options_.branches ? steps[at].comm : 0;
          steps[at].joins = options_.branches && joins;
        }
      }
      ++group_;
    }
  }
  // Calls of one communicator are never at work beside each other.
  static void attach_captured(std::vector<Phase>& phases) {
    std::set<int> captured;
    for (const Phase& phase : phases) {
      if (phase.graph != 0) add_roles(phase, captured);
    }
    for (Phase& phase : phases) {
      std::set<int> roles;
      add_roles(phase, roles);
      const bool is_shared = std::any_of(roles.begin(), roles.end(),
                                         [&](int role) { return captured.contains(role); });
      if (is_shared && phase.graph == 0) phase.detached = false;
    }
  }
  static void add_roles(const Phase& phase, std::set<int>& roles) {
    if (phase.kind != Phase::group) roles.insert(phase.role);
    for (const Phase& part : phase.parts) roles.insert(part.role);
  }
  // Ranks that have captured nothing into it have no such graph.
  void replay(uint32_t graph) {
    for (std::vector<Step>& steps : program_.ranks) {
      const bool has_it = std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
        return step.act == Act::call && step.graph == graph;
      });
      if (!has_it) continue;
      Step step{.act = Act::replay, .graph = graph};
      if (options_.chained) {
        step.stream = kStreamOfLaunches + (options_.apart ? static_cast<int>(graph) : 0);
        step.joins = true;
      }
      steps.push_back(step);
    }
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

}  // namespace

Program make_training(const TrainingOptions& options) { return Builder(options).build(); }

}  // namespace rollcall::sim
