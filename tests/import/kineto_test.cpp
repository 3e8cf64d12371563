// Traces of the PyTorch profiler.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "tests/catch.h"
#include "trace/import/importer.h"
#include "trace/import/kineto_records.h"

using namespace rollcall;
using namespace rollcall::trace;

namespace {

std::map<int32_t, Process> import_sample(const std::string& name) {
  std::vector<Process> processes;
  std::vector<Issue> issues;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ROLLCALL_SAMPLES) + "/kineto/" + name)) {
    CHECK(import_file(entry.path(), processes, issues).is_known);
  }
  std::map<int32_t, Process> by_rank;
  for (Process& process : processes) by_rank[process.job_rank] = std::move(process);
  return by_rank;
}

struct Result {
  std::vector<Process> processes;
  std::vector<Issue> issues;
};

Result import_text(const std::string& text) {
  Result result;
  import_bytes("node7_12.1.pt.trace.json",
               {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, result.processes,
               result.issues);
  return result;
}

constexpr const char* kCall =
    R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 12, "tid": 12, "ts": 5.5,
    "dur": 2, "args": {"External id": 7, "Collective name": "allreduce", "dtype": "Float",
    "In msg nelems": 16, "Out msg nelems": 16, "Group size": 2, "Process Group Name": "0",
    "Process Group Ranks": "[4, 5]", "Rank": 1, "Seq": 9, "Comms Id": 18446744073709551615}})";

std::string trace_of(const std::string& events) {
  return R"({"schemaVersion": 1, "baseTimeNanoseconds": 1000000, "traceEvents": [)" + events + "]}";
}

}  // namespace

TEST_CASE("a profiler's trace gives each rank its calls, with the times of their kernels") {
  const auto ranks = import_sample("clean");
  REQUIRE(ranks.size() == 4);
  const Process& process = ranks.at(0);
  CHECK(process.host == "node0");
  CHECK(process.pid == 4000);
  REQUIRE(process.comms.size() == 1);
  CHECK(process.comms[0].key == ranks.at(3).comms[0].key);
  CHECK(process.comms[0].nranks == 4);
  REQUIRE(process.ops.size() == 12);
  const Op& first = process.ops[0];
  CHECK(first.kind == OpKind::AllReduce);
  CHECK(first.count == 16384);
  CHECK(first.datatype == 7);
  CHECK(first.seq == 1);
  CHECK(first.called_ns == 1749999999000000000 + 53020000);
  CHECK(first.state == OpState::finished);
  CHECK(first.started_ns == first.called_ns + 70000);
  CHECK(first.finished_ns - first.started_ns == 100000);
  CHECK(process.knowledge.kernel_times);
  CHECK(process.ops[7].kind == OpKind::AllGather);
  CHECK(process.ops[7].count == 2048);
  CHECK(process.ops[8].kind == OpKind::ReduceScatter);
  CHECK(process.ops[8].count == 2048);
  CHECK(process.ops[9].count == kCountUnknown);  // sizes of an all-to-all may differ by rank
  CHECK(process.ops[10].kind == OpKind::Send);
  CHECK(process.ops[10].root_or_peer == 1);
}

// Parts of a trace of one thread, 12.
std::string call_at(int us, const std::string& name, int external, const std::string& more = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 12, "tid": 12, "ts": {},
      "dur": 2, "args": {{"External id": {}, "Collective name": "{}", "dtype": "Float",
      "In msg nelems": 16, "Out msg nelems": 16, "Group size": 2, "Process Group Name": "0",
      "Process Group Ranks": "[4, 5]", "Rank": 1{}}}}},)",
      us, external, name, more);
}
std::string launch_at(int us, int correlation, int tid = 12) {
  return fmt::format(
      R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 12, "tid": {},
      "ts": {}, "dur": 1, "args": {{"External id": 9000, "correlation": {}}}}},)",
      tid, us, correlation);
}
std::string kernel_at(int us, int external, int correlation) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "pid": 0, "tid": 20,
      "ts": {}, "dur": 10, "args": {{"External id": {}, "correlation": {}, "stream": 20}}}},)",
      us, external, correlation);
}
std::string other_event() { return R"({"ph": "i", "name": "end", "ts": 9999})"; }

