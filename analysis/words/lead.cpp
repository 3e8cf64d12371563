#include "analysis/words/lead.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// Where a clause that is too long by itself may end: what follows explains it. What the rest keeps
// of the joint stands behind it.
struct Break {
  std::string_view joint;
  size_t kept = 0;  // the last characters of the joint
};
constexpr std::array kBreaks = {
    Break{": "},    Break{", which ", 6}, Break{" where ", 6}, Break{", in a replay ", 12},
    Break{" (", 1}, Break{", and "},      Break{", but ", 4},  Break{", in which ", 9}};

// The two parts of a clause of which the first is as long as fits, or as short as can be; nothing
// where it cannot be parted.
std::optional<std::pair<std::string, std::string>> broken(const std::string& clause) {
  const std::string_view text = clause;
  std::optional<std::pair<std::string, std::string>> found;
  int depth = 0;
  for (size_t i = 0; i < text.size() && (i <= kLeadMax || !found); ++i) {
    for (const Break& one : kBreaks) {
      // In parentheses only where they end the clause: names have some, too.
      const bool is_group = one.joint == " (";
      const bool fits = depth == 0 && text.substr(i).starts_with(one.joint) &&
                        (!is_group || text.find(')', i) == text.size() - 1);
      if (!fits) continue;
      found.emplace(text.substr(0, i), text.substr(i + one.joint.size() - one.kept));
    }
    depth += (text[i] == '(') - (text[i] == ')');
  }
  return found;
}

}  // namespace

Lead lead_of(const Finding& finding) {
  Lead lead{finding.summary, {}};
  if (finding.summary.size() <= kLeadMax) return lead;
  std::vector<std::string> clauses = clauses_of(finding.summary);
  bool is_broken = false;
  if (clauses.front().size() > kLeadMax) {
    if (auto parts = broken(clauses.front())) {
      clauses.front() = std::move(parts->second);
      clauses.insert(clauses.begin(), std::move(parts->first));
      is_broken = true;
    }
  }
  lead.sentence = clauses.front();
  size_t next = 1;
  while (!is_broken && next < clauses.size() &&
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
