// Traces of the PyTorch profiler (Kineto), one file a rank: Chrome's trace events, with PyTorch's
// own description of each collective.
//
//     {"distributedInfo": {"rank": 0, ...}, "baseTimeNanoseconds": N, "traceEvents": [
//       {"cat": "cpu_op", "name": "record_param_comms", "ts": microseconds, "dur": microseconds,
//        "args": {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 16384,
//                 "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Rank": 0,
//                 "Seq": 1, "External id": 102, ...}},
//       {"cat": "kernel", ..., "args": {"External id": 102, ...}}]}
//
// What becomes what
//   * record_param_comms is a call, in the order of their times. Traces without CPU activity have
//     the same arguments on the kernels, which then stand for the calls.
//   * A kernel of the same External id gives the time that the GPU took.
//   * Identity: the group's name and ranks. "Seq" (2.5 and later) is the position; without it calls
//     are counted, which holds where all ranks began with the same step.
//   * "Rank" is the rank in the group, but for sends and receives the peer's, and for collectives
//     with a root that root's.
//
// What it lacks: everything outside the profiler's window, reductions, and, of a list of ranks or
// sizes, what is beyond the thirtieth.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/limits.h"
#include "trace/import/importer.h"
#include "trace/import/json_events.h"
#include "trace/import/torch_names.h"

namespace rollcall::trace {
namespace {

constexpr size_t kCallsMax = 1u << 22;  // a window of an hour has a tenth

// One event, as far as it concerns us.
struct Record {
  bool is_call = false;    // record_param_comms
  bool is_kernel = false;  // of the GPU
  double ts_us = 0;
  double duration_us = 0;
  int64_t pid = 0;
  int64_t tid = 0;
  int64_t external = -1;
  std::string collective;
  std::string dtype;
  std::string group;
  std::string group_name;  // for people
  std::string ranks;       // "[0, 1, 2]", cut behind thirty
  int64_t in_elements = -1;
  int64_t out_elements = -1;
  int64_t group_size = -1;
  int64_t rank = -1;
  int64_t seq = -1;
  int64_t stream = 0;
};

struct KernelTime {
  int64_t started_ns = 0;
  int64_t finished_ns = 0;
};

class TraceReader final : public JsonHandler {
 public:
  void scalar(const std::vector<std::string>& path, const JsonScalar& value) override {
    if (path.empty()) return;
    const std::string& name = path.back();
    if (path.size() == 1 && name == "baseTimeNanoseconds") base_ns = value.integer;
    if (path.size() == 2 && path[0] == "distributedInfo") {
      if (name == "rank") rank = static_cast<int32_t>(value.integer);
      if (name == "nccl_version") nccl_version = value.text;
    }
    if (path[0] != "traceEvents") return;
    if (path.size() == 3) take_field(name, value);
    if (path.size() == 4 && path[2] == "args") take_argument(name, value);
  }

  void ended(const std::vector<std::string>& path) override {
    if (path.size() != 2 || path[0] != "traceEvents") return;
    const bool is_described = !now_.collective.empty();
    if (now_.is_call && is_described) {
      if (calls.size() < kCallsMax) calls.push_back(now_);
    } else if (now_.is_kernel && (is_described || now_.external >= 0)) {
      if (kernels.size() < kCallsMax) kernels.push_back(now_);
    }
    now_ = {};
  }

  int64_t base_ns = 0;
  int32_t rank = -1;
  std::string nccl_version;
  std::vector<Record> calls;
  std::vector<Record> kernels;

 private:
  void take_field(const std::string& name, const JsonScalar& value) {
    if (name == "name") {
      now_.is_call = value.text == "record_param_comms";
      is_nccl_ = value.text.starts_with("nccl");
    } else if (name == "cat") {
      is_gpu_ = value.text == "kernel";
    } else if (name == "ts") {
      now_.ts_us = value.number;
    } else if (name == "dur") {
      now_.duration_us = value.number;
    } else if (name == "pid") {
      now_.pid = value.integer;
    } else if (name == "tid") {
      now_.tid = value.integer;
    }
    now_.is_kernel = is_gpu_ && is_nccl_;
  }

