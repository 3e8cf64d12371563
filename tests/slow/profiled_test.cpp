// Runs of the virtual cluster as the PyTorch profiler would have recorded them: one trace a rank,
// with the calls and the kernels of NCCL and no recorder of ours.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "slow/answer.h"
#include "slow/timeline.h"
#include "tests/catch.h"
#include "tests/slow/timed_training.h"
#include "trace/loader.h"

namespace rollcall::slow {
namespace profiled_test {

using nlohmann::json;
using timed::Family;
using timed::Training;

constexpr int64_t kOfNoCall = 1'000'000'000;

std::string torch_name(OpKind kind) {
  switch (kind) {
    case OpKind::AllReduce:
      return "allreduce";
    case OpKind::AllGather:
      return "_allgather_base";
    case OpKind::ReduceScatter:
      return "_reduce_scatter_base";
    case OpKind::Broadcast:
      return "broadcast";
    case OpKind::Send:
      return "send";
    case OpKind::Recv:
      return "recv";
    default:
      FAIL("the jobs here make no such call");
      return {};
  }
}

double us_of(int64_t span_ns) { return static_cast<double>(span_ns) / 1000; }

class TraceWriter {
 public:
  TraceWriter(const trace::Process& process,
              const std::vector<std::vector<int32_t>>& ranks_of_comms)
      : process_(process),
        ranks_of_comms_(ranks_of_comms),
        base_ns_(process.ops.front().called_ns - 1'000'000) {}

  json document() {
    for (const trace::Op& op : process_.ops) add(op);
    return {{"schemaVersion", 1},
            {"distributedInfo", {{"backend", "nccl"}, {"rank", process_.job_rank}}},
            {"baseTimeNanoseconds", base_ns_},
            {"traceEvents", events_}};
  }

