#include "tests/slow/timed_cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>

namespace rollcall::timed {
namespace {

constexpr int64_t kBeginNs = 1'700'000'000'000'000'000;
constexpr int64_t kFrontEventNs = 1'500;
constexpr int kStreams = 8;

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A rank or its host, as they are in true time.
struct Rank {
  size_t next = 0;  // action
  int64_t host_ns = 0;
  int64_t stream_ns[kStreams] = {};
  std::vector<int64_t> queued_ns;  // ends of what was queued, a ring of `run_ahead`
  size_t queued = 0;
  std::vector<uint64_t> collectives;                         // by communicator
  std::map<std::tuple<int, int, bool>, uint64_t> transfers;  // by communicator, peer, is send
  std::vector<Kernel> kernels;                               // true times
  bool has_come = false;  // to the call at `next`, or to its whole group
};

// One rank's part in a call.
struct Part {
  int rank = -1;
  size_t action = 0;
  uint64_t seq = 0;
  int64_t called_ns = 0;
  int64_t returned_ns = 0;
  int64_t launched_ns = 0;
  int64_t reached_ns = 0;  // the event in front fired
  int64_t arrived_ns = 0;
  int64_t finished_ns = 0;
  bool is_done = false;
};

// (communicator, is a transfer, source, target, seq)
using MeetingKey = std::tuple<int, bool, int, int, uint64_t>;
struct Meeting {
  std::vector<size_t> parts;  // indices into Cluster::parts_
};

class Cluster {
 public:
  explicit Cluster(const Job& job) : job_(job), machine_(job.machine) {
    ranks_.resize(job.ranks.size());
    for (Rank& rank : ranks_) {
      rank.queued_ns.assign(static_cast<size_t>(std::max(machine_.run_ahead, 1)), 0);
      rank.collectives.assign(job.comms.size(), 0);
    }
    records_.resize(job.ranks.size());
    step_end_ns_.assign(static_cast<size_t>(job.steps), 0);
  }

  Timed carry_out();

 private:
  bool advance(int r);
  void carry_out_action(int r, const Action& action);
  size_t unit_end(int r) const;
  void come(int r, size_t end);
  MeetingKey meeting_of(int r, const Action& action, uint64_t seq) const;
  bool settle(int r, size_t end);
  bool is_complete(const Part& part) const;
  int64_t end_of(const Part& part) const;
  int64_t transfer_ns(const MeetingKey& key, const Action& action) const;
  void queue(Rank& rank, int64_t end_ns);
  void wait_for_room(Rank& rank) const;
  trace::Run run_of() const;
  trace::Process process_of(int r) const;
  int rank_in(int comm, int rank) const;
  int64_t on_host(int r, int64_t span_ns) const;
  int64_t on_clock(int r, int64_t true_ns) const;
  int64_t alignment_ns(int r) const;
  std::vector<std::vector<Kernel>> kernels_on_clocks() const;

