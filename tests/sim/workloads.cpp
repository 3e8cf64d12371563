#include "tests/sim/workloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/training.h"

namespace rollcall::sim {
namespace {

using Steps = std::vector<Step>;

// What a rank does in one go. Those with one number are left out, or repeated, together.
struct Unit {
  Steps steps;
  int number = 0;  // 0: always made
};

class Builder {
 public:
  explicit Builder(uint64_t seed) : random_(seed) {}

  WorkloadJob build(Workload workload, Deviation deviation) {
    switch (workload) {
      case Workload::micro_batches:
        micro_batches();
        break;
      case Workload::pipeline:
        pipeline();
        break;
      case Workload::experts:
        experts();
        break;
      case Workload::equal_layers:
        equal_layers();
        break;
      case Workload::epochs:
        epochs();
        break;
      case Workload::meshes:
        meshes();
        break;
      case Workload::batch_sizes:
        batch_sizes();
        break;
      case Workload::pairs:
      case Workload::Count:
        pairs();
        break;
    }
    WorkloadJob job;
    if (deviation != Deviation::none) deviate(deviation, job);
    for (const std::vector<Unit>& rank : units_) {
      Steps& steps = job.program.ranks.emplace_back();
      for (const Unit& unit : rank) append(unit.steps, steps);
    }
    job.program.comms = std::move(comms_);
    return job;
  }

 private:
  int size() const { return static_cast<int>(units_.size()); }
  uint64_t count() { return 1 + pick(random_, 64) * 16; }

  void begin(int ranks) {
    units_.resize(static_cast<size_t>(ranks));
    CommSpec all;
    for (int r = 0; r < ranks; ++r) all.ranks.push_back(r);
    comms_.push_back(all);
  }

  static Step call(OpKind kind, uint64_t count, int comm = 0, int root_or_peer = -1) {
    Step step;
    step.comm = comm;
    step.kind = kind;
    step.count = count;
    step.root_or_peer = root_or_peer;
    return step;
  }
  static Step sync() { return {.act = Act::sync}; }

  // Whoever comes to a communicator that is made on the way makes it there.
  void append(const Steps& more, Steps& steps) const {
    for (const Step& step : more) {
      const auto makes_it = [&](const Step& before) {
        return before.act == Act::create && before.comm == step.comm;
      };
      if (comms_[static_cast<size_t>(step.comm)].is_late &&
          std::none_of(steps.begin(), steps.end(), makes_it))
        steps.push_back({.act = Act::create, .comm = step.comm});
      steps.push_back(step);
    }
  }

  void add(int r, Steps steps, int number = 0) {
    units_[static_cast<size_t>(r)].push_back({std::move(steps), number});
  }
  void add_to_all(const Steps& steps, int number = 0) {
    for (int r = 0; r < size(); ++r) add(r, steps, number);
  }

  // Shards are gathered and gradients scattered in each; hosts wait for the loss in each, or at the
  // end of the step.
  void micro_batches() {
    constexpr int kSizes[] = {3, 4, 8};
    begin(kSizes[pick(random_, 3)]);
    std::vector<uint64_t> layers(1 + pick(random_, 4));
    for (uint64_t& layer : layers) layer = count();
    const uint64_t batches = 2 + pick(random_, 3);
    const bool waits = pick(random_, 2) == 0;
    const bool varies = pick(random_, 3) == 0;
    for (uint64_t step = 0; step < 5; ++step) {
      for (uint64_t batch = 0; batch < batches; ++batch) {
        Steps steps;
        const uint64_t more = varies ? step * 7 : 0;
        for (const uint64_t layer : layers) steps.push_back(call(OpKind::AllGather, layer + more));
        for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
          steps.push_back(call(OpKind::ReduceScatter, *layer + more));
        if (waits) steps.push_back(sync());
        add_to_all(steps, step < 2 ? 0 : ++number_);
      }
      add_to_all({call(OpKind::AllReduce, 1), sync()});
    }
  }

  // All forward passes, then all backward passes, then the sum of the loss.
  void pipeline() {
    begin(3 + static_cast<int>(pick(random_, 4)));
    const uint64_t elements = count();
    const uint64_t batches = 2 + pick(random_, 3);
    for (uint64_t step = 0; step < 5; ++step) {
      const int first = number_ + 1;
      for (const bool forward : {true, false}) {
        for (uint64_t batch = 0; batch < batches; ++batch) {
          const int number = step < 2 ? 0 : first + static_cast<int>(batch);
          for (int r = 0; r < size(); ++r) {
            const int from = forward ? r - 1 : r + 1;
            const int to = forward ? r + 1 : r - 1;
            Steps steps;
            if (from >= 0 && from < size()) steps.push_back(call(OpKind::Recv, elements, 0, from));
            if (to >= 0 && to < size()) steps.push_back(call(OpKind::Send, elements, 0, to));
            add(r, std::move(steps), number);
          }
        }
      }
      if (step >= 2) number_ += static_cast<int>(batches);
      add_to_all({call(OpKind::AllReduce, 8), sync()});
    }
  }

