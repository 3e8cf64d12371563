#include "analysis/origin.h"

#include <cstddef>
#include <iterator>

namespace rollcall::analysis {
namespace {

struct Row {
  Verdict verdict;
  Origin origin;
};

constexpr Row kOrigins[] = {
#define ROLLCALL_X(name, origin) {Verdict::name, Origin::origin},
    ROLLCALL_ORIGINS(ROLLCALL_X)
#undef ROLLCALL_X
};

constexpr bool are_all_in_order() {
  for (size_t at = 0; at < std::size(kOrigins); ++at) {
    if (static_cast<size_t>(kOrigins[at].verdict) != at) return false;
  }
  return std::size(kOrigins) == static_cast<size_t>(Verdict::Count);
}
static_assert(are_all_in_order(), "every verdict has its row");

}  // namespace

Origin origin_of(Verdict verdict) { return kOrigins[static_cast<size_t>(verdict)].origin; }

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