  const Job& job_;
  const Machine& machine_;
  std::vector<Rank> ranks_;
  std::vector<Part> parts_;
  std::map<MeetingKey, Meeting> meetings_;
  std::vector<std::vector<size_t>> open_;     // by rank: parts of the call or group that it is in
  std::vector<std::vector<size_t>> records_;  // by rank: indices into parts_
  std::vector<int64_t> step_end_ns_;
};

int Cluster::rank_in(int comm, int rank) const {
  const std::vector<int>& ranks = job_.comms[static_cast<size_t>(comm)].ranks;
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

int64_t Cluster::on_host(int r, int64_t span_ns) const {
  if (machine_.host_slowness.empty()) return span_ns;
  return static_cast<int64_t>(machine_.host_slowness[static_cast<size_t>(r)] *
                              static_cast<double>(span_ns));
}

void Cluster::wait_for_room(Rank& rank) const {
  rank.host_ns = std::max(rank.host_ns, rank.queued_ns[rank.queued % rank.queued_ns.size()]);
}

void Cluster::queue(Rank& rank, int64_t end_ns) {
  rank.queued_ns[rank.queued++ % rank.queued_ns.size()] = end_ns;
}

size_t Cluster::unit_end(int r) const {
  const std::vector<Action>& actions = job_.ranks[static_cast<size_t>(r)];
  const size_t begin = ranks_[static_cast<size_t>(r)].next;
  size_t end = begin + 1;
  while (actions[begin].group != 0 && end < actions.size() && actions[end].what == What::call &&
         actions[end].group == actions[begin].group) {
    ++end;
  }
  return end;
}

MeetingKey Cluster::meeting_of(int r, const Action& action, uint64_t seq) const {
  if (!is_p2p(action.kind)) return {action.comm, false, 0, 0, seq};
  const int own = rank_in(action.comm, r);
  const bool is_send = action.kind == OpKind::Send;
  return {action.comm, true, is_send ? own : action.root_or_peer,
          is_send ? action.root_or_peer : own, seq};
}

// The rank's host makes the calls, and its stream comes to them.
void Cluster::come(int r, size_t end) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const std::vector<Action>& actions = job_.ranks[static_cast<size_t>(r)];
  wait_for_room(rank);
  std::vector<size_t>& open = open_[static_cast<size_t>(r)];
  open.clear();
  const int64_t front_ns = rank.host_ns + kFrontEventNs;
  for (size_t i = rank.next; i < end; ++i) {
    const Action& action = actions[i];
    Part part;
    part.rank = r;
    part.action = i;
    part.called_ns = rank.host_ns;
    rank.host_ns += on_host(r, machine_.launch_ns);
    part.returned_ns = rank.host_ns;
    part.seq =
        is_p2p(action.kind)
            ? rank.transfers[{action.comm, action.root_or_peer, action.kind == OpKind::Send}]++
            : rank.collectives[static_cast<size_t>(action.comm)]++;
    open.push_back(parts_.size());
    records_[static_cast<size_t>(r)].push_back(parts_.size());
    meetings_[meeting_of(r, action, part.seq)].parts.push_back(parts_.size());
    parts_.push_back(part);
  }
  const int64_t launched_ns = rank.host_ns - kFrontEventNs;
  for (const size_t p : open) {
    Part& part = parts_[p];
    const int64_t stream_ns = rank.stream_ns[actions[part.action].stream];
    part.launched_ns = launched_ns;
    part.reached_ns = std::max(stream_ns, front_ns);
    part.arrived_ns = std::max(part.reached_ns, launched_ns);
  }
  rank.has_come = true;
}

bool Cluster::is_complete(const Part& part) const {
  const Action& action = job_.ranks[static_cast<size_t>(part.rank)][part.action];
  if (action.kind == OpKind::Send && action.count * 4 <= machine_.eager_bytes) {
    return true;
  }
  const MeetingKey key = meeting_of(part.rank, action, part.seq);
  const size_t wanted =
      is_p2p(action.kind) ? 2 : job_.comms[static_cast<size_t>(action.comm)].ranks.size();
  return meetings_.at(key).parts.size() == wanted;
}

int64_t Cluster::transfer_ns(const MeetingKey& key, const Action& action) const {
  const TimedComm& comm = job_.comms[static_cast<size_t>(action.comm)];
  const auto& [c, is_transfer, source, target, seq] = key;
  const double bytes = static_cast<double>(action.count) * 4;
  double span = static_cast<double>(machine_.latency_ns) + bytes / machine_.bytes_per_ns;
  const uint64_t which = seq << 20 ^ static_cast<uint64_t>(source) << 10 ^
                         static_cast<uint64_t>(target) ^ (is_transfer ? 1ULL << 62 : 0);
  span *= std::exp(machine_.transfer_noise *
                   normal(machine_.seed, 77, static_cast<uint64_t>(c), which));
  if (action.step >= comm.slow_from_step) span *= comm.slowness;
  return static_cast<int64_t>(span);
}

// When the data of one call is there, as far as the parts that it waits for are concerned.
int64_t Cluster::end_of(const Part& part) const {
  const Action& action = job_.ranks[static_cast<size_t>(part.rank)][part.action];
  const MeetingKey key = meeting_of(part.rank, action, part.seq);
  const int64_t span_ns = transfer_ns(key, action);
  if (action.kind == OpKind::Send && action.count * 4 <= machine_.eager_bytes) {
    return part.arrived_ns + span_ns / 2;
  }
  int64_t begin_ns = part.arrived_ns;
  const bool is_from_root = action.kind == OpKind::Broadcast || action.kind == OpKind::Scatter;
  const bool is_to_root = action.kind == OpKind::Reduce || action.kind == OpKind::Gather;
  const int own = rank_in(action.comm, part.rank);
  for (const size_t p : meetings_.at(key).parts) {
    const Part& other = parts_[p];
    const int theirs = rank_in(action.comm, other.rank);
    if (is_from_root && theirs != action.root_or_peer) continue;
    if (is_to_root && own != action.root_or_peer) continue;
    begin_ns = std::max(begin_ns, other.arrived_ns);
  }
  const double spread =
      static_cast<double>(machine_.finish_spread_ns) *
      uniform(machine_.seed, 5, static_cast<uint64_t>(part.rank) << 32 ^ part.action, part.seq);
  return begin_ns + span_ns + static_cast<int64_t>(spread);
}

// False: a call of the unit waits for a rank that has not come to it.
bool Cluster::settle(int r, size_t end) {
  const std::vector<size_t>& open = open_[static_cast<size_t>(r)];
  for (const size_t p : open) {
    if (!is_complete(parts_[p])) return false;
  }
  int64_t end_ns = 0;
  for (const size_t p : open) end_ns = std::max(end_ns, end_of(parts_[p]));
  Rank& rank = ranks_[static_cast<size_t>(r)];
  for (const size_t p : open) {
    Part& part = parts_[p];
    part.finished_ns = end_ns;
    part.is_done = true;
    const Action& action = job_.ranks[static_cast<size_t>(r)][part.action];
    rank.stream_ns[action.stream] = std::max(rank.stream_ns[action.stream], end_ns);
    if (action.step >= 0) {
      int64_t& step_end = step_end_ns_[static_cast<size_t>(action.step)];
      step_end = std::max(step_end, end_ns);
    }
  }
  queue(rank, end_ns);
  rank.next = end;
  rank.has_come = false;
  return true;
}

void Cluster::carry_out_action(int r, const Action& action) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  int64_t& stream_ns = rank.stream_ns[action.stream];
  switch (action.what) {
    case What::host:
      rank.host_ns += on_host(r, action.span_ns);
      break;
    case What::kernel:
      wait_for_room(rank);
      rank.host_ns += on_host(r, machine_.launch_ns / 2);
      stream_ns = std::max(stream_ns, rank.host_ns) + action.span_ns;
      rank.kernels.push_back({action.stream, stream_ns - action.span_ns, stream_ns});
      queue(rank, stream_ns);
      break;
    case What::wait:
      stream_ns = std::max(stream_ns, rank.stream_ns[action.other]);
      break;
    case What::sync:
      rank.host_ns = std::max(rank.host_ns, stream_ns);
      break;
    case What::call:
      break;
  }
}

// False: nothing can be done before another rank has come further.
bool Cluster::advance(int r) {
  Rank& rank = ranks_[static_cast<size_t>(r)];
  const std::vector<Action>& actions = job_.ranks[static_cast<size_t>(r)];
  bool has_moved = false;
  while (rank.next < actions.size()) {
    if (actions[rank.next].what != What::call) {
      carry_out_action(r, actions[rank.next++]);
      has_moved = true;
      continue;
    }
    const size_t end = unit_end(r);
    if (!rank.has_come) {
      come(r, end);
      has_moved = true;
    }
    if (!settle(r, end)) return has_moved;
    has_moved = true;
  }
  return has_moved;
}

Timed Cluster::carry_out() {
  open_.resize(ranks_.size());
  bool moves = true;
  while (moves) {
    moves = false;
    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) moves = advance(r) || moves;
  }
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].next == job_.ranks[r].size()) continue;
    std::fprintf(stderr, "timed_cluster: the program of rank %zu stands at action %zu\n", r,
                 ranks_[r].next);
    std::abort();
  }
  return {.run = run_of(), .kernels = kernels_on_clocks(), .step_end_ns = step_end_ns_};
}