  void take_argument(const std::string& name, const JsonScalar& value) {
    struct Argument {
      std::string_view name;
      std::string Record::*text;
      int64_t Record::*number;
    };
    static constexpr Argument kArguments[] = {
        {"External id", nullptr, &Record::external},
        {"external id", nullptr, &Record::external},
        {"Collective name", &Record::collective, nullptr},
        {"dtype", &Record::dtype, nullptr},
        {"Process Group Name", &Record::group, nullptr},
        {"Process Group Description", &Record::group_name, nullptr},
        {"Process Group Ranks", &Record::ranks, nullptr},
        {"In msg nelems", nullptr, &Record::in_elements},
        {"Out msg nelems", nullptr, &Record::out_elements},
        {"Group size", nullptr, &Record::group_size},
        {"Rank", nullptr, &Record::rank},
        {"Seq", nullptr, &Record::seq},
        {"stream", nullptr, &Record::stream},
    };
    for (const Argument& argument : kArguments) {
      if (argument.name != name) continue;
      if (argument.text != nullptr) now_.*argument.text = value.text;
      if (argument.number != nullptr) now_.*argument.number = value.integer;
    }
  }

  Record now_;
  bool is_nccl_ = false;
  bool is_gpu_ = false;
};

// Of the NCCL call, where it is the same on all ranks.
uint64_t count_of(OpKind kind, const Record& record) {
  const int64_t in = std::max<int64_t>(record.in_elements, 0);
  const int64_t out = std::max<int64_t>(record.out_elements, 0);
  if (record.in_elements < 0 && record.out_elements < 0) return kCountUnknown;
  if (record.collective.starts_with("barrier") || kind == OpKind::AlltoAll) return kCountUnknown;
  int64_t count = in != 0 ? in : out;
  if (kind == OpKind::ReduceScatter || kind == OpKind::Recv) count = out != 0 ? out : in;
  // The root has every rank's part on one side.
  const bool is_one_sided = kind == OpKind::Gather || kind == OpKind::Scatter;
  if (is_one_sided && in != 0 && out != 0) count = std::min(in, out);
  return static_cast<uint64_t>(count);
}

class ProcessWriter {
 public:
  ProcessWriter(Process& process, const TraceReader& trace) : process_(process), trace_(trace) {}

  void add_kernel_times() {
    for (const Record& kernel : trace_.kernels) {
      if (kernel.external < 0) continue;
      const int64_t started_ns = at_ns(kernel.ts_us);
      const int64_t finished_ns = at_ns(kernel.ts_us + kernel.duration_us);
      const auto [known, fresh] =
          kernels_.try_emplace(kernel.external, KernelTime{started_ns, finished_ns});
      if (fresh) continue;
      known->second.started_ns = std::min(known->second.started_ns, started_ns);
      known->second.finished_ns = std::max(known->second.finished_ns, finished_ns);
    }
  }

  void add(const Record& record) {
    const std::optional<OpKind> kind = torch_kind_of(record.collective);
    if (!kind) return;  // "wait" and the like
    const uint32_t index = comm_of(record);
    Comm& comm = process_.comms[index];
    Op op;
    op.kind = *kind;
    op.comm = index;
    op.datatype = torch_datatype_of(record.dtype);
    op.count = count_of(*kind, record);
    op.thread = thread_of(record.tid);
    if (is_p2p(*kind)) {
      op.root_or_peer = static_cast<int32_t>(record.rank);
      op.seq = p2p_[{index, op.root_or_peer, *kind == OpKind::Send}]++;
      ++(*kind == OpKind::Send ? comm.sends : comm.recvs);
    } else {
      if (traits_of(*kind).rooted) op.root_or_peer = static_cast<int32_t>(record.rank);
      op.seq = record.seq >= 0 ? static_cast<uint64_t>(record.seq) : comm.collectives;
      const auto [known, fresh] = collectives_.try_emplace({index, op.seq}, process_.ops.size());
      // A coalesced group: one operation of several tensors.
      if (!fresh) return merge(op, process_.ops[known->second]);
      comm.collectives = op.seq + 1;
    }
    set_times(record, op);
    op.ticket = process_.ops.size() + 1;
    process_.ops.push_back(op);
  }

 private:
  static void merge(const Op& op, Op& whole) {
    if (op.count == kCountUnknown || whole.count == kCountUnknown) return;
    whole.count += op.count;
  }

  int64_t at_ns(double us) const {
    constexpr double kBeyond = 9e15;  // microseconds
    if (!(us > 0) || us > kBeyond) return 0;
    return trace_.base_ns + static_cast<int64_t>(us * 1000);
  }

  void set_times(const Record& record, Op& op) {
    op.state = OpState::returned;
    op.result = kResultSuccess;
    op.called_ns = at_ns(record.ts_us);
    op.returned_ns = at_ns(record.ts_us + record.duration_us);
    if (record.is_kernel) {
      op.started_ns = op.called_ns;
      op.finished_ns = op.returned_ns;
      op.state = OpState::finished;
      op.stream = static_cast<uint64_t>(record.stream);
      return;
    }
    const auto kernel = kernels_.find(record.external);
    if (record.external < 0 || kernel == kernels_.end()) return;
    op.started_ns = kernel->second.started_ns;
    op.finished_ns = kernel->second.finished_ns;
    op.state = OpState::finished;
  }

