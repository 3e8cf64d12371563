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

inline const Finding& lead(const Report& report) { return report.findings.front(); }

inline std::string text_of(const Report& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += fmt::format("{}: {}\n", code_of(finding.verdict), finding.summary);
  }
  return text;
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
