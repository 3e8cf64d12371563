// Exports of Nsight Systems.
#include <fstream>
#include <sstream>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "tests/import/nsys_file.h"
#include "trace/import/importer.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;
using analysis::Verdict;

namespace {

constexpr int kRanks = 3;
constexpr int64_t kBase = 1'750'000'000'000'000'000;

Run read(const std::vector<const NsysFile*>& files) {
  Run run;
  for (const NsysFile* file : files) {
    CHECK(import_file(file->path(), run.processes, run.issues).is_known);
  }
  return run;
}

Run read(const std::string& sql) {
  NsysFile file;
  file.run(sql);
  return read({&file});
}

// `lost`: of this rank's fourth call no range is on file.
NsysCapture healthy(int lost = -1, bool creates = true) {
  NsysCapture capture;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (creates) capture.create(rank, kRanks);
    for (int step = 0; step < 10; ++step) {
      if (rank == lost && step == 3) continue;
      capture.call(rank, 100 + 10 * step, static_cast<uint64_t>(1000 + step),
                   step % 4 == 0 ? 5 : 3);
    }
  }
  return capture;
}

std::string text_of(const std::vector<Issue>& issues) {
  std::string text;
  for (const Issue& issue : issues) text += issue.text + "\n";
  return text;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

}  // namespace

TEST_CASE("an export of Nsight Systems gives each of its processes its calls with their times") {
  NsysCapture capture = healthy();
  capture.launch(1, 132, 500, 700);
  const Run run = read(capture.sql());
  REQUIRE(run.processes.size() == kRanks);
  const Process& process = run.processes[1];
  CHECK(process.job_rank == 1);
  CHECK(process.pid == 6001);
  CHECK(process.recorder == "nsys");
  REQUIRE(process.comms.size() == 1);
  CHECK(process.comms[0].key == run.processes[2].comms[0].key);
  CHECK(process.comms[0].nranks == kRanks);
  REQUIRE(process.ops.size() == 10);
  const Op& op = process.ops[3];
  CHECK(op.kind == OpKind::AllReduce);
  CHECK(op.count == 1003);
  CHECK(op.datatype == kUnknown8);
  CHECK(op.reduction == 0);
  CHECK(op.seq == 3);
  CHECK(op.called_ns == kBase + 130);
  CHECK(op.returned_ns == kBase + 135);
  CHECK(op.started_ns == kBase + 500);
  CHECK(op.finished_ns == kBase + 700);
  CHECK(op.state == OpState::finished);
  CHECK(process.ops[4].state == OpState::returned);
  CHECK(analysis::analyse(run).findings.front().verdict == Verdict::in_lockstep);
}

TEST_CASE("calls of a group have the kernel that the end of the group launched") {
  NsysCapture capture;
  capture.create(0, 1);
  capture.event(100, 101, 0, 6, "NULL");
  capture.call(0, 110, 8, 8);
  capture.call(0, 120, 8, 8);
  capture.event(130, 140, 0, 7, "NULL");
  capture.launch(0, 135, 200, 300);
  const Run run = read(capture.sql());
  REQUIRE(run.processes.size() == 1);
  REQUIRE(run.processes[0].ops.size() == 2);
  for (const Op& op : run.processes[0].ops) {
    CHECK(op.kind == OpKind::Send);
    CHECK(op.group == 1);
    CHECK(op.finished_ns == kBase + 300);
  }
}

// The kernel table as newer exports have it, with a kernel of the AllReduce that rank 0 calls at
// 130, and others of process 0 that no call launched.
std::string with_names(const std::string& kernels) {
  NsysCapture capture = healthy();
  capture.launch(0, 132, 500, 700);
  return capture.sql() +
         "INSERT INTO StringIds VALUES (50, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), "
         "(51, 'gemm');"
         "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN deviceId INTEGER;"
         "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN shortName INTEGER;"
         "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 0, shortName = 50;" +
         kernels;
}

// `name`: of StringIds.
std::string kernel_of_rank_0(int64_t start, int64_t end, int name, int device = 0) {
  return fmt::format(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start, \"end\", correlationId, globalPid, streamId, "
      "deviceId, shortName) SELECT {}, {}, 900, globalPid, 7, {}, {} FROM "
      "CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1;",
      start, end, device, name);
}