TEST_CASE("calls that are issued together have the times of the kernel launched behind them") {
  const Result result =
      import_text(trace_of(call_at(5, "allreduce", 1, R"(, "Seq": 9)") + launch_at(6, 101) +
                           kernel_at(20, 1, 101) + call_at(30, "send", 2) + call_at(33, "recv", 3) +
                           launch_at(36, 102) + launch_at(37, 103) + kernel_at(50, 9000, 102) +
                           kernel_at(70, 9000, 103) + call_at(90, "send", 4) + other_event()));
  REQUIRE(result.processes.size() == 1);
  const std::vector<Op>& ops = result.processes[0].ops;
  REQUIRE(ops.size() == 4);
  CHECK(ops[0].group == 0);
  CHECK(ops[0].finished_ns - ops[0].started_ns == 10'000);
  CHECK(ops[1].group != 0);
  CHECK(ops[2].group == ops[1].group);
  for (const size_t number : {1, 2}) {  // from the first of its kernels to the end of the last
    CHECK(ops[number].started_ns - ops[0].started_ns == 30'000);
    CHECK(ops[number].finished_ns - ops[number].started_ns == 30'000);
    CHECK(ops[number].stream == 20);
    CHECK(ops[number].state == OpState::finished);
  }
  CHECK(ops[3].group == 0);
  CHECK(ops[3].started_ns == 0);
}

TEST_CASE("a kernel of nobody is given to no call of another thread, nor to one with its own") {
  const Result result = import_text(
      trace_of(call_at(5, "send", 2) + launch_at(8, 102, 13) + kernel_at(50, 9000, 102) +
               call_at(60, "allreduce", 1, R"(, "Seq": 9)") + kernel_at(70, 1, 101) +
               launch_at(80, 104) + kernel_at(90, 9000, 104) + other_event()));
  REQUIRE(result.processes.size() == 1);
  const std::vector<Op>& ops = result.processes[0].ops;
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].started_ns == 0);
  CHECK(ops[0].state == OpState::returned);
  CHECK(ops[1].finished_ns - ops[1].started_ns == 10'000);
}

TEST_CASE("older traces without numbers count the calls") {
  const auto ranks = import_sample("old_without_seq");
  REQUIRE(ranks.size() == 4);
  CHECK(ranks.at(0).ops[0].seq == 0);
  CHECK(ranks.at(2).comms[0].collectives == 11);
}

TEST_CASE("the rank is told by the group where the trace does not name it") {
  const Result result = import_text(trace_of(kCall));
  REQUIRE(result.processes.size() == 1);
  CHECK(result.processes[0].job_rank == 5);
  CHECK(result.processes[0].comms[0].rank == 1);
  CHECK(result.processes[0].ops[0].called_ns == 1005500);
  CHECK(result.processes[0].ops[0].state == OpState::returned);
}

TEST_CASE("a trace that was cut keeps the calls in front of the cut, and says so") {
  const std::string whole = trace_of(fmt::format("{},\n{}", kCall, kCall));
  const Result result = import_text(whole.substr(0, whole.size() - 40));
  REQUIRE(result.processes.size() == 1);
  CHECK(result.processes[0].ops.size() == 1);
  CHECK_FALSE(result.processes[0].knowledge.tail);
  REQUIRE(result.issues.size() == 2);
  CHECK(result.issues[0].text.find("ends in the middle, after ") != std::string::npos);
}

TEST_CASE("a number that JSON does not have is named with its place") {
  const Result result = import_text(trace_of(fmt::format("{},\n{{\"ts\": NaN}}", kCall)));
  REQUIRE(result.processes.size() == 1);
  CHECK(result.issues[0].text.find("is no JSON at byte ") != std::string::npos);
}

TEST_CASE("a trace without collectives says what it would need") {
  const Result result =
      import_text(trace_of(R"({"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1})"));
  CHECK(result.processes.empty());
  REQUIRE(result.issues.size() == 1);
  CHECK(result.issues[0].unusable);
  CHECK(result.issues[0].text.find("ProfilerActivity.CPU") != std::string::npos);
}

TEST_CASE("a trace of the GPU alone takes the kernels for the calls") {
  const Result result = import_text(trace_of(
      R"({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 5, "dur": 2,
      "args": {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 16,
      "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}})"));
  REQUIRE(result.processes.size() == 1);
  REQUIRE(result.processes[0].ops.size() == 1);
  CHECK(result.processes[0].ops[0].finished_ns == 1007000);
}

TEST_CASE("a document nested deeper than any trace is not followed") {
  const Result result =
      import_text(R"({"schemaVersion": 1, "traceEvents": )" + std::string(100000, '['));
  CHECK(result.processes.empty());
  CHECK(result.issues[0].text.find("nested deeper than 64 levels") != std::string::npos);
}

TEST_CASE("a trace with more collectives than are held is said to be cut") {
  std::string text = "{\"baseTimeNanoseconds\": 9223372036854775807, \"traceEvents\": [";
  for (int call = 0; call < 3; ++call) {
    text += call == 0 ? "" : ", ";
    text += fmt::format(
        "{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"record_param_comms\", \"ts\": 39{}e14, "
        "\"dur\": 1, \"args\": {{\"Collective name\": \"allreduce\"}}}}",
        call);
  }
  text += "]}";
  const auto read_of = [&](size_t records_max) {
    MemoryStream stream({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    return read_kineto(stream, records_max);
  };
  CHECK(read_of(3).trouble.empty());
  CHECK(read_of(3).calls.size() == 3);
  const KinetoTrace cut = read_of(2);
  CHECK(cut.calls.size() == 2);
  CHECK(cut.trouble == "holds more than 2 collectives");
  // As late as it claims to be, and no later.
  CHECK(cut.at_ns(cut.calls[1].ts_us) >= 0);
}

TEST_CASE("a trace with a call that is torn holds no more than what can be placed") {
  const std::string call = kCall;
  std::string torn = call;
  torn.replace(torn.find("\"ts\": 5.5,"), 10, "");
  std::string numberless = call;
  numberless.replace(numberless.find("\"Seq\": 9, "), 10, "");
  std::string later = numberless;
  later.replace(later.find("5.5"), 3, "7.5");
  // With numbers the others keep their places, and nothing is told from what is not there.
  const Result numbered = import_text(trace_of(torn + "," + call));
  REQUIRE(numbered.processes.size() == 1);
  CHECK(numbered.processes[0].ops.size() == 1);
  CHECK_FALSE(numbered.processes[0].knowledge.tail);
  CHECK(numbered.issues.front().text.find("1 of its calls is torn") == 0);
  // Without, what is behind has none.
  const Result counted = import_text(trace_of(numberless + "," + torn + "," + later));
  REQUIRE(counted.processes.size() == 1);
  CHECK(counted.processes[0].ops.size() == 1);
  CHECK(counted.processes[0].ops[0].called_ns == 1'000'000 + 5'500);
  CHECK(import_text(trace_of(numberless + "," + later)).processes.at(0).ops.size() == 2);
}

// A kernel of `name` on a GPU.
std::string busy_at(int us, int duration_us, const std::string& name, int device = 0) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": {}, "tid": 7, "ts": {}, "dur": {},
      "args": {{"device": {}, "stream": 7}}}},)",
      name, device, us, duration_us, device);
}
std::string reduce_at(int us, int duration_us, int external) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0,
      "tid": 20, "ts": {}, "dur": {}, "args": {{"External id": {}, "device": 0, "stream": 20}}}},)",
      us, duration_us, external);
}
std::string two_calls() {
  return call_at(5, "allreduce", 1, R"(, "Seq": 9)") + call_at(8, "allreduce", 2, R"(, "Seq": 10)");
}

