// What leads, and what stands beside it, as far as no rule and no explanation has settled that
// (explain.h): for all codes alike.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "analysis/explain/explain.h"

namespace rollcall::analysis {
namespace {

// Findings that blame somebody, by process: of thousands one cannot be held against every other.
class Blamed {
 public:
  // The next finding.
  void add(std::vector<uint32_t> culprits) {
    const auto finding = static_cast<uint32_t>(culprits_.size());
    for (const uint32_t p : culprits) {
      std::vector<uint32_t>& known = by_process_[p];
      if (known.empty() || known.back() != finding) known.push_back(finding);
    }
    culprits_.push_back(std::move(culprits));
  }
  // The first that blames all of these, and perhaps others; kNone where none does. Both sorted.
  uint32_t first_of(const std::vector<uint32_t>& culprits) const {
    const auto found = culprits.empty() ? by_process_.end() : by_process_.find(culprits.front());
    if (found == by_process_.end()) return kNone;
    for (const uint32_t finding : found->second) {
      const std::vector<uint32_t>& blamed = culprits_[finding];
      if (std::includes(blamed.begin(), blamed.end(), culprits.begin(), culprits.end())) {
        return finding;
      }
    }
    return kNone;
  }

 private:
  std::unordered_map<uint32_t, std::vector<uint32_t>> by_process_;
  std::vector<std::vector<uint32_t>> culprits_;  // by finding
};

}  // namespace

std::vector<Finding> order(std::vector<Draft>& drafts) {
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
    if (a.finding.severity != b.finding.severity) return a.finding.severity > b.finding.severity;
    if (is_undecided(a) != is_undecided(b)) return is_undecided(a);
    return a.since_ns < b.since_ns;
  });
  std::vector<Finding> findings;
  Blamed blamed;
  for (Draft& draft : drafts) {
    std::vector<uint32_t> culprits = culprits_of(draft.finding);
    const uint32_t lead = is_defect(draft.finding) ? blamed.first_of(culprits) : kNone;
    if (lead != kNone) {
      findings[lead].consequences.push_back(std::move(draft.finding));
      continue;
    }
    blamed.add(std::move(culprits));
    findings.push_back(std::move(draft.finding));
  }
  return findings;
}

}  // namespace rollcall::analysis
