#include "tests/slow/timed_training.h"

#include <algorithm>
#include <cmath>

namespace rollcall::timed {
namespace {

constexpr int64_t kForwardNs = 1'000'000;  // of a layer
constexpr int64_t kHostNs = 60'000;        // what Python does in front of each layer
constexpr int kComputeStream = 0;
constexpr int kReduceStream = 1;
constexpr int kSkippedSteps = 5;
constexpr double kTailChance = 0.001;
constexpr int kPausePeriod = 11;

struct FamilyTraits {
  std::string_view name;
  std::string_view verdict;
  bool names_ranks;
};
constexpr FamilyTraits kFamilies[] = {
#define ROLLCALL_X(name, verdict, names) {#name, verdict, names},
    ROLLCALL_TIMED_FAMILIES(ROLLCALL_X)
#undef ROLLCALL_X
};

struct Seat {
  int stage = 0;
  int replica = 0;
  int part = 0;
};

class Builder {
 public:
  Builder(const Training& training, bool with_fault)
      : training_(training), shape_(training.shape), with_fault_(with_fault) {}

  Job build();
  std::vector<int> culprits() const;

 private:
  Seat seat_of(int rank) const {
    return {.stage = rank / (shape_.tp * shape_.dp),
            .replica = rank / shape_.tp % shape_.dp,
            .part = rank % shape_.tp};
  }
  int rank_of(const Seat& seat) const {
    return (seat.stage * shape_.dp + seat.replica) * shape_.tp + seat.part;
  }
  bool is(Family family) const { return training_.family == family; }
  bool has(Planted planted) const { return training_.planted == planted; }
  uint64_t noise_seed() const { return training_.seed + training_.draw * 0x9e3779b97f4a7c15; }
  bool is_overlapped() const;
  bool is_culprit(int rank) const;
  double slowness(int step) const;
  double work_factor(int rank, int step, uint64_t which) const;
  int64_t host_ns(int rank, int step, uint64_t which) const;
  int64_t pause_ns(int rank, int step) const;
  void make_comms();
  void make_machine();
  void step(int rank, int step);
  void forward(int rank, int step, int microbatch);
  void backward(int rank, int step, int microbatch);
  void reduce(int rank, int step, uint64_t count);
  void put(int rank, Action action, int step) {
    action.step = step;
    job_.ranks[static_cast<size_t>(rank)].push_back(action);
  }
  void kernel(int rank, int step, int64_t span_ns);
  void call(int rank, int step, int stream, int comm, OpKind kind, uint64_t count, int peer = -1);

