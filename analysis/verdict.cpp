#include "analysis/verdict.h"

#include <cstddef>

namespace rollcall::analysis {
namespace {

struct VerdictTraits {
  std::string_view code;
  Severity severity;
  Origin origin;
  std::string_view meaning;
};

constexpr VerdictTraits kVerdicts[] = {
#define ROLLCALL_X(name, code, severity, origin, meaning) \
  {code, Severity::severity, Origin::origin, meaning},
    ROLLCALL_VERDICTS(ROLLCALL_X)
#undef ROLLCALL_X
};
static_assert(sizeof(kVerdicts) / sizeof(kVerdicts[0]) == static_cast<size_t>(Verdict::Count));

const VerdictTraits& traits_of(Verdict verdict) { return kVerdicts[static_cast<size_t>(verdict)]; }

}  // namespace

std::string_view code_of(Verdict verdict) { return traits_of(verdict).code; }
Severity severity_of(Verdict verdict) { return traits_of(verdict).severity; }
Origin origin_of(Verdict verdict) { return traits_of(verdict).origin; }
std::string_view meaning_of(Verdict verdict) { return traits_of(verdict).meaning; }

std::string_view name_of(Misstep misstep) {
  constexpr std::string_view kNames[] = {
#define ROLLCALL_X(name, meaning) #name,
      ROLLCALL_MISSTEPS(ROLLCALL_X)
#undef ROLLCALL_X
  };
  static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(Misstep::Count));
  return kNames[static_cast<size_t>(misstep)];
}

std::optional<Misstep> misstep_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::op_mismatch:
      return Misstep::other_operation;
    case Verdict::count_mismatch:
    case Verdict::dtype_mismatch:
    case Verdict::redop_mismatch:
    case Verdict::root_mismatch:
    case Verdict::p2p_mismatch:
      return Misstep::other_arguments;
    case Verdict::order_mismatch:
      return Misstep::reordered;
    case Verdict::group_mismatch:
      return Misstep::other_grouping;
    default:
      return std::nullopt;
  }
}

std::string_view name_of(Severity severity) {
  constexpr std::string_view kNames[] = {"info", "risk", "slow", "corruption", "hang"};
  return kNames[static_cast<size_t>(severity)];
}

std::string_view name_of(Confidence confidence) {
  constexpr std::string_view kNames[] = {"certain", "likely", "open"};
  return kNames[static_cast<size_t>(confidence)];
}

std::string_view name_of(Origin origin) {
  constexpr std::string_view kNames[] = {"program", "node", "fabric", "outside", "unknown"};
  return kNames[static_cast<size_t>(origin)];
}

std::string_view consequence_of(Origin origin) {
  constexpr std::string_view kSentences[] = {
      "a restart repeats it: the program has to change",
      "a restart on the same host may meet it again; on another one it does not",
      "a restart may meet it again: GPU links or the network are to be looked at",
      "a restart helps once what is outside of the job is in order",
      "whether a restart helps is not known",
  };
  return kSentences[static_cast<size_t>(origin)];
}

}  // namespace rollcall::analysis