// Of the rank's host.
int64_t Cluster::on_clock(int r, int64_t true_ns) const {
  const auto h = static_cast<uint64_t>(r / machine_.gpus_per_host);
  const auto offset_ns = static_cast<int64_t>(static_cast<double>(machine_.clock_offset_ns) *
                                              (2 * uniform(machine_.seed, 1, h, 0) - 1));
  const double drift = machine_.clock_drift * (2 * uniform(machine_.seed, 2, h, 0) - 1);
  return kBeginNs + true_ns + offset_ns +
         static_cast<int64_t>(drift * static_cast<double>(true_ns));
}

int64_t Cluster::alignment_ns(int r) const {
  return static_cast<int64_t>(static_cast<double>(machine_.alignment_ns) *
                              (2 * uniform(machine_.seed, 3, static_cast<uint64_t>(r), 0) - 1));
}

std::vector<std::vector<Kernel>> Cluster::kernels_on_clocks() const {
  std::vector<std::vector<Kernel>> all;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const auto rank = static_cast<int>(r);
    std::vector<Kernel>& kernels = all.emplace_back(ranks_[r].kernels);
    for (Kernel& kernel : kernels) {
      ++kernel.stream;
      kernel.started_ns = on_clock(rank, kernel.started_ns) + alignment_ns(rank);
      kernel.finished_ns = on_clock(rank, kernel.finished_ns) + alignment_ns(rank);
    }
  }
  return all;
}