TEST_CASE("all kernels of an export tell for how long a GPU computed and communicated") {
  // The AllReduce runs from 500 to 700.
  const Run run = read(with_names(kernel_of_rank_0(650, 900, 51) + kernel_of_rank_0(100, 300, 51) +
                                  kernel_of_rank_0(280, 320, 51)));
  REQUIRE(run.processes.size() == kRanks);
  const Process& process = run.processes[0];
  CHECK(process.busy_why_not.empty());
  REQUIRE(process.busy.size() == 1);
  CHECK(process.busy[0].ticket == process.ops[3].ticket);
  CHECK(process.busy[0].compute_ns == 220 + 50);
  CHECK(process.busy[0].communication_ns == 200);
  CHECK(process.busy[0].either_ns == 220 + 200);
  CHECK(run.processes[1].busy.empty());
  CHECK(run.processes[1].busy_why_not == "there are no kernels but NCCL's");
}

TEST_CASE("of an export in which kernels have no name, or are in graphs, no busy times are told") {
  const auto of = [](const std::string& sql) {
    const Run run = read(sql);
    REQUIRE(run.processes.size() == kRanks);
    CHECK(run.processes[0].busy.empty());
    return run.processes[0].busy_why_not;
  };
  const std::string compute = kernel_of_rank_0(100, 300, 51);
  CHECK(of(with_names("")) == "there are no kernels but NCCL's");
  CHECK(of(with_names(compute + kernel_of_rank_0(400, 410, 51, 1))) ==
        "the kernels are of several GPUs");
  CHECK(of(with_names(compute + "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET shortName = NULL;")) ==
        "2 kernels are damaged or have no name");
  CHECK(of(with_names(compute + "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER);"
                                "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (5);")) ==
        "graphs were traced as a whole: capture with --cuda-graph-trace=node");
  CHECK(of(with_names(compute + "WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n "
                                "WHERE i < 67000) INSERT INTO StringIds SELECT i, 'nccl' || i FROM "
                                "n;")) == "there are too many names that begin with nccl");
}

