#include "tests/slow/profiled_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "trace/loader.h"

namespace rollcall::timed {
namespace {

using nlohmann::json;

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

  json document(const std::vector<Kernel>& kernels) {
    for (const trace::Op& op : process_.ops) add(op);
    for (const Kernel& kernel : kernels) add(kernel);
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

  // Of compute. What was launched before the window is not in it.
  void add(const Kernel& kernel) {
    if (kernel.started_ns <= base_ns_) return;
    events_.push_back({{"ph", "X"},
                       {"cat", "kernel"},
                       {"name", "sm90_xmma_gemm_bf16bf16_bf16f32"},
                       {"pid", 0},
                       {"tid", kernel.stream},
                       {"ts", us_since_base(kernel.started_ns)},
                       {"dur", us_of(kernel.finished_ns - kernel.started_ns)},
                       {"args", {{"stream", kernel.stream}, {"device", 0}}}});
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

}  // namespace

trace::Run profiled(const trace::Run& run, const std::vector<std::vector<Kernel>>& kernels) {
  std::string pattern = std::filesystem::temp_directory_path() / "rollcall-profiled-XXXXXX";
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  for (const trace::Process& process : run.processes) {
    std::ofstream file(fmt::format("{}/rank{}.pt.trace.json", pattern, process.job_rank));
    const std::vector<std::vector<int32_t>> ranks = ranks_of_comms(run, process);
    TraceWriter writer(process, ranks);
    const auto rank = static_cast<size_t>(process.job_rank);
    file << writer.document(rank < kernels.size() ? kernels[rank] : std::vector<Kernel>());
  }
  trace::Run read = trace::load_run(pattern);
  std::filesystem::remove_all(pattern);
  REQUIRE(read.processes.size() == run.processes.size());
  return read;
}

}  // namespace rollcall::timed
