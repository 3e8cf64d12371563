#include "tests/report/world.h"

#include <string>

namespace rollcall::test {
namespace {

constexpr int kRanks = 4;
constexpr int kAbsent = 2;

trace::Op all_reduce(int rank, uint64_t seq, bool returned) {
  trace::Op op;
  op.kind = OpKind::AllReduce;
  op.seq = seq;
  op.ticket = seq + 1;
  op.count = 1024;
  op.datatype = 7;
  op.reduction = 0;
  op.stream = 0x7f00;
  op.called_ns = kStartNs + static_cast<int64_t>(seq) * 1'000'000 + rank * 10'000;
  op.returned_ns = returned ? op.called_ns + 5'000 : 0;
  op.result = returned ? kResultSuccess : kResultUnknown;
  op.state = returned ? trace::OpState::returned : trace::OpState::called;
  return op;
}

trace::Process process_of(int rank) {
  trace::Process process;
  process.file = "run/node0." + std::to_string(100 + rank) + ".a.ring";
  process.host = "node0";
  process.pid = static_cast<uint32_t>(100 + rank);
  process.job_rank = rank;
  process.meta = {{"nccl_version", "22907"},
                  {"cuda_runtime_version", "12040"},
                  {"rollcall_version", "0.1.0"},
                  {"coverage", "plt,dlsym"}};
  trace::Comm comm;
  comm.key = kWorldKey;
  comm.origin = CommOrigin::init;
  comm.state = CommState::ready;
  comm.nranks = kRanks;
  comm.rank = rank;
  comm.created_ns = kStartNs - 1'000'000;
  comm.collectives = rank == kAbsent ? 2 : 3;
  process.comms.push_back(comm);
  process.threads.push_back({static_cast<uint32_t>(100 + rank), "main"});
  process.started_ns = kStartNs - 5'000'000;
  process.liveness = trace::Liveness::running;
  process.statistics = {{"dropped_off", 0}, {"history_lost", 0}};
  for (uint64_t seq = 0; seq < comm.collectives; ++seq) {
    process.ops.push_back(all_reduce(rank, seq, seq < 2));
  }
  process.next_ticket = comm.collectives + 1;
  return process;
}

analysis::RankRow row_of(int rank) {
  analysis::RankRow row;
  row.rank = rank;
  row.process = static_cast<uint32_t>(rank);
  row.comm_name = "world";
  row.last_common = "seq 1 AllReduce 1024 float32 sum";
  row.here = rank == kAbsent ? "-" : "seq 2 AllReduce 1024 float32 sum";
  row.state = rank == kAbsent ? "never called" : "waits inside";
  row.since = rank == kAbsent ? "" : "for 42.0 s";
  return row;
}

}  // namespace

trace::Run missing_call_run() {
  trace::Run run;
  run.directory = "run";
  run.live = true;
  run.read_at_ns = kStartNs + 42'000'000'000;
  for (int rank = 0; rank < kRanks; ++rank) run.processes.push_back(process_of(rank));
  return run;
}

analysis::Report missing_call_report() {
  analysis::Finding finding;
  finding.verdict = analysis::Verdict::missing_call;
  finding.severity = analysis::Severity::hang;
  finding.confidence = analysis::Confidence::certain;
  finding.misstep = analysis::Misstep::left_out;
  finding.summary = "Rank 2 never called AllReduce seq 2 on world; 3 ranks wait in it.";
  finding.next = "see what rank 2 does now: py-spy dump --pid 102 on node0";
  analysis::Culprit culprit;
  culprit.rank = kAbsent;
  culprit.process = kAbsent;
  culprit.host = "node0";
  culprit.pid = 102;
  culprit.comm = kWorldKey;
  culprit.comm_name = "world";
  culprit.comm_rank = kAbsent;
  culprit.seq = 2;
  culprit.op = "AllReduce";
  finding.culprits.push_back(culprit);
  finding.victims = {0, 1, 3};
  finding.evidence.push_back({"run/node0.102.a.ring", "op 2", "its last call is seq 1, returned"});

  analysis::Report report;
  report.status = 1;
  report.findings.push_back(finding);
  analysis::CommSummary comm;
  comm.key = kWorldKey;
  comm.name = "world";
  comm.nranks = kRanks;
  comm.ranks = {0, 1, 2, 3};
  comm.last_common_seq = 1;
  comm.first_difference_seq = 2;
  report.comms.push_back(comm);
  for (int rank = 0; rank < kRanks; ++rank) report.table.push_back(row_of(rank));
  return report;
}

trace::Run several_gpus_run() {
  const trace::Run ranks = missing_call_run();
  trace::Run run = ranks;
  run.processes = {ranks.processes[0], ranks.processes[2]};
  for (uint32_t at = 0; at < 2; ++at) {
    trace::Process& process = run.processes[at];
    const trace::Process& second = ranks.processes[2 * at + 1];
    process.job_rank = static_cast<int32_t>(at);
    process.comms.push_back(second.comms[0]);
    process.threads.push_back(second.threads[0]);
    process.comms[0].device = 0;
    process.comms[1].device = 1;
    for (trace::Op op : second.ops) {
      op.comm = 1;
      op.thread = 1;
      op.ticket = process.next_ticket++;
      process.ops.push_back(op);
    }
  }
  return run;
}

}  // namespace rollcall::test
