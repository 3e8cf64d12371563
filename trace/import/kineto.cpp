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
//   * A kernel of the same External id gives the time that the GPU took; of calls that were issued
//     together, the kernel that was launched behind them (kineto_batches.h), and they are a group.
//   * Identity: the group's name and ranks. "Seq" (2.5 and later) is the position; without it calls
//     are counted, which holds where all ranks began with the same step.
//   * "Rank" is the rank in the group, but for sends and receives the peer's, and for collectives
//     with a root that root's.
//
//   * All kernels together tell for how long the GPU computed and communicated (busy_kernels.h).
//
// What it lacks: everything outside the profiler's window, reductions, and, of a list of ranks or
// sizes, what is beyond the thirtieth.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/base/limits.h"
#include "trace/import/importer.h"
#include "trace/import/kineto_batches.h"
#include "trace/import/kineto_records.h"
#include "trace/import/torch_names.h"

namespace rollcall::trace {
namespace {

struct KernelTime {
  int64_t started_ns = 0;
  int64_t finished_ns = 0;
  int64_t stream = 0;
};

class ProcessWriter {
 public:
  ProcessWriter(Process& process, const KinetoTrace& trace) : process_(process), trace_(trace) {}

  void add_kernel_times() {
    for (const KinetoRecord& kernel : trace_.kernels) {
      if (kernel.external >= 0) extend(kernels_[kernel.external], kernel);
    }
  }

  // Behind all calls: of those that were issued together.
  void add_batches(const std::vector<KinetoBatch>& batches) {
    for (const KinetoBatch& batch : batches) {
      KernelTime time;
      for (const size_t kernel : batch.kernels) extend(time, trace_.kernels[kernel]);
      std::set<size_t> ops;
      for (const size_t call : batch.calls) {
        const auto op = op_of_call_.find(&trace_.calls[call]);
        if (op != op_of_call_.end()) ops.insert(op->second);
      }
      if (ops.size() > 1) ++groups_;
      for (const size_t op : ops) {
        finish(time, process_.ops[op]);
        if (ops.size() > 1) process_.ops[op].group = groups_;
      }
    }
  }

  // One of the trace's calls, or a kernel that stands for one.
  void add(const KinetoRecord& record) {
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
      if (!fresh) {
        op_of_call_[&record] = known->second;
        return merge(op, process_.ops[known->second]);
      }
      comm.collectives = op.seq + 1;
    }
    set_times(record, op);
    op_of_call_[&record] = process_.ops.size();
    op.ticket = process_.ops.size() + 1;
    process_.ops.push_back(op);
  }

 private:
  static void merge(const Op& op, Op& whole) {
    if (op.count == kCountUnknown || whole.count == kCountUnknown) return;
    whole.count += op.count;
  }

  void set_times(const KinetoRecord& record, Op& op) {
    op.state = OpState::returned;
    op.result = kResultSuccess;
    op.called_ns = trace_.at_ns(record.ts_us);
    op.returned_ns = trace_.at_ns(record.ts_us + record.duration_us);
    if (record.is_kernel) {
      op.started_ns = op.called_ns;
      op.finished_ns = op.returned_ns;
      op.state = OpState::finished;
      op.stream = static_cast<uint64_t>(record.stream);
      return;
    }
    const auto kernel = kernels_.find(record.external);
    if (record.external < 0 || kernel == kernels_.end()) return;
    finish(kernel->second, op);
  }

  void extend(KernelTime& time, const KinetoRecord& kernel) const {
    const int64_t started_ns = trace_.at_ns(kernel.ts_us);
    const int64_t finished_ns = trace_.at_ns(kernel.ts_us + kernel.duration_us);
    const bool is_first = time.finished_ns == 0;
    time.started_ns = is_first ? started_ns : std::min(time.started_ns, started_ns);
    time.finished_ns = std::max(time.finished_ns, finished_ns);
    time.stream = kernel.stream;
  }

  static void finish(const KernelTime& time, Op& op) {
    op.started_ns = time.started_ns;
    op.finished_ns = time.finished_ns;
    op.stream = static_cast<uint64_t>(time.stream);
    op.state = OpState::finished;
  }