trace::Process Cluster::process_of(int r) const {
  trace::Process process;
  const auto rank = static_cast<uint64_t>(r);
  const int host = r / machine_.gpus_per_host;
  const int64_t error_ns = alignment_ns(r);
  const auto on_clock = [&](int64_t true_ns) { return this->on_clock(r, true_ns); };
  process.file = "rank" + std::to_string(r) + ".ring";
  process.host = "node" + std::to_string(host);
  process.pid = static_cast<uint32_t>(1000 + r);
  process.job_rank = r;
  process.threads.resize(1);
  std::vector<uint32_t> comm_number(job_.comms.size(), kCommUnknown);
  for (size_t c = 0; c < job_.comms.size(); ++c) {
    const int own = rank_in(static_cast<int>(c), r);
    const auto size = static_cast<int32_t>(job_.comms[c].ranks.size());
    if (own == size) continue;
    comm_number[c] = static_cast<uint32_t>(process.comms.size());
    trace::Comm comm;
    comm.key = {0x1000 + c, 0x2000 + c};
    comm.nranks = size;
    comm.rank = own;
    comm.state = CommState::ready;
    comm.name = "comm" + std::to_string(c);
    comm.created_ns = on_clock(0);
    comm.ready_ns = on_clock(1);
    process.comms.push_back(comm);
  }
  uint64_t ticket = 1;
  for (const size_t p : records_[rank]) {
    const Part& part = parts_[p];
    const Action& action = job_.ranks[rank][part.action];
    trace::Op op;
    op.kind = action.kind;
    op.comm = comm_number[static_cast<size_t>(action.comm)];
    op.seq = part.seq;
    op.count = action.count;
    op.datatype = 7;
    op.root_or_peer = action.root_or_peer;
    op.group = action.group;
    op.stream = static_cast<uint64_t>(action.stream) + 1;
    op.ticket = ticket++;
    op.state = trace::OpState::finished;
    op.result = 0;
    op.called_ns = on_clock(part.called_ns);
    op.returned_ns = on_clock(part.returned_ns);
    if (machine_.tells_launch) op.launched_ns = on_clock(part.launched_ns);
    const bool is_timed = uniform(machine_.seed, 9, rank, part.action) >= machine_.untimed;
    if (is_timed) {
      op.started_ns = on_clock(part.reached_ns) + error_ns;
      op.finished_ns = on_clock(part.finished_ns) + error_ns;
    }
    process.ops.push_back(op);
  }
  process.next_ticket = ticket;
  return process;
}

trace::Run Cluster::run_of() const {
  trace::Run run;
  run.directory = "timed";
  for (size_t r = 0; r < ranks_.size(); ++r)
    run.processes.push_back(process_of(static_cast<int>(r)));
  return run;
}

}  // namespace

double uniform(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t drawn = mix(mix(mix(mix(seed) ^ a) ^ b) ^ c);
  return static_cast<double>(drawn >> 11) * 0x1p-53;
}

double normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  const double one = std::max(uniform(seed, a, b, c), 1e-300);
  const double other = uniform(seed ^ 0x5bd1e995, a, b, c);
  return std::sqrt(-2 * std::log(one)) * std::cos(2 * 3.141592653589793 * other);
}

double Timed::mean_step_ns(int skipped) const {
  const auto first = static_cast<size_t>(skipped);
  const auto steps = static_cast<double>(step_end_ns.size() - first);
  return static_cast<double>(step_end_ns.back() - step_end_ns[first - 1]) / steps;
}

Timed execute(const Job& job) { return Cluster(job).carry_out(); }

}  // namespace rollcall::timed