  // Every rank has something else for every other one in every exchange, and in every step.
  void experts() {
    begin(4 + static_cast<int>(pick(random_, 2)) * 2);
    const bool has_own = pick(random_, 2) == 0;
    if (has_own) comms_.push_back({.ranks = comms_[0].ranks, .parent = 0});
    const int comm = has_own ? 1 : 0;
    const uint64_t layers = 1 + pick(random_, 3);
    const uint64_t sums = 1 + pick(random_, 2);
    for (uint64_t step = 0; step < 5; ++step) {
      for (uint64_t exchange = 0; exchange < 2 * layers; ++exchange) {
        ++group_;
        const int number = step < 2 ? 0 : ++number_;
        std::vector<std::vector<uint64_t>> splits(units_.size());
        for (std::vector<uint64_t>& row : splits) {
          for (int to = 0; to < size(); ++to) row.push_back(1 + pick(random_, 512));
        }
        for (int r = 0; r < size(); ++r) {
          Steps steps;
          for (int peer = 0; peer < size(); ++peer) {
            if (peer == r) continue;
            const auto from = static_cast<size_t>(r);
            const auto to = static_cast<size_t>(peer);
            steps.push_back(call(OpKind::Send, splits[from][to], comm, peer));
            steps.push_back(call(OpKind::Recv, splits[to][from], comm, peer));
          }
          for (Step& one : steps) {
            one.group = group_;
            one.is_varied = true;
          }
          add(r, std::move(steps), number);
        }
      }
      for (uint64_t sum = 0; sum < sums; ++sum) add_to_all({call(OpKind::AllReduce, 64 + sum)});
      add_to_all({sync()});
    }
  }

  // All layers are of one size: each is gathered, and again on the way back, and scattered. Who
  // leaves one out does so on both ways.
  void equal_layers() {
    constexpr int kSizes[] = {3, 4, 8};
    begin(kSizes[pick(random_, 3)]);
    const uint64_t elements = count();
    const int layers = 3 + static_cast<int>(pick(random_, 6));
    const uint64_t rest = count();
    for (int step = 0; step < 5; ++step) {
      const auto number = [&](int layer) { return step < 2 ? 0 : number_ + 1 + layer; };
      add_to_all({call(OpKind::AllGather, rest)});
      for (int layer = 0; layer < layers; ++layer)
        add_to_all({call(OpKind::AllGather, elements)}, number(layer));
      for (int layer = layers; layer-- > 0;) {
        add_to_all({call(OpKind::AllGather, elements), call(OpKind::ReduceScatter, elements)},
                   number(layer));
      }
      add_to_all({call(OpKind::ReduceScatter, rest), call(OpKind::AllReduce, 1), sync()});
      if (step >= 2) number_ += layers;
    }
  }

  // Batches, then the metrics of all.
  void epochs() {
    constexpr int kSizes[] = {3, 4, 8};
    begin(kSizes[pick(random_, 3)]);
    const uint64_t batches = 3 + pick(random_, 4);
    Steps batch;
    const uint64_t buckets = 1 + pick(random_, 4);
    for (uint64_t i = 0; i < buckets; ++i) batch.push_back(call(OpKind::AllReduce, count()));
    if (pick(random_, 2) == 0) batch.push_back(sync());
    const Steps metrics = {call(OpKind::AllReduce, 2), call(OpKind::AllGather, 3),
                           call(OpKind::Broadcast, 5, 0, 0), sync()};
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (uint64_t i = 0; i < batches; ++i)
        add_to_all(batch, epoch > 0 && i + 1 == batches ? ++number_ : 0);
      add_to_all(metrics);
    }
  }

