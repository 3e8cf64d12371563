// Records of PyTorch's profiler and the calls that they made.
#include <fmt/format.h>

#include <span>

#include "comparison/kineto_join.h"
#include "tests/catch.h"

namespace test_kineto_join {

using namespace rollcall;
using comparison::JoinedCall;
using comparison::KinetoJoin;

constexpr int64_t kBaseNs = 1'790'857'026'000'000'000;  // of three months, as Kineto writes it
constexpr int64_t kStartNs = kBaseNs + 4'961'607'381'000'000;
constexpr uint32_t kThread = 25463;

// Of one process: an all-reduce of `counts` elements each, every millisecond, 30 us long.
trace::Process process_with(const std::vector<uint64_t>& counts) {
  trace::Process process;
  process.job_rank = 0;
  process.pid = kThread;
  process.threads = {{kThread, "main"}, {kThread + 1, "other"}};
  trace::Comm comm;
  comm.key = {1, 2};
  comm.nranks = 2;
  process.comms = {comm};
  for (size_t at = 0; at < counts.size(); ++at) {
    trace::Op op;
    op.ticket = at + 1;
    op.seq = at;
    op.count = counts[at];
    op.datatype = 7;
    op.called_ns = kStartNs + static_cast<int64_t>(at) * 1'000'000;
    op.returned_ns = op.called_ns + 30'000;
    process.ops.push_back(op);
  }
  return process;
}

double us_of(int64_t time_ns, int64_t base_ns) {
  return static_cast<double>(time_ns - base_ns) / 1000;
}

struct Shape {
  std::string_view collective;
  bool is_of_2_3 = false;  // absolute times; neither groups nor numbers
  int64_t seq = -1;
};

// A record around the time of a call: it begins 40 us before, and ends 20 us behind its return.
std::string record_of(const trace::Op& op, const Shape& shape, int64_t off_ns = 0) {
  const int64_t base_ns = shape.is_of_2_3 ? 0 : kBaseNs;
  std::string text = fmt::format(
      R"({{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": {}, "tid": {},
      "ts": {:.3f}, "dur": 90.000, "args": {{"External id": {}, "Collective name": "{}",
      "In msg nelems": {}, "Out msg nelems": {}, "Group size": 2, "dtype": "Float",
      "In split size": "[]", "Out split size": "[]", "Rank": 0)",
      kThread, kThread, us_of(op.called_ns - 40'000 + off_ns, base_ns), 100 + op.ticket,
      shape.collective, op.count, op.count);
  if (!shape.is_of_2_3) {
    text += R"(, "Process Group Name": "0", "Process Group Ranks": "[]")";
    text += R"(, "Is asynchronized op": true, "Comms Id": 2297668041578267485)";
  }
  if (shape.seq >= 0) text += fmt::format(R"(, "Seq": {})", shape.seq);
  return text + "}}";
}

trace::KinetoTrace kineto_of(const std::vector<std::string>& records, bool is_of_2_3 = false) {
  std::string text = R"({"schemaVersion": 1, )";
  if (!is_of_2_3) {
    text += fmt::format(R"("baseTimeNanoseconds": {}, "host_name": "node0", )", kBaseNs);
    text += R"("distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, )";
  }
  text += R"("traceEvents": [{"ph": "M", "name": "process_name"})";
  for (const std::string& record : records) text += "," + record;
  text += "]}";
  trace::MemoryStream stream({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return trace::read_kineto(stream);
}

// "1 2 3": the tickets of the calls that were joined, by record.
std::string tickets_of(const KinetoJoin& join) {
  std::string text;
  for (const JoinedCall& call : join.calls) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", call.ticket);
  }
  return text;
}

// Of all calls but the first, as a profiler sees them that was switched on late.
std::vector<std::string> records_of(const trace::Process& process, const Shape& shape,
                                    int64_t off_ns = 0) {
  std::vector<std::string> records;
  for (const trace::Op& op : std::span(process.ops).subspan(1)) {
    Shape of_call = shape;
    // PyTorch counts from 1 on, and counted one that NCCL never saw.
    if (!shape.is_of_2_3) of_call.seq = static_cast<int64_t>(op.seq) + 2;
    records.push_back(record_of(op, of_call, off_ns));
  }
  return records;
}

TEST_CASE("records of PyTorch 2.15 are joined by their numbers, which begin elsewhere than ours") {
  const trace::Process process = process_with({8, 16, 16, 32});
  const KinetoJoin join =
      comparison::join_kineto(kineto_of(records_of(process, {"all_reduce"})), process);
  CHECK(tickets_of(join) == "2 3 4");
  CHECK(join.records == 3);
  CHECK(join.left_out.empty());
  for (const JoinedCall& call : join.calls) CHECK(call.by_number);
  CHECK(join.offset_ns == 0);
  // The record begins 40 us before the call and ends 20 us behind it.
  CHECK(join.bound_ns == 40'000);
}

TEST_CASE("records of PyTorch 2.3 without groups and numbers are joined by order, size and time") {
  const trace::Process process = process_with({8, 16, 16, 32});
  const Shape shape{.collective = "allreduce", .is_of_2_3 = true};
  const KinetoJoin join =
      comparison::join_kineto(kineto_of(records_of(process, shape), true), process);
  CHECK(tickets_of(join) == "2 3 4");
  CHECK(join.left_out.empty());
  // Microseconds since 1970 have a quarter of one in a double.
  CHECK(join.bound_ns > 39'500);
  CHECK(join.bound_ns < 40'500);
}

TEST_CASE("of calls that are all alike the numbers are taken that move the clock least") {
  const trace::Process process = process_with(std::vector<uint64_t>(20, 16));
  const KinetoJoin join =
      comparison::join_kineto(kineto_of(records_of(process, {"all_reduce"}, 300'000)), process);
  REQUIRE(join.calls.size() == 19);
  CHECK(join.calls.front().ticket == 2);
  // Between what the ends of the records allow: 300 us less 40 and more 20.
  CHECK(join.offset_ns == -290'000);
  CHECK(join.bound_ns == 30'000);
}

TEST_CASE("a host's clock that was moved is moved for its records, too") {
  trace::Process process = process_with({8, 16, 32});
  const std::vector<std::string> records = records_of(process, {"all_reduce"});
  process.clock_moved_ns = 3'600'000'000'000;
  for (trace::Op& op : process.ops) {
    op.called_ns += process.clock_moved_ns;
    op.returned_ns += process.clock_moved_ns;
  }
  const KinetoJoin join = comparison::join_kineto(kineto_of(records), process);
  CHECK(tickets_of(join) == "2 3");
  CHECK(join.offset_ns == 0);
}

TEST_CASE("a record of several calls has those that its thread made within it") {
  trace::Process process = process_with({8, 16, 32});
  process.ops[1].kind = OpKind::Send;
  process.ops[1].root_or_peer = 1;
  process.ops[2].kind = OpKind::Recv;
  process.ops[2].root_or_peer = 1;
  process.ops[2].called_ns = process.ops[1].called_ns + 5'000;
  process.ops[2].returned_ns = process.ops[2].called_ns + 1'000;
  trace::Op other = process.ops[1];
  other.ticket = 9;
  other.thread = 1;
  process.ops.push_back(other);
  const KinetoJoin join = comparison::join_kineto(
      kineto_of({record_of(process.ops[1], {.collective = "batch_op_issue", .seq = 4})}), process);
  CHECK(tickets_of(join) == "2 3");
  for (const JoinedCall& call : join.calls) CHECK_FALSE(call.by_number);
  CHECK(join.records == 1);
}

TEST_CASE("transfers of batches, which have no record each, do not shift the others") {
  trace::Process process = process_with(std::vector<uint64_t>(8, 16));
  std::vector<std::string> records;
  for (trace::Op& op : process.ops) {
    op.kind = OpKind::Send;
    op.root_or_peer = 0;
    const bool is_alone = op.ticket % 2 == 1;
    records.push_back(record_of(op, {is_alone ? "send" : "batch_op_issue"}));
  }
  const KinetoJoin join = comparison::join_kineto(kineto_of(records), process);
  CHECK(tickets_of(join) == "1 2 3 4 5 6 7 8");
  CHECK(join.offset_ns == 0);
}

TEST_CASE("what has no call on file is said, and a wait is no call") {
  const trace::Process process = process_with({8, 16, 32});
  std::vector<std::string> records = records_of(process, {"all_reduce"});
  trace::Op older = process.ops[0];
  older.called_ns -= 5'000'000;
  records.push_back(record_of(older, {.collective = "all_reduce", .seq = 1}));
  trace::Op newer = process.ops[2];
  newer.called_ns += 5'000'000;
  records.push_back(record_of(newer, {.collective = "all_reduce", .seq = 9}));
  records.push_back(record_of(process.ops[2], {.collective = "wait", .seq = 4}));
  const KinetoJoin join = comparison::join_kineto(kineto_of(records), process);
  CHECK(tickets_of(join) == "2 3");
  CHECK(join.records == 4);
  CHECK(join.left_out == std::map<std::string, uint64_t>{{"newer than the calls on file", 1},
                                                         {"older than the calls on file", 1}});
}

TEST_CASE("a call of another size is not a record's, whatever its number is") {
  trace::Process process = process_with({8, 16, 16, 16});
  const std::vector<std::string> records = records_of(process, {"all_reduce"});
  process.ops[2].count = 99;
  const KinetoJoin join = comparison::join_kineto(kineto_of(records), process);
  CHECK(tickets_of(join) == "2 3 4");
  REQUIRE(join.calls.size() == 3);
  CHECK(join.calls[0].by_number);
  CHECK_FALSE(join.calls[1].by_number);  // its thread made that one within it
  CHECK(join.calls[2].by_number);
}

TEST_CASE("a trace of another process joins nothing, and says so of every record") {
  const trace::Process process = process_with({8, 16});
  const std::vector<std::string> records = records_of(process, {"all_reduce"});
  trace::Process other;
  const KinetoJoin join = comparison::join_kineto(kineto_of(records), other);
  CHECK(join.calls.empty());
  CHECK(join.bound_ns == -1);
  CHECK(join.left_out ==
        std::map<std::string, uint64_t>{{"of a process without calls on file", 1}});
}

}  // namespace test_kineto_join