  const Training& training_;
  const Shape& shape_;
  bool with_fault_;
  Job job_;
  uint64_t drawn_ = 0;          // how many kernels the rank's step has had
  std::vector<int> tensor_of_;  // communicators by rank; -1: none
  std::vector<int> data_of_;
  std::vector<int> pipeline_of_;
};

bool Builder::is_overlapped() const {
  return is(Family::clean_overlapped) || is(Family::gpu_slow_overlapped) || training_.seed % 3 == 0;
}

std::vector<int> Builder::culprits() const {
  if (!names_ranks(training_.family)) return {};
  const int first = static_cast<int>(training_.seed * 7919 % static_cast<uint64_t>(shape_.ranks()));
  if (!is(Family::two_slow)) return {first};
  const int other = (first + shape_.ranks() / 2) % shape_.ranks();
  return {std::min(first, other), std::max(first, other)};
}

bool Builder::is_culprit(int rank) const {
  const std::vector<int> ranks = culprits();
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

double Builder::slowness(int step) const {
  if (is(Family::gpu_slow_late) && step < shape_.steps / 2) return 0;
  return training_.severity;
}

// What multiplies a kernel: noise, and what the family is about.
double Builder::work_factor(int rank, int step, uint64_t which) const {
  const auto r = static_cast<uint64_t>(rank);
  const auto s = static_cast<uint64_t>(step);
  const uint64_t seed = noise_seed();
  double factor = std::exp(training_.noise * normal(seed, 11, r, s) +
                           training_.noise * normal(seed, 12, r << 32 ^ s, which));
  if (uniform(seed, 13, r << 32 ^ s, which) < kTailChance) {
    factor *= 1 + 0.2 / std::sqrt(std::max(uniform(seed, 14, r << 32 ^ s, which), 1e-4));
  }
  const Seat seat = seat_of(rank);
  const bool gpu_fault = is(Family::gpu_slow) || is(Family::gpu_slow_overlapped) ||
                         is(Family::gpu_slow_late) || is(Family::gpu_slow_in_imbalance) ||
                         is(Family::gpu_slow_pair) || is(Family::two_slow);
  if (with_fault_ && gpu_fault && is_culprit(rank)) factor *= 1 + slowness(step);
  if (has(Planted::slower_rank) && rank == planted_rank(training_)) {
    factor *= 1 + training_.planted_size;
  }
  if (is(Family::all_slow)) factor *= 1 + training_.severity;
  const bool has_heavy_stage =
      (is(Family::stage_imbalance) && with_fault_) || is(Family::gpu_slow_in_imbalance);
  if (has_heavy_stage && seat.stage == shape_.pp - 1) factor *= 1.4;
  if (is(Family::uneven_input) && with_fault_) {
    factor *= std::exp(0.2 * normal(seed, 15, static_cast<uint64_t>(seat.replica), s));
  }
  return factor;
}

int64_t Builder::host_ns(int rank, int step, uint64_t which) const {
  const auto r = static_cast<uint64_t>(rank);
  double span =
      static_cast<double>(kHostNs) *
      std::exp(0.2 * normal(noise_seed(), 16, r << 32 ^ static_cast<uint64_t>(step), which));
  if (is(Family::host_slow) && with_fault_ && is_culprit(rank)) {
    span += static_cast<double>(kForwardNs) * (1.5 + 2 * training_.severity);
  }
  return static_cast<int64_t>(span);
}

// Of the host, in front of a step.
int64_t Builder::pause_ns(int rank, int step) const {
  const int64_t own_ns = kForwardNs * 3 * shape_.layers * shape_.microbatches;
  const auto s = static_cast<uint64_t>(step);
  int64_t pause = 200'000;
  if (!with_fault_) return pause;
  const auto extra = static_cast<int64_t>(training_.severity * static_cast<double>(own_ns));
  if (is(Family::loader_slow) && is_culprit(rank)) pause += extra;
  const auto unlucky = static_cast<int>(uniform(noise_seed(), 17, s, 0) * shape_.ranks());
  if (is(Family::rotating_pauses) && unlucky == rank && uniform(noise_seed(), 18, s, 0) < 0.3) {
    pause += 5 * extra;
  }
  if (is(Family::periodic_pauses) && step % kPausePeriod == 0 &&
      step / kPausePeriod % shape_.ranks() == rank) {
    pause += 10 * extra;
  }
  if (is(Family::one_pauses) && is_culprit(rank) && uniform(noise_seed(), 18, s, 0) < 0.1) {
    pause += 10 * extra;
  }
  if (is(Family::data_stalls) && uniform(noise_seed(), 19, s, 0) < 0.1) {
    const double share = 0.9 + 0.1 * uniform(noise_seed(), 20, s, static_cast<uint64_t>(rank));
    pause += static_cast<int64_t>(10 * share * static_cast<double>(extra));
  }
  return pause;
}

void Builder::make_comms() {
  const auto ranks = static_cast<size_t>(shape_.ranks());
  tensor_of_.assign(ranks, -1);
  data_of_.assign(ranks, -1);
  pipeline_of_.assign(ranks, -1);
  std::vector<int> world;
  for (int r = 0; r < shape_.ranks(); ++r) world.push_back(r);
  job_.comms.push_back({.ranks = world});
  const auto add = [this](std::vector<int>& of, const std::vector<int>& members) {
    if (members.size() < 2) return;
    for (const int r : members) of[static_cast<size_t>(r)] = static_cast<int>(job_.comms.size());
    job_.comms.push_back({.ranks = members});
  };
  for (const int r : world) {
    const Seat seat = seat_of(r);
    std::vector<int> members;
    if (seat.part == 0) {
      for (int t = 0; t < shape_.tp; ++t) members.push_back(r + t);
      add(tensor_of_, members);
    }
    members.clear();
    if (seat.replica == 0) {
      for (int d = 0; d < shape_.dp; ++d) members.push_back(rank_of({seat.stage, d, seat.part}));
      add(data_of_, members);
    }
    members.clear();
    if (seat.stage == 0) {
      for (int p = 0; p < shape_.pp; ++p) members.push_back(rank_of({p, seat.replica, seat.part}));
      add(pipeline_of_, members);
    }
  }
}

void Builder::make_machine() {
  Machine& machine = job_.machine;
  machine.seed = noise_seed();
  if (has(Planted::slower_links)) machine.bytes_per_ns /= 1 + training_.planted_size;
  if (has(Planted::slower_launches)) {
    machine.launch_ns =
        static_cast<int64_t>(static_cast<double>(machine.launch_ns) * (1 + training_.planted_size));
  }
  machine.tells_launch = training_.tells_launch;
  if (!is(Family::clean)) {
    machine.clock_offset_ns = 3'000'000'000;
    machine.clock_drift = 50e-6;
    machine.alignment_ns = 50'000;
  }
  if (is(Family::busy_links)) machine.transfer_noise = 0.4;
  if (is(Family::launch_slow) && with_fault_) {
    machine.host_slowness.assign(job_.ranks.size(), 1);
    const double own_ns = static_cast<double>(kForwardNs) * (1.5 + 2 * training_.severity);
    machine.host_slowness[static_cast<size_t>(culprits().front())] =
        own_ns / static_cast<double>(kHostNs);
  }
  if (!is(Family::slow_links) || !with_fault_) return;
  const size_t chosen = 1 + training_.seed % (job_.comms.size() - 1);
  job_.comms[chosen].slowness = 1 + 20 * training_.severity;
}

void Builder::kernel(int rank, int step, int64_t span_ns) {
  ++drawn_;
  put(rank, {.what = What::host, .span_ns = host_ns(rank, step, drawn_)}, step);
  const double factor = work_factor(rank, step, drawn_);
  put(rank,
      {.what = What::kernel,
       .stream = kComputeStream,
       .span_ns = static_cast<int64_t>(factor * static_cast<double>(span_ns))},
      step);
}

void Builder::call(int rank, int step, int stream, int comm, OpKind kind, uint64_t count,
                   int peer) {
  put(rank,
      {.what = What::call,
       .stream = stream,
       .comm = comm,
       .kind = kind,
       .count = count,
       .root_or_peer = peer},
      step);
}

void Builder::forward(int rank, int step, int microbatch) {
  const Seat seat = seat_of(rank);
  const auto r = static_cast<size_t>(rank);
  // Activations of odd microbatches fit into NCCL's buffers.
  const uint64_t count = microbatch % 2 == 1 ? 100'000 : 1'000'000;
  if (seat.stage > 0) {
    call(rank, step, kComputeStream, pipeline_of_[r], OpKind::Recv, count, seat.stage - 1);
  }
  for (int layer = 0; layer < shape_.layers; ++layer) {
    kernel(rank, step, kForwardNs);
    if (shape_.tp > 1) {
      call(rank, step, kComputeStream, tensor_of_[r], OpKind::AllReduce, 2'000'000);
    }
  }
  if (seat.stage + 1 < shape_.pp) {
    call(rank, step, kComputeStream, pipeline_of_[r], OpKind::Send, count, seat.stage + 1);
  }
}

void Builder::reduce(int rank, int step, uint64_t count) {
  put(rank, {.what = What::wait, .stream = kReduceStream, .other = kComputeStream}, step);
  call(rank, step, kReduceStream, data_of_[static_cast<size_t>(rank)], OpKind::AllReduce, count);
}

void Builder::backward(int rank, int step, int microbatch) {
  const Seat seat = seat_of(rank);
  const auto r = static_cast<size_t>(rank);
  const uint64_t count = microbatch % 2 == 1 ? 100'000 : 1'000'000;
  if (seat.stage + 1 < shape_.pp) {
    call(rank, step, kComputeStream, pipeline_of_[r], OpKind::Recv, count, seat.stage + 1);
  }
  const bool is_last = microbatch + 1 == shape_.microbatches;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    kernel(rank, step, 2 * kForwardNs);
    if (shape_.tp > 1) {
      call(rank, step, kComputeStream, tensor_of_[r], OpKind::AllReduce, 2'000'000);
    }
    if (is_last && shape_.dp > 1 && is_overlapped()) reduce(rank, step, 20'000'000);
  }
  if (seat.stage > 0) {
    call(rank, step, kComputeStream, pipeline_of_[r], OpKind::Send, count, seat.stage - 1);
  }
  if (is_last && shape_.dp > 1 && !is_overlapped()) {
    for (int bucket = 0; bucket < 2; ++bucket) reduce(rank, step, 20'000'000);
  }
}

void Builder::step(int rank, int step) {
  drawn_ = 0;
  put(rank, {.what = What::host, .span_ns = pause_ns(rank, step)}, step);
  for (int microbatch = 0; microbatch < shape_.microbatches; ++microbatch) {
    forward(rank, step, microbatch);
  }
  if (has(Planted::extra_call)) {
    const double bytes = 4e6 * training_.planted_size;
    call(rank, step, kComputeStream, 0, OpKind::AllReduce, static_cast<uint64_t>(bytes) + 4);
  }
  for (int microbatch = 0; microbatch < shape_.microbatches; ++microbatch) {
    backward(rank, step, microbatch);
  }
  put(rank, {.what = What::wait, .stream = kComputeStream, .other = kReduceStream}, step);
  call(rank, step, kComputeStream, 0, OpKind::AllReduce, 4);
  kernel(rank, step, kForwardNs / 4);
  if (training_.waits_at_end) {
    put(rank, {.what = What::sync, .stream = kComputeStream}, step);
  }
}

Job Builder::build() {
  job_.steps = shape_.steps;
  job_.ranks.resize(static_cast<size_t>(shape_.ranks()));
  make_comms();
  make_machine();
  for (int rank = 0; rank < shape_.ranks(); ++rank) {
    for (int s = 0; s < shape_.steps; ++s) step(rank, s);
  }
  return job_;
}

}  // namespace

std::string_view name_of(Family family) { return kFamilies[static_cast<size_t>(family)].name; }
std::string_view verdict_due(Family family) {
  return kFamilies[static_cast<size_t>(family)].verdict;
}
bool names_ranks(Family family) { return kFamilies[static_cast<size_t>(family)].names_ranks; }

Training small_training(Family family, double severity) {
  Training training;
  training.family = family;
  training.seed = 2;
  training.shape = {.dp = 4, .tp = 2, .pp = 1, .layers = 2, .microbatches = 1, .steps = 60};
  training.severity = severity;
  return training;
}

Training random_training(Family family, uint64_t seed) {
  const auto f = static_cast<uint64_t>(family);
  const auto among = [&](uint64_t which, std::initializer_list<int> values) {
    const auto place =
        static_cast<size_t>(uniform(seed, 100 + which, f, 0) * static_cast<double>(values.size()));
    return values.begin()[place];
  };
  Training training;
  training.family = family;
  training.seed = seed * 64 + f;
  training.shape = {.dp = among(1, {4, 4, 6, 8}),
                    .tp = among(2, {1, 1, 2, 4}),
                    .pp = among(3, {1, 1, 2, 4}),
                    .layers = among(4, {2, 3, 4}),
                    .microbatches = among(5, {1, 2, 3}),
                    .steps = among(6, {60, 60, 80, 120})};
  if (family == Family::stage_imbalance || family == Family::gpu_slow_in_imbalance) {
    training.shape.pp = among(3, {2, 4});
  }
  if (family == Family::clean_pair || family == Family::gpu_slow_pair) {
    training.shape.dp = 2;
    training.shape.tp = training.shape.pp = 1;
  }
  if (family == Family::clean_overlapped || family == Family::gpu_slow_overlapped) {
    training.shape.layers = 4;
  }
  if (training.family == Family::rotating_pauses || training.family == Family::data_stalls ||
      training.family == Family::periodic_pauses || training.family == Family::one_pauses) {
    training.shape.steps = among(6, {80, 120, 200});
  }
  // Even on a logarithmic scale.
  training.severity = 0.02 * std::pow(25.0, uniform(seed, 110, f, 0));
  training.noise = 0.002 + 0.008 * uniform(seed, 111, f, 0);
  training.tells_launch = uniform(seed, 112, f, 0) < 0.5;
  training.waits_at_end = uniform(seed, 113, f, 0) < 0.5;
  if (family == Family::clean_noisy) training.noise *= 8;
  return training;
}

int planted_rank(const Training& training) {
  return static_cast<int>((training.seed * 6007 + 3) %
                          static_cast<uint64_t>(training.shape.ranks()));
}

Job make_job(const Training& training) { return Builder(training, true).build(); }

Case make_case(const Training& training) {
  Builder builder(training, true);
  const Job job = builder.build();
  Case made{.timed = execute(job), .truth = {}};
  const Timed without = execute(Builder(training, false).build());
  Truth& truth = made.truth;
  truth.culprits = builder.culprits();
  truth.verdict = verdict_due(training.family);
  truth.step_ns = made.timed.mean_step_ns(kSkippedSteps);
  truth.recovered = 1 - without.mean_step_ns(kSkippedSteps) / truth.step_ns;
  return made;
}

}  // namespace rollcall::timed
