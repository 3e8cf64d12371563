// Bandwidths against figures worked out by hand, and the table of operations on small runs.
#include "statistics/operation_table.h"

#include "tests/catch.h"

namespace rollcall::statistics {
namespace operation_table_test {

constexpr uint8_t kFloat32 = 7;

trace::Op op_of(OpKind kind, uint64_t count) {
  trace::Op op;
  op.kind = kind;
  op.count = count;
  op.datatype = kFloat32;
  op.called_ns = 1'000;
  op.state = trace::OpState::returned;
  return op;
}

TEST_CASE("bandwidths are those of nccl-tests") {
  struct Row {
    OpKind kind;
    double algorithm_gbps;
    double bus_gbps;
  };
  // 1,000,000 float32 on 4 ranks in 1 ms.
  const Row rows[] = {
      {OpKind::AllReduce, 4, 6},  {OpKind::ReduceScatter, 16, 12}, {OpKind::AllGather, 16, 12},
      {OpKind::AlltoAll, 16, 12}, {OpKind::Gather, 16, 12},        {OpKind::Scatter, 16, 12},
      {OpKind::Broadcast, 4, 4},  {OpKind::Reduce, 4, 4},          {OpKind::Send, 4, 4},
      {OpKind::Recv, 4, 4},
  };
  for (const Row& row : rows) {
    INFO(name_of(row.kind));
    const auto speed = bandwidth_of(op_of(row.kind, 1'000'000), 4, 1'000'000);
    REQUIRE(speed);
    CHECK(std::abs(speed->algorithm_gbps - row.algorithm_gbps) < 1e-9);
    CHECK(std::abs(speed->bus_gbps - row.bus_gbps) < 1e-9);
  }
}

TEST_CASE("without a size, a time or the number of ranks there is no bandwidth") {
  const trace::Op op = op_of(OpKind::AllReduce, 1'000);
  CHECK_FALSE(bandwidth_of(op, 4, 0));
  CHECK_FALSE(bandwidth_of(op, -1, 1'000));
  CHECK_FALSE(bandwidth_of(op_of(OpKind::AllReduce, 0), 4, 1'000));
  CHECK_FALSE(bandwidth_of(op_of(OpKind::AllReduce, trace::kCountUnknown), 4, 1'000));
  trace::Op untyped = op;
  untyped.datatype = kUnknown8;
  CHECK_FALSE(bandwidth_of(untyped, 4, 1'000));
  // One rank moves nothing over a bus.
  CHECK(bandwidth_of(op, 1, 1'000)->bus_gbps == 0);
}

// Two ranks of one communicator.
trace::Run two_ranks() {
  trace::Run run;
  for (int rank = 0; rank < 2; ++rank) {
    trace::Process process;
    process.pid = static_cast<uint32_t>(100 + rank);
    process.job_rank = rank;
    trace::Comm comm;
    comm.key = {1, 2};
    comm.origin = CommOrigin::init;
    comm.state = CommState::ready;
    comm.nranks = 2;
    comm.rank = rank;
    process.comms.push_back(comm);
    run.processes.push_back(process);
  }
  return run;
}

void add(trace::Run& run, int rank, trace::Op op, uint64_t seq, int64_t time_ns) {
  trace::Process& process = run.processes[static_cast<size_t>(rank)];
  op.seq = seq;
  op.ticket = process.ops.size() + 1;
  op.called_ns += static_cast<int64_t>(op.ticket) * 1'000'000;
  if (time_ns > 0) {
    op.started_ns = op.called_ns + 100;
    op.finished_ns = op.started_ns + time_ns;
    op.state = trace::OpState::finished;
  }
  process.next_ticket = op.ticket + 1;
  process.ops.push_back(op);
}

// The stream has come to it 100 ns behind the call, NCCL came back after 20 us.
trace::Op on_idle_stream() {
  trace::Op op = op_of(OpKind::AllReduce, 2);
  op.called_ns = 1'000;
  op.started_ns = 1'100;
  op.returned_ns = 21'000;
  op.finished_ns = 31'100;
  op.state = trace::OpState::finished;
  return op;
}

OperationRow only_row(const std::vector<trace::Op>& ops) {
  trace::Run run = two_ranks();
  run.processes[0].ops = ops;
  std::vector<OperationRow> rows = operation_table(run);
  REQUIRE(rows.size() == 1);
  return rows[0];
}

TEST_CASE("a time that holds the host's launch is counted, one that does not is not") {
  const OperationRow held = only_row({on_idle_stream()});
  CHECK(held.with_launch == 1);
  CHECK(held.median_ns == 30'000);

  trace::Op busy = on_idle_stream();  // the stream came to it when NCCL was back
  busy.started_ns = 21'000;
  CHECK(only_row({busy}).with_launch == 0);
}

TEST_CASE("a time begins with the launch where that is known") {
  trace::Op told = on_idle_stream();
  told.launched_ns = 16'100;
  const OperationRow row = only_row({told});
  CHECK(row.median_ns == 15'000);
  CHECK(row.with_launch == 0);

  told.started_ns = 18'100;  // behind other work
  CHECK(only_row({told}).median_ns == 13'000);

  // Only known to have been launched by then.
  trace::Op in_progress = on_idle_stream();
  in_progress.launched_ns = 29'000;
  in_progress.result = kResultInProgress;
  CHECK(only_row({in_progress}).median_ns == 30'000);
}

TEST_CASE("what a group launches is launched until its end returns") {
  trace::Op grouped = on_idle_stream();
  grouped.group = 5;
  grouped.returned_ns = 1'050;
  trace::Op end = op_of(OpKind::GroupEnd, 1);
  end.group = 5;
  end.returned_ns = 21'000;
  CHECK(only_row({grouped, end}).with_launch == 1);
  end.returned_ns = 1'100;
  CHECK(only_row({grouped, end}).with_launch == 0);
}

TEST_CASE("times are per rank, speed is that of the fastest rank") {
  trace::Run run = two_ranks();
  for (uint64_t seq = 0; seq < 100; ++seq) {
    const auto step = static_cast<int64_t>(seq) + 1;
    add(run, 0, op_of(OpKind::AllReduce, 250'000), seq, 1'000'000);         // the last to come
    add(run, 1, op_of(OpKind::AllReduce, 250'000), seq, 1'000'000 + step);  // waits for it
  }
  add(run, 0, op_of(OpKind::AllReduce, 2), 100, 0);
  add(run, 1, op_of(OpKind::AllReduce, 2), 100, 0);
  const std::vector<OperationRow> rows = operation_table(run);
  REQUIRE(rows.size() == 2);
  const OperationRow& small = rows[0];
  CHECK(small.bytes_to == 8);
  CHECK(small.calls == 2);
  CHECK(small.timed == 0);
  CHECK_FALSE(small.median_ns);
  CHECK_FALSE(small.median_bandwidth);
  const OperationRow& large = rows[1];
  CHECK(large.kind == OpKind::AllReduce);
  CHECK(large.nranks == 2);
  CHECK(large.bytes_from == 1'000'000);
  CHECK(large.calls == 200);
  CHECK(large.timed == 200);
  CHECK(large.median_ns == 1'000'000);
  CHECK(large.p99_ns == 1'000'098);  // the 198th of 200
  REQUIRE(large.median_bandwidth);
  CHECK(std::abs(large.median_bandwidth->algorithm_gbps - 1.0) < 1e-9);
  CHECK(std::abs(large.median_bandwidth->bus_gbps - 1.0) < 1e-9);
}

TEST_CASE("operations that share a group have times and no bandwidth") {
  trace::Run run = two_ranks();
  for (int rank = 0; rank < 2; ++rank) {
    trace::Op op = op_of(OpKind::AllReduce, 1'000);
    op.group = 5;
    add(run, rank, op, 0, 1'000);
    add(run, rank, op, 1, 1'000);
    trace::Op alone = op_of(OpKind::Reduce, 1'000);
    alone.group = 6;
    add(run, rank, alone, 2, 1'000);
  }
  const std::vector<OperationRow> rows = operation_table(run);
  REQUIRE(rows.size() == 2);
  for (const OperationRow& row : rows) {
    CHECK(row.median_ns == 1'000);
    CHECK(row.median_bandwidth.has_value() == (row.kind == OpKind::Reduce));
  }
}

// One thread that calls for two GPUs puts each collective of both into a group.
TEST_CASE("calls for several GPUs of a process in one group have bandwidths of their own") {
  trace::Run run = two_ranks();
  trace::Process& process = run.processes[0];
  process.comms.push_back(run.processes[1].comms[0]);
  run.processes.pop_back();
  for (size_t gpu = 0; gpu < 2; ++gpu) process.comms[gpu].device = static_cast<int32_t>(gpu);
  const auto add_call = [&](uint32_t gpu, OpKind kind, uint32_t group, uint64_t seq) {
    trace::Op op = op_of(kind, 1'000'000);
    op.comm = gpu;
    op.group = group;
    add(run, 0, op, seq, 1'000'000 + gpu);
  };
  for (uint32_t gpu = 0; gpu < 2; ++gpu) {
    add_call(gpu, OpKind::AllReduce, 1, 0);
    add_call(gpu, OpKind::Reduce, 2, 1);
    add_call(gpu, OpKind::Reduce, 2, 2);
  }
  const std::vector<OperationRow> rows = operation_table(run);
  REQUIRE(rows.size() == 2);
  for (const OperationRow& row : rows) {
    const bool is_alone = row.kind == OpKind::AllReduce;
    CHECK(row.nranks == 2);
    CHECK(row.calls == (is_alone ? 2 : 4));
    CHECK(row.p99_ns == 1'000'001);
    REQUIRE(row.median_bandwidth.has_value() == is_alone);
    if (is_alone) CHECK(std::abs(row.median_bandwidth->algorithm_gbps - 4.0) < 1e-9);
  }
}

TEST_CASE("a run without operations has an empty table") {
  CHECK(operation_table(two_ranks()).empty());
  CHECK(operation_table(trace::Run{}).empty());
}

}  // namespace operation_table_test
}  // namespace rollcall::statistics