  uint32_t comm_of(const Record& record) {
    const auto [known, fresh] = comms_.try_emplace(record.group + record.ranks,
                                                   static_cast<uint32_t>(process_.comms.size()));
    if (!fresh) return known->second;
    const std::vector<int32_t> ranks = numbers_in(record.ranks);
    Comm comm;
    comm.state = CommState::ready;
    comm.nranks = static_cast<int32_t>(record.group_size >= 0 ? record.group_size
                                                              : static_cast<int64_t>(ranks.size()));
    const auto mine = std::find(ranks.begin(), ranks.end(), process_.job_rank);
    if (mine != ranks.end()) comm.rank = static_cast<int32_t>(mine - ranks.begin());
    comm.key = key_from_text("torch group " + record.group + record.ranks);
    const bool is_described = !record.group_name.empty() && record.group_name != "undefined";
    comm.name = is_described ? record.group_name : record.group;
    process_.comms.push_back(comm);
    return known->second;
  }

  uint32_t thread_of(int64_t tid) {
    const auto [known, fresh] =
        threads_.try_emplace(tid, static_cast<uint32_t>(process_.threads.size()));
    if (fresh) process_.threads.push_back({static_cast<uint32_t>(tid), ""});
    return known->second;
  }

  Process& process_;
  const TraceReader& trace_;
  std::map<int64_t, KernelTime> kernels_;  // by External id
  std::map<std::string, uint32_t> comms_;
  std::map<int64_t, uint32_t> threads_;
  std::map<std::tuple<uint32_t, int32_t, bool>, uint64_t> p2p_;
  std::map<std::pair<uint32_t, uint64_t>, size_t> collectives_;
};

// Where distributedInfo does not tell it: by the rank in a group whose ranks are listed.
int32_t rank_from_groups(const std::vector<Record>& calls) {
  for (const Record& call : calls) {
    const std::optional<OpKind> kind = torch_kind_of(call.collective);
    if (!kind || is_p2p(*kind) || traits_of(*kind).rooted || call.rank < 0) continue;
    const std::vector<int32_t> ranks = numbers_in(call.ranks);
    if (static_cast<size_t>(call.rank) < ranks.size()) {
      return ranks[static_cast<size_t>(call.rank)];
    }
  }
  return -1;
}

// "node0_4000.1749999999000.pt.trace.json": the host, as PyTorch's own handler names its files.
std::string host_from_name(const std::string& path, uint32_t pid) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const size_t at = name.find(fmt::format("_{}.", pid));
  return at == std::string::npos ? "" : name.substr(0, at);
}

}  // namespace

void import_kineto(const std::string& path, ByteStream& stream, std::vector<Process>& processes,
                   std::vector<Issue>& issues) {
  TraceReader trace;
  const std::string trouble = read_json_events(stream, trace);
  if (!trouble.empty()) {
    issues.push_back({path,
                      fmt::format("is a trace of the PyTorch profiler that {}; what comes before "
                                  "was read",
                                  trouble),
                      0, false});
  }
  const bool has_calls = !trace.calls.empty();
  std::vector<Record>& records = has_calls ? trace.calls : trace.kernels;
  std::erase_if(records, [](const Record& record) { return record.collective.empty(); });
  if (records.empty()) {
    issues.push_back({path,
                      "is a trace of the PyTorch profiler without collectives: none was called in "
                      "its window, or it was made without ProfilerActivity.CPU, or before PyTorch "
                      "2.3",
                      0, true});
    return;
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.ts_us < b.ts_us; });
  Process process;
  process.file = path;
  process.recorder = "kineto";
  process.job_rank = trace.rank >= 0 ? trace.rank : rank_from_groups(records);
  if (has_calls) process.pid = static_cast<uint32_t>(records.front().pid);
  process.host = host_from_name(path, process.pid);
  if (!trace.nccl_version.empty() && trace.nccl_version != "unknown") {
    process.meta["nccl_version"] = trace.nccl_version;
  }
  process.knowledge.groups = false;
  process.knowledge.returns = false;
  process.knowledge.reductions = false;
  process.knowledge.head = false;
  process.knowledge.tail = trouble.empty();
  ProcessWriter writer(process, trace);
  writer.add_kernel_times();
  for (const Record& record : records) writer.add(record);
  process.next_ticket = process.ops.size() + 1;
  issues.push_back({path,
                    "is a trace of the PyTorch profiler: it has the calls of its window and not "
                    "their reductions; ranks can be compared where all recorded the same steps",
                    0, false});
  processes.push_back(std::move(process));
}

}  // namespace rollcall::trace