  uint32_t comm_of(const KinetoRecord& record) {
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
  const KinetoTrace& trace_;
  std::map<int64_t, KernelTime> kernels_;  // by External id
  std::map<std::string, uint32_t> comms_;
  std::map<int64_t, uint32_t> threads_;
  std::map<std::tuple<uint32_t, int32_t, bool>, uint64_t> p2p_;
  std::map<std::pair<uint32_t, uint64_t>, size_t> collectives_;
  std::unordered_map<const KinetoRecord*, size_t> op_of_call_;
  uint32_t groups_ = 0;
};

// Where distributedInfo does not tell it: by the rank in a group whose ranks are listed.
int32_t rank_from_groups(const std::vector<KinetoRecord>& calls) {
  for (const KinetoRecord& call : calls) {
    const std::optional<OpKind> kind = torch_kind_of(call.collective);
    if (!kind || is_p2p(*kind) || traits_of(*kind).rooted || call.rank < 0) continue;
    const std::vector<int32_t> ranks = numbers_in(call.ranks);
    if (static_cast<size_t>(call.rank) < ranks.size()) {
      return ranks[static_cast<size_t>(call.rank)];
    }
  }
  return -1;
}

// At the end of each operation. Of a trace that was cut, kernels of any time may be missing.
void add_busy_times(KinetoTrace& trace, Process& process) {
  if (!trace.trouble.empty()) {
    process.busy_why_not = "the trace was not read to its end";
    return;
  }
  process.busy_why_not = trace.busy.why_not();
  std::vector<BusyKernels::End> ends;
  for (const Op& op : process.ops) {
    if (op.finished_ns != 0) ends.push_back({op.ticket, op.finished_ns - trace.base_ns});
  }
  process.busy = trace.busy.at(ends);
}

// Calls that are there and cannot be read: no absence is told from such a trace, and where calls
// have no numbers, those behind have no place.
void take_out_unplaced(const std::string& path, KinetoTrace& trace, std::vector<Issue>& issues) {
  if (trace.torn == 0) return;
  const bool has_numbers = std::all_of(trace.calls.begin(), trace.calls.end(),
                                       [](const KinetoRecord& call) { return call.seq >= 0; });
  if (!has_numbers) {
    std::erase_if(trace.calls,
                  [&](const KinetoRecord& call) { return call.ts_us > trace.whole_us; });
  }
  issues.push_back({path,
                    fmt::format("{} of its calls {} torn and {} not read{}", trace.torn,
                                trace.torn == 1 ? "is" : "are", trace.torn == 1 ? "was" : "were",
                                has_numbers ? "" : ", and neither was what comes behind"),
                    0, false});
}

}  // namespace

void import_kineto(const std::string& path, ByteStream& stream, std::vector<Process>& processes,
                   std::vector<Issue>& issues) {
  KinetoTrace trace = read_kineto(stream);
  const std::string& trouble = trace.trouble;
  if (!trouble.empty()) {
    issues.push_back({path,
                      fmt::format("is a trace of the PyTorch profiler that {}; what comes before "
                                  "was read",
                                  trouble),
                      0, false});
  }
  const bool has_calls = !trace.calls.empty();
  take_out_unplaced(path, trace, issues);
  std::vector<KinetoRecord>& records = has_calls ? trace.calls : trace.kernels;
  std::erase_if(records, [](const KinetoRecord& record) { return record.collective.empty(); });
  if (records.empty()) {
    issues.push_back({path,
                      "is a trace of the PyTorch profiler without collectives: none was called in "
                      "its window, or it was made without ProfilerActivity.CPU, or before PyTorch "
                      "2.3",
                      0, true});
    return;
  }
  Process process;
  process.file = path;
  process.recorder = "kineto";
  process.job_rank = trace.rank >= 0 ? trace.rank : rank_from_groups(records);
  if (has_calls) process.pid = static_cast<uint32_t>(records.front().pid);
  process.host = trace.host.empty() ? host_from_name(path, process.pid) : trace.host;
  if (!trace.nccl_version.empty() && trace.nccl_version != "unknown") {
    process.meta["nccl_version"] = trace.nccl_version;
  }
  process.knowledge.groups = false;
  process.knowledge.returns = false;
  process.knowledge.reductions = false;
  process.knowledge.head = false;
  process.knowledge.kernel_times = true;
  process.knowledge.tail = trouble.empty() && trace.torn == 0;
  ProcessWriter writer(process, trace);
  writer.add_kernel_times();
  for (const KinetoRecord& record : records) writer.add(record);
  if (has_calls) writer.add_batches(batches_of(trace));
  add_busy_times(trace, process);
  process.next_ticket = process.ops.size() + 1;
  issues.push_back({path,
                    "is a trace of the PyTorch profiler: it has the calls of its window and not "
                    "their reductions; ranks can be compared where all recorded the same steps",
                    0, false});
  processes.push_back(std::move(process));
}

}  // namespace rollcall::trace