  // Two or three dimensions; in every step some calls in each, in turn, then one of all.
  void meshes() {
    constexpr int kShapes[][3] = {{2, 2, 1}, {4, 2, 1}, {2, 4, 1}, {3, 3, 1}, {2, 2, 2}};
    const int(&shape)[3] = kShapes[pick(random_, 5)];
    begin(shape[0] * shape[1] * shape[2]);
    std::vector<std::vector<int>> comm_of;  // by dimension, by rank
    int stride = 1;
    for (int dimension = 0; dimension < 3; stride *= shape[dimension++]) {
      if (shape[dimension] == 1) continue;
      comm_of.emplace_back(units_.size(), -1);
      for (int r = 0; r < size(); ++r) {
        const int first = r - r / stride % shape[dimension] * stride;
        if (first == r) {
          comm_of.back()[static_cast<size_t>(r)] = static_cast<int>(comms_.size());
          comms_.push_back({.ranks = {},
                            .parent = 0,
                            .child_number = static_cast<uint32_t>(comm_of.size() - 1),
                            .colour = r});
        }
        const int comm = comm_of.back()[static_cast<size_t>(first)];
        comm_of.back()[static_cast<size_t>(r)] = comm;
        comms_[static_cast<size_t>(comm)].ranks.push_back(r);
      }
    }
    std::vector<Steps> calls(comm_of.size());
    for (Steps& own : calls) {
      const uint64_t number = 1 + pick(random_, 3);
      for (uint64_t i = 0; i < number; ++i) {
        constexpr OpKind kKinds[] = {OpKind::AllReduce, OpKind::AllGather, OpKind::ReduceScatter};
        own.push_back(call(kKinds[pick(random_, 3)], count()));
      }
    }
    for (int step = 0; step < 5; ++step) {
      for (size_t dimension = 0; dimension < calls.size(); ++dimension) {
        for (Step one : calls[dimension]) {
          const int number = step < 2 ? 0 : ++number_;
          for (int r = 0; r < size(); ++r) {
            one.comm = comm_of[dimension][static_cast<size_t>(r)];
            add(r, {one}, number);
          }
        }
        add_to_all({sync()});
      }
      add_to_all({call(OpKind::AllReduce, 1), sync()});
    }
  }

  // A graph for each size, captured once; in every step one of them is replayed.
  void batch_sizes() {
    constexpr int kSizes[] = {3, 4, 8};
    begin(kSizes[pick(random_, 3)]);
    const uint32_t graphs = 2 + static_cast<uint32_t>(pick(random_, 3));
    const uint64_t elements = count();
    const uint64_t layers = 1 + pick(random_, 3);
    for (uint32_t graph = 1; graph <= graphs; ++graph) {
      Steps captured;
      for (uint64_t layer = 0; layer < layers; ++layer) {
        captured.push_back(call(OpKind::AllReduce, elements * graph));
        captured.push_back(call(OpKind::AllGather, elements * graph));
      }
      for (Step& one : captured) one.graph = graph;
      add_to_all(captured);
    }
    const bool waits = pick(random_, 2) == 0;
    for (int step = 0; step < 8; ++step) {
      const uint32_t graph = 1 + static_cast<uint32_t>(pick(random_, graphs));
      add_to_all({{.act = Act::replay, .graph = graph}}, step < 4 ? 0 : ++number_);
      if (waits || step % 4 == 3) add_to_all({call(OpKind::AllReduce, 1), sync()});
    }
  }

  // A communicator of two for whoever exchanges something for the first time, as PyTorch makes it
  // at the first send or receive outside of a batch: a pipeline, or a ring.
  void pairs() {
    begin(3 + static_cast<int>(pick(random_, 4)));
    has_late_ids_ = pick(random_, 2) == 0;
    has_streams_ = pick(random_, 2) == 0;
    is_by_call_ = pick(random_, 2) == 0;
    elements_ = count() + (pick(random_, 2) == 0 ? kMoreThanBuffered : 0);
    const bool is_ring = pick(random_, 2) == 0;
    const bool is_tied = !is_ring && pick(random_, 3) == 0;
    const bool evaluates_first = pick(random_, 3) == 0;
    const uint64_t batches = 1 + pick(random_, 4);
    const bool is_uneven = pick(random_, 3) == 0;
    const bool waits = pick(random_, 3) == 0;
    const uint64_t sums = 1 + pick(random_, 2);
    for (uint64_t i = 0; i < sums; ++i) add_to_all({behind_all(call(OpKind::AllReduce, 16 + i))});
    add_to_all({sync()});
    for (uint64_t step = 0; step < 5; ++step) {
      const bool evaluates = evaluates_first ? step == 0 : step == 3;
      const int first = number_ + 1;
      const uint64_t now = is_uneven ? 1 + pick(random_, batches) : batches;
      for (const bool forward : {true, false}) {
        for (uint64_t batch = 0; batch < now && (forward || !evaluates); ++batch) {
          batch_ = first + static_cast<int>(batch);
          is_ring ? around(forward) : along(forward);
          if (waits) add_to_all({sync()});
        }
      }
      batch_ = first + static_cast<int>(now);
      if (is_tied && !evaluates) exchange(0, size() - 1);
      if (!is_by_call_) number_ = batch_;
      const OpKind last = evaluates ? OpKind::AllGather : OpKind::AllReduce;
      add_to_all({behind_all(call(last, 8)), sync()});
    }
  }