TEST_CASE("an export that comes packed or through a pipe is read as the file is") {
  NsysFile file;
  file.run(healthy().sql());
  const std::string bytes = bytes_of(file.path());
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_bytes("standard input", {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
               processes, issues);
  REQUIRE(processes.size() == kRanks);
  CHECK(processes[2].ops.size() == 10);
}

TEST_CASE("a size that differs is found in exports of Nsight Systems, and names its rank") {
  NsysCapture capture = healthy();
  capture.call(0, 300, 64);
  capture.call(1, 300, 60);
  capture.call(2, 300, 64);
  for (int step = 1; step < 6; ++step) {
    for (int rank = 0; rank < kRanks; ++rank) {
      capture.call(rank, 300 + 10 * step, static_cast<uint64_t>(64 + step));
    }
  }
  const analysis::Report report = analysis::analyse(read(capture.sql()));
  CHECK(report.findings.front().verdict == Verdict::count_mismatch);
  CHECK(report.findings.front().confidence == Confidence::certain);
  CHECK(report.findings.front().culprits.front().rank == 1);
}

TEST_CASE("a range that is not in an export accuses nobody for sure, whichever it is") {
  for (int row = 1; row <= kRanks * 11; ++row) {
    const Run run =
        read(healthy().sql() + fmt::format("DELETE FROM NVTX_EVENTS WHERE rowid = {};", row));
    const analysis::Report report = analysis::analyse(run);
    for (const analysis::Finding& finding : report.findings) {
      INFO("row " << row << ": " << finding.summary);
      CHECK_FALSE((is_defect(finding) && finding.confidence != Confidence::open));
    }
  }
}

TEST_CASE("where a capture began behind the communicators' creation, what differs is a guess") {
  const analysis::Report report = analysis::analyse(read(healthy(1, false).sql()));
  const analysis::Finding& lead = report.findings.front();
  CHECK(lead.verdict == Verdict::missing_call);
  CHECK(lead.confidence == Confidence::open);
  CHECK(lead.summary.find("tells of this communicator's creation") != std::string::npos);
}

TEST_CASE("ranges of NCCL before 2.26 do not tell their communicator, and are not compared") {
  NsysCapture capture(false);
  capture.create(0, 2);
  capture.call(0, 100, 8);
  const Run run = read(capture.sql());
  CHECK(run.processes.empty());
  CHECK(text_of(run.issues).find("the communicator of 1 of them is not told") != std::string::npos);
}

TEST_CASE("one process with several ranks of a communicator is not compared") {
  NsysCapture capture;
  capture.create(0, 2);
  capture.event(20, 25, 0, 4,
                "x'01000000000000000600000000000000180000000000000038000000000000"
                "00bc0a0000000000000200000001000000'");
  for (int step = 0; step < 4; ++step) capture.call(0, 100 + 10 * step, 8);
  const Run run = read(capture.sql());
  CHECK(run.processes.empty());
  CHECK(text_of(run.issues).find("drives several ranks") != std::string::npos);
}

TEST_CASE("a capture without NCCL, another database, and a view in a table's place are named") {
  CHECK(text_of(read("CREATE TABLE StringIds(id INTEGER, value TEXT);").issues)
            .find("without ranges of NCCL: capture with `nsys profile --trace=cuda,nvtx`") !=
        std::string::npos);
  CHECK(text_of(read("CREATE TABLE users(id INTEGER);").issues).find("no export of Nsight") !=
        std::string::npos);
  const Run run = read(
      "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 "
      "FROM n) SELECT start, 0 AS \"end\", 59 AS eventType, 'ncclAllReduce' AS text FROM n;");
  CHECK(run.processes.empty());
  CHECK(text_of(run.issues).find("no export of Nsight") != std::string::npos);
}

TEST_CASE("a table that computes its columns is not read, and one with comments is") {
  for (const char* column : {"start INTEGER AS (7)", "start INTEGER GENERATED ALWAYS AS(7)",
                             "start INTEGER as /* ( */ (7)"}) {
    const Run run = read(fmt::format("CREATE TABLE NVTX_EVENTS({}, text TEXT);", column));
    INFO(column);
    CHECK(text_of(run.issues).find("no export of Nsight") != std::string::npos);
  }
  const Run run =
      read("CREATE TABLE NVTX_EVENTS(\n  -- generated as (of) Nsight's\n \"as (\" INTEGER);");
  CHECK(text_of(run.issues).find("without ranges of NCCL") != std::string::npos);
}

TEST_CASE("an export with more processes than a capture has is refused in one sentence") {
  const Run run =
      read(NsysCapture().sql() +
           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
           "INSERT INTO NVTX_EVENTS SELECT i, i, 59, 'ncclAllReduce', i << 24, 0, 1, NULL FROM n;");
  CHECK(run.processes.empty());
  REQUIRE(run.issues.size() == 1);
  CHECK(run.issues[0].text.find("more than 4096 processes") != std::string::npos);
}

TEST_CASE("times and launches that no clock shows do no harm") {
  NsysCapture capture;
  capture.create(0, 2);
  // Ranges that all enclose all launches.
  for (int step = 0; step < 100; ++step) {
    capture.event(100 + step, INT64_MAX, 0, 3,
                  "x'01000000000000000500000000000000180000000000000038000000000000"
                  "00bc0a000000000000080000000000000000000000'");
    capture.launch(0, 200 + step, INT64_MAX - 1, INT64_MAX);
  }
  const Run run = read(capture.sql());
  REQUIRE(run.processes.size() == 1);
  CHECK(run.processes[0].ops.size() == 100);
  CHECK(text_of(run.issues).find("not all have the times of their kernels") != std::string::npos);
}

TEST_CASE("a path that begins with two slashes is that of its file") {
  NsysFile file;
  file.run(healthy().sql());
  Run run;
  import_file("/" + file.path(), run.processes, run.issues);
  CHECK(run.processes.size() == kRanks);
}

TEST_CASE("an export that was cut says so, and is not taken for one without calls") {
  NsysFile file;
  file.run(healthy().sql());
  const std::string bytes = bytes_of(file.path());
  std::ofstream(file.path(), std::ios::binary | std::ios::trunc)
      << bytes.substr(0, bytes.size() / 2);
  const Run run = read({&file});
  CHECK(text_of(run.issues).find("cannot be read to its end") != std::string::npos);
}
