// Small jobs of the virtual cluster for tests that bend them by hand, and what is asked of a
// report.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "tests/sim/cluster.h"

namespace rollcall::analysis {

using sim::Act;
using sim::execute;
using sim::Outcome;
using sim::Program;
using sim::Step;
using Steps = std::vector<Step>;

// The job is looked at while it hangs.
inline constexpr sim::ClusterOptions kLive{.stall_ns = 60'000'000'000, .live = true};
// More than NCCL buffers: such a send waits for its receive.
inline constexpr uint64_t kLarge = 1 << 20;

inline Step call(OpKind kind, uint64_t count, int root_or_peer = -1, int comm = 0,
                 uint32_t group = 0) {
  Step step;
  step.kind = kind;
  step.count = count;
  step.root_or_peer = root_or_peer;
  step.comm = comm;
  step.group = group;
  return step;
}

// A mesh of two by two: all four ranks, then the rows 0,1 and 2,3, then the columns 0,2 and 1,3.
inline std::vector<sim::CommSpec> mesh_of_four() {
  return {{.ranks = {0, 1, 2, 3}},
          {.ranks = {0, 1}, .parent = 0},
          {.ranks = {2, 3}, .parent = 0, .colour = 1},
          {.ranks = {0, 2}, .parent = 0, .child_number = 1},
          {.ranks = {1, 3}, .parent = 0, .child_number = 1, .colour = 1}};
}

// The process hung for a minute and was killed; its GPU was watched.
inline void hang_watched(trace::Process& process) {
  process.exited_ns = 0;
  process.liveness = trace::Liveness::dead;
  process.heartbeat_ns += 60'000'000'000;
  process.meta["gpu_timing"] = "events";
}

// The process aborts its communicator, which takes a microsecond.
inline void add_abort(trace::Process& process, uint32_t comm, int64_t at_ns) {
  trace::Event abort{.kind = EventKind::CommAbort, .called_ns = at_ns, .text = ""};
  abort.returned_ns = at_ns + 1000;
  abort.comm = comm;
  process.events.push_back(abort);
  process.comms[comm].state = CommState::aborted;
  process.comms[comm].ended_ns = at_ns;
}

// The recorder did not see the communicator being made: of its calls nobody knows where they
// belong.
inline void forget_comm(trace::Process& process, const CommKey& key) {
  bool was_used = false;
  for (trace::Op& op : process.ops) {
    if (op.comm == kCommUnknown || process.comms[op.comm].key != key) continue;
    op.comm = kCommUnknown;
    was_used = true;
  }
  REQUIRE(was_used);
}

// As many ranks as this, each as the first, on its first communicator.
inline void multiply(trace::Run& run, int ranks) {
  const trace::Process one = run.processes[0];
  run.processes.assign(static_cast<size_t>(ranks), one);
  for (int r = 0; r < ranks; ++r) {
    trace::Process& process = run.processes[static_cast<size_t>(r)];
    process.job_rank = process.comms[0].rank = r;
    process.comms[0].nranks = ranks;
    process.pid = 1000 + static_cast<uint32_t>(r);
  }
}

inline const Finding& lead(const Report& report) { return report.findings.front(); }

inline std::string text_of(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += fmt::format("{}: {}\n", code_of(finding.verdict), finding.summary);
  }
  return text;
}

// The report leads with this verdict, and names these ranks.
inline void check_names(const Report& report, Verdict verdict, const std::vector<int32_t>& ranks) {
  INFO(text_of(report));
  CHECK(lead(report).verdict == verdict);
  std::vector<int32_t> named;
  for (const Culprit& culprit : lead(report).culprits) named.push_back(culprit.rank);
  CHECK(named == ranks);
}

// The report leads with this verdict, and blames this rank alone.
inline const Culprit& check_blames(const Report& report, Verdict verdict, int rank) {
  INFO(text_of(report));
  CHECK(lead(report).verdict == verdict);
  REQUIRE(lead(report).culprits.size() == 1);
  CHECK(lead(report).culprits[0].rank == rank);
  return lead(report).culprits[0];
}

}  // namespace rollcall::analysis
