#include "analysis/verdict.h"

#include <cstddef>

namespace rollcall::analysis {
namespace {

struct VerdictTraits {
  std::string_view code;
  Severity severity;
  std::string_view meaning;
};

constexpr VerdictTraits kVerdicts[] = {
#define ROLLCALL_X(name, code, severity, meaning) {code, Severity::severity, meaning},
    ROLLCALL_VERDICTS(ROLLCALL_X)
#undef ROLLCALL_X
};
static_assert(sizeof(kVerdicts) / sizeof(kVerdicts[0]) == static_cast<size_t>(Verdict::Count));

const VerdictTraits& traits_of(Verdict verdict) { return kVerdicts[static_cast<size_t>(verdict)]; }

}  // namespace

std::string_view code_of(Verdict verdict) { return traits_of(verdict).code; }
Severity severity_of(Verdict verdict) { return traits_of(verdict).severity; }
std::string_view meaning_of(Verdict verdict) { return traits_of(verdict).meaning; }

std::string_view name_of(Severity severity) {
  constexpr std::string_view kNames[] = {"info", "risk", "slow", "corruption", "hang"};
  return kNames[static_cast<size_t>(severity)];
}

std::string_view name_of(Confidence confidence) {
  constexpr std::string_view kNames[] = {"certain", "likely", "open"};
  return kNames[static_cast<size_t>(confidence)];
}

}  // namespace rollcall::analysis
