// A virtual cluster with time: what hosts, streams and links do, when, and the run that a recorder
// would have left behind. It shares no code with the stage `slow`, so that one can be held against
// the other.
//
// A rank's program is a list of actions in the order in which its host carries them out. The host
// runs ahead of the GPU as far as its queue allows; streams are first in, first out; a collective
// ends on all ranks when the last one has come and the data has moved; a send that fits the buffers
// ends alone. Each host has a clock of its own, and each process an error between GPU and host.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/model.h"

namespace rollcall::timed {

enum class What : uint8_t {
  host,    // the host is busy for `span_ns`
  kernel,  // a kernel of `span_ns` goes onto `stream`
  call,    // a call of NCCL on `stream`
  wait,    // `stream` waits for what is on stream `other` by now
  sync     // the host waits for `stream`
};

struct Action {
  What what = What::host;
  int stream = 0;
  int other = 0;
  int64_t span_ns = 0;
  int comm = 0;
  OpKind kind = OpKind::AllReduce;
  uint64_t count = 1;
  int root_or_peer = -1;
  uint32_t group = 0;  // calls of a rank with one number are launched together; 0: alone
  int step = -1;
};

struct TimedComm {
  std::vector<int> ranks;
  double slowness = 1;     // of its links: a factor on the time that data takes
  int slow_from_step = 0;  // from this step on
};

struct Machine {
  uint64_t seed = 1;
  int gpus_per_host = 8;
  int64_t launch_ns = 6'000;    // that a call of NCCL takes its host
  int64_t latency_ns = 20'000;  // of a transfer
  double bytes_per_ns = 100;
  double transfer_noise = 0.02;      // standard deviation of the logarithm
  int64_t finish_spread_ns = 5'000;  // between the ends on the ranks of one collective
  uint64_t eager_bytes = 512 * 1024;
  int run_ahead = 1000;         // kernels and calls that a stream's queue holds
  int64_t clock_offset_ns = 0;  // of hosts, up to so much to either side
  double clock_drift = 0;       // of hosts, up to so much to either side
  int64_t alignment_ns = 0;     // of GPU times against the host's, up to so much to either side
  bool tells_launch = true;     // as the profiler plugin does
  std::vector<double> host_slowness;  // by rank, of what its host does; empty: 1
  double untimed = 0;                 // share of the calls that have no GPU times, at random
};

struct Job {
  Machine machine;
  std::vector<TimedComm> comms;
  std::vector<std::vector<Action>> ranks;
  int steps = 0;
};

// One kernel that is not NCCL's, on the clock of the recorded GPU times of its rank.
struct Kernel {
  int stream = 0;  // as Op::stream
  int64_t started_ns = 0;
  int64_t finished_ns = 0;
};

struct Timed {
  trace::Run run;
  std::vector<std::vector<Kernel>> kernels;  // by rank
  std::vector<int64_t> step_end_ns;  // true time at which the last rank was through with a step
  // Of the steps behind the first `skipped`, in nanoseconds.
  double mean_step_ns(int skipped) const;
};

// Carries the job out. The program must not deadlock where every call blocks its rank.
Timed execute(const Job& job);

// Between 0 and 1, evenly; the same for the same arguments.
double uniform(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
// Normal with variance 1, likewise.
double normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

}  // namespace rollcall::timed