  void along(bool forward) {
    for (int hop = 0; hop + 1 < size(); ++hop) {
      const int from = forward ? hop : size() - 1 - hop;
      transfer(from, forward ? from + 1 : from - 1);
    }
  }

  // Each sends and receives; every other one receives first, and of an odd number all but one.
  void around(bool forward) {
    const auto next = [&](int r) { return (forward ? r + 1 : r + size() - 1) % size(); };
    if (size() % 2 != 0) {
      for (int hop = 0, from = 0; hop < size(); ++hop, from = next(from))
        transfer(from, next(from));
      return;
    }
    for (const int parity : {0, 1}) {
      for (int from = parity; from < size(); from += 2) transfer(from, next(from));
    }
  }

  void exchange(int a, int b) {
    transfer(a, b);
    transfer(b, a);
  }

  void transfer(int from, int to) {
    const int number = is_by_call_ ? ++number_ : batch_;
    const int comm = pair_of(from, to);
    const auto add_side = [&](OpKind kind, int r, int peer) {
      Step step = call(kind, elements_, comm, peer < r ? 0 : 1);
      step.stream = has_streams_ ? comm : 0;
      add(r, {behind_all(step)}, number);
    };
    add_side(OpKind::Send, from, to);
    add_side(OpKind::Recv, to, from);
  }

  Step behind_all(Step step) const {
    step.joins = has_streams_;
    return step;
  }

  int pair_of(int a, int b) {
    const std::vector<int> ranks = {std::min(a, b), std::max(a, b)};
    for (size_t i = 1; i < comms_.size(); ++i) {
      if (comms_[i].ranks == ranks) return static_cast<int>(i);
    }
    comms_.push_back({.ranks = ranks, .is_late = true, .has_late_id = has_late_ids_});
    return static_cast<int>(comms_.size() - 1);
  }

  void deviate(Deviation deviation, WorkloadJob& job) {
    job.rank = static_cast<int>(pick(random_, units_.size()));
    std::vector<Unit>& units = units_[static_cast<size_t>(job.rank)];
    std::set<int> numbers;
    for (const Unit& unit : units) numbers.insert(unit.number);
    numbers.erase(0);
    const int number =
        *std::next(numbers.begin(), static_cast<ptrdiff_t>(pick(random_, numbers.size())));
    const bool repeats = deviation == Deviation::repeated;
    job.where =
        fmt::format("rank {} {} unit {}", job.rank, repeats ? "repeats" : "leaves out", number);
    std::vector<Unit> changed;
    for (Unit& unit : units) {
      const bool is_it = unit.number == number;
      if (!is_it || repeats) changed.push_back(unit);
      if (!is_it || !repeats) continue;
      Unit again = unit;
      for (Step& step : again.steps) {
        if (step.group != 0) step.group += kGroupsAgain;
      }
      changed.push_back(std::move(again));
    }
    units = std::move(changed);
  }

  static constexpr uint32_t kGroupsAgain = 100'000;
  static constexpr uint64_t kMoreThanBuffered = 1 << 20;
  Random random_;
  std::vector<CommSpec> comms_;
  std::vector<std::vector<Unit>> units_;  // by rank
  int number_ = 0;
  uint32_t group_ = 0;
  // Of pairs.
  uint64_t elements_ = 0;
  int batch_ = 0;  // its number
  bool has_late_ids_ = false;
  bool has_streams_ = false;  // one for each communicator
  bool is_by_call_ = false;   // one call deviates; else all of a micro-batch
};

}  // namespace

std::string_view words_of(Workload workload) {
  constexpr std::string_view kWords[] = {
#define ROLLCALL_X(name, words) words,
      ROLLCALL_SIM_WORKLOADS(ROLLCALL_X)
#undef ROLLCALL_X
  };
  return kWords[static_cast<size_t>(workload)];
}

WorkloadJob make_workload(Workload workload, Deviation deviation, uint64_t seed) {
  return Builder(seed).build(workload, deviation);
}

}  // namespace rollcall::sim
