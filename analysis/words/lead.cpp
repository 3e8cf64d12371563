#include "analysis/words/lead.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::analysis {
namespace {

constexpr std::string_view kJoint = "; ";

// At "; " outside of parentheses.
std::vector<std::string> clauses_of(std::string_view summary) {
  std::vector<std::string> clauses(1);
  int depth = 0;
  for (size_t i = 0; i < summary.size(); ++i) {
    depth += (summary[i] == '(') - (summary[i] == ')');
    if (depth == 0 && summary.substr(i).starts_with(kJoint)) {
      clauses.emplace_back();
      i += kJoint.size() - 1;
    } else {
      clauses.back() += summary[i];
    }
  }
  return clauses;
}

}  // namespace

Lead lead_of(const Finding& finding) {
  Lead lead{finding.summary, {}};
  if (finding.summary.size() <= kLeadMax) return lead;
  const std::vector<std::string> clauses = clauses_of(finding.summary);
  lead.sentence = clauses.front();
  size_t next = 1;
  while (next < clauses.size() &&
         lead.sentence.size() + kJoint.size() + clauses[next].size() <= kLeadMax) {
    lead.sentence.append(kJoint).append(clauses[next++]);
  }
  for (; next < clauses.size(); ++next) {
    const bool is_there = std::ranges::any_of(finding.evidence, [&](const Evidence& evidence) {
      return evidence.text.find(clauses[next]) != std::string::npos;
    });
    if (!is_there) lead.rest.push_back(clauses[next]);
  }
  return lead;
}

}  // namespace rollcall::analysis