TEST_CASE(
    "all kernels of a trace tell for how long its GPU computed and communicated by each end") {
  // Compute 10-30, 25-40 and 60-90, communication 20-50 and 85-100; the file has them in no order.
  const Result result = import_text(
      trace_of(busy_at(60, 30, "gemm") + two_calls() + reduce_at(85, 15, 2) +
               busy_at(25, 15, "softmax") + reduce_at(20, 30, 1) + busy_at(10, 20, "gemm") +
               R"({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "ts": 52, "dur": 5},)" +
               other_event()));
  REQUIRE(result.processes.size() == 1);
  const Process& process = result.processes[0];
  CHECK(process.busy_why_not.empty());
  REQUIRE(process.busy.size() == 2);
  CHECK(process.busy[0].ticket == process.ops[0].ticket);
  CHECK(process.busy[0].compute_ns == 30'000);
  CHECK(process.busy[0].communication_ns == 30'000);
  CHECK(process.busy[0].either_ns == 40'000);
  CHECK(process.busy[1].compute_ns == 60'000);
  CHECK(process.busy[1].communication_ns == 45'000);
  CHECK(process.busy[1].either_ns == 80'000);
}

TEST_CASE("where a kernel of the trace is missing or damaged, of no operation it is told") {
  const std::string whole = two_calls() + reduce_at(20, 30, 1) + busy_at(10, 20, "gemm");
  const auto of = [](const std::string& text) {
    const Result result = import_text(text);
    REQUIRE(result.processes.size() == 1);
    CHECK(result.processes[0].busy.empty() == !result.processes[0].busy_why_not.empty());
    return result.processes[0].busy_why_not;
  };
  CHECK(of(trace_of(whole + other_event())).empty());
  CHECK(of(trace_of(two_calls() + reduce_at(20, 30, 1) + other_event())) ==
        "there are no kernels but NCCL's");
  CHECK(of(trace_of(whole + busy_at(30, 5, "gemm", 1) + other_event())) ==
        "the kernels are of several GPUs");
  CHECK(of(trace_of(whole + R"({"ph": "X", "cat": "kernel", "name": "gemm", "ts": 40},)" +
                    other_event())) == "a kernel is damaged or has no name");
  const std::string cut = trace_of(whole + other_event());
  CHECK(of(cut.substr(0, cut.size() - 20)) == "the trace was not read to its end");
}