 private:
  void add(const trace::Op& op) {
    const trace::Comm& comm = process_.comms.at(op.comm);
    const std::vector<int32_t>& ranks = ranks_of_comms_.at(op.comm);
    const int64_t external = ++external_;
    // The counts of a communicator begin anywhere, as those of a window do.
    events_.push_back({{"ph", "X"},
                       {"cat", "cpu_op"},
                       {"name", "record_param_comms"},
                       {"pid", process_.pid},
                       {"tid", process_.pid},
                       {"ts", us_since_base(op.called_ns)},
                       {"dur", us_of(op.returned_ns - op.called_ns)},
                       {"args",
                        {{"External id", external},
                         {"Collective name", torch_name(op.kind)},
                         {"dtype", "Float"},
                         {"Seq", op.seq + 1'000},
                         {"Process Group Name", fmt::format("{:x}", comm.key.low)},
                         {"Process Group Ranks", json(ranks).dump()},
                         {"Group size", ranks.size()},
                         {"Rank", is_p2p(op.kind) ? op.root_or_peer : comm.rank},
                         {"In msg nelems", op.count},
                         {"Out msg nelems", op.count}}}});
    if (op.finished_ns == 0) return;
    // Transfers are issued in batches of one: the batch's end, which has no record, launches.
    const bool is_batch = is_p2p(op.kind);
    if (is_batch) {
      events_.push_back({{"ph", "X"},
                         {"cat", "cuda_driver"},
                         {"name", "cuLaunchKernelEx"},
                         {"pid", process_.pid},
                         {"tid", process_.pid},
                         {"ts", us_since_base(op.returned_ns) - 0.1},
                         {"dur", 0.2},
                         {"args", {{"correlation", external}}}});
    }
    const int64_t begin_ns = std::max(op.started_ns, op.launched_ns);
    json arguments = {{"stream", op.stream}, {"correlation", external}};
    arguments["External id"] = is_batch ? external + kOfNoCall : external;
    events_.push_back({{"ph", "X"},
                       {"cat", "kernel"},
                       {"name", "ncclDevKernel"},
                       {"pid", 0},
                       {"tid", op.stream},
                       {"ts", us_since_base(begin_ns)},
                       {"dur", us_of(op.finished_ns - begin_ns)},
                       {"args", arguments}});
  }

  double us_since_base(int64_t time_ns) const { return us_of(time_ns - base_ns_); }

  const trace::Process& process_;
  const std::vector<std::vector<int32_t>>& ranks_of_comms_;
  const int64_t base_ns_;
  json events_ = json::array();
  int64_t external_ = 0;
};

// By the index that the process has them at.
std::vector<std::vector<int32_t>> ranks_of_comms(const trace::Run& run,
                                                 const trace::Process& process) {
  std::vector<std::vector<int32_t>> all;
  for (const trace::Comm& comm : process.comms) {
    std::vector<int32_t>& ranks = all.emplace_back(static_cast<size_t>(comm.nranks), -1);
    for (const trace::Process& other : run.processes) {
      for (const trace::Comm& theirs : other.comms) {
        if (theirs.key == comm.key) ranks.at(static_cast<size_t>(theirs.rank)) = other.job_rank;
      }
    }
  }
  return all;
}

// `run` after it was written as traces and read back.
trace::Run profiled(const trace::Run& run) {
  std::string pattern = std::filesystem::temp_directory_path() / "rollcall-profiled-XXXXXX";
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  for (const trace::Process& process : run.processes) {
    std::ofstream file(fmt::format("{}/rank{}.pt.trace.json", pattern, process.job_rank));
    file << TraceWriter(process, ranks_of_comms(run, process)).document();
  }
  trace::Run read = trace::load_run(pattern);
  std::filesystem::remove_all(pattern);
  REQUIRE(read.processes.size() == run.processes.size());
  return read;
}

void expect_culprit(const Training& training, analysis::Verdict verdict) {
  const timed::Case made = make_case(training);
  const Answer answer = slow::answer(profiled(made.timed.run));
  CAPTURE(answer.why_not);
  REQUIRE(answer.finding);
  CHECK(answer.finding->verdict == verdict);
  REQUIRE(answer.finding->gpus.size() == 1);
  CHECK(answer.gpus[answer.finding->gpus[0]].rank == made.truth.culprits.at(0));
  CHECK(std::abs(answer.finding->recovered - made.truth.recovered) < 0.02);
  CHECK(answer.compared == 55);
}

TEST_CASE(
    "from the profiler's traces alone a rank with slow kernels is named, with what it costs") {
  expect_culprit(timed::small_training(Family::gpu_slow, 0.2), analysis::Verdict::straggler);
}

TEST_CASE(
    "from the profiler's traces alone a rank with a slow loader is named as bound by its host") {
  Training training = timed::small_training(Family::loader_slow, 0.3);
  training.waits_at_end = true;
  expect_culprit(training, analysis::Verdict::straggler);
  CHECK(slow::answer(profiled(make_case(training).timed.run)).finding->is_host_bound);
}

TEST_CASE("from the profiler's traces alone a host that launches slowly is told from a straggler") {
  Training training = timed::small_training(Family::launch_slow, 0.3);
  training.waits_at_end = true;
  expect_culprit(training, analysis::Verdict::slow_launch);
}

TEST_CASE("from traces of a pipeline, whose transfers are batches, the slow rank is named") {
  Training training = timed::small_training(Family::gpu_slow, 0.2);
  training.shape = {.dp = 4, .tp = 1, .pp = 2, .layers = 4, .microbatches = 4, .steps = 60};
  expect_culprit(training, analysis::Verdict::straggler);
}

TEST_CASE("traces of a healthy job name nobody") {
  for (const Family family : {Family::clean, Family::clean_overlapped, Family::all_slow}) {
    const Answer answer =
        slow::answer(profiled(make_case(timed::small_training(family, 0.2)).timed.run));
    CHECK(answer.is_compared);
    CHECK_FALSE(answer.finding);
  }
}

TEST_CASE("where the profiler did not watch the GPU the answer says how it does") {
  trace::Run run = profiled(make_case(timed::small_training(Family::clean, 0)).timed.run);
  for (trace::Process& process : run.processes) {
    for (trace::Op& op : process.ops) op.started_ns = op.finished_ns = 0;
  }
  const Answer answer = slow::answer(run);
  CHECK_FALSE(answer.is_compared);
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("ProfilerActivity.CUDA") != std::string::npos);
}

TEST_CASE(
    "where a call of each step has no kernel in the traces nobody is named, and it is said why") {
  trace::Run run = profiled(make_case(timed::small_training(Family::gpu_slow, 0.2)).timed.run);
  for (trace::Process& process : run.processes) {
    for (size_t i = 0; i < process.ops.size(); i += 4) {
      process.ops[i].started_ns = process.ops[i].finished_ns = 0;
    }
  }
  const Answer answer = slow::answer(run);
  CHECK_FALSE(answer.finding);
  REQUIRE(answer.why_not.size() == 1);
  CHECK(answer.why_not[0].find("have no kernel in the files") != std::string::npos);
  CHECK(answer.why_not[0].find("ROLLCALL_OVERHEAD_BUDGET") == std::string::npos);
}

TEST_CASE("that a kernel began is its arrival, also where the call had not come back by then") {
  trace::Run run = profiled(make_case(timed::small_training(Family::clean, 0)).timed.run);
  trace::Op& op = run.processes.at(0).ops.at(7);
  op.returned_ns = op.started_ns + 40'000;
  const Timeline timeline = make_timeline(run);
  const Unit& unit = timeline.units.at(timeline.gpus.at(0).begin + 7);
  CHECK(unit.arrived_ns == op.started_ns);
  CHECK(unit.doubt_ns == 0);
  run.processes.at(0).knowledge.kernel_times = false;
  const Timeline of_events = make_timeline(run);
  const Unit& later = of_events.units.at(of_events.gpus.at(0).begin + 7);
  CHECK(later.arrived_ns > op.started_ns);
  CHECK(later.doubt_ns > 0);
}

}  // namespace profiled_test
}  // namespace rollcall::slow
