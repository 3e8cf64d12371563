#include "analysis/finding.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

// CUDA's text of error 214, which NCCL passes on.
constexpr std::string_view kFaultyMemory = "uncorrectable ECC error";

bool quotes_faulty_memory(const Finding& finding) {
  return std::any_of(finding.evidence.begin(), finding.evidence.end(), [](const Evidence& one) {
    return one.text.find(kFaultyMemory) != std::string::npos;
  });
}

bool blames(const Finding& finding, const Culprit& culprit) {
  return std::any_of(finding.culprits.begin(), finding.culprits.end(), [&](const Culprit& one) {
    return one.rank == culprit.rank && one.process == culprit.process;
  });
}

// The error may have been found behind the wait that it caused; never that of somebody else.
bool tells_of_faulty_memory(const Finding& finding) {
  if (quotes_faulty_memory(finding)) return true;
  return std::any_of(
      finding.consequences.begin(), finding.consequences.end(), [&](const Finding& one) {
        return quotes_faulty_memory(one) && !one.culprits.empty() &&
               std::all_of(one.culprits.begin(), one.culprits.end(),
                           [&](const Culprit& culprit) { return blames(finding, culprit); });
      });
}

}  // namespace

Origin origin_of(const Finding& finding) {
  const bool is_of_node = finding.verdict == Verdict::cuda_error && tells_of_faulty_memory(finding);
  return is_of_node ? Origin::node : origin_of(finding.verdict);
}

}  // namespace rollcall::analysis
