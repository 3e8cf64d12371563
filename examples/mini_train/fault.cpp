#include "fault.h"

#include <charconv>
#include <stdexcept>

namespace mini_train {

const std::vector<FaultTraits>& fault_table() {
  static const std::vector<FaultTraits> table = {
#define MINI_TRAIN_X(id, name, verdict, what) {FaultKind::id, name, verdict, what},
      MINI_TRAIN_FAULTS(MINI_TRAIN_X)
#undef MINI_TRAIN_X
  };
  return table;
}

const FaultTraits& traits_of(FaultKind kind) { return fault_table()[static_cast<size_t>(kind)]; }

namespace {

int parse_number(std::string_view text, const char* what) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 0) {
    throw std::invalid_argument("--fault: " + std::string(what) + " '" + std::string(text) +
                                "' is not a number; write KIND@RANK:STEP, for example count@3:2");
  }
  return value;
}

}  // namespace

Fault parse_fault(const std::string& text) {
  const size_t at = text.find('@');
  const std::string kind = text.substr(0, at);
  for (const FaultTraits& traits : fault_table()) {
    if (traits.name != kind) continue;
    if (traits.kind == FaultKind::none) return {};
    const size_t colon = text.find(':', at == std::string::npos ? 0 : at);
    if (at == std::string::npos || colon == std::string::npos) {
      throw std::invalid_argument("--fault " + text + ": write KIND@RANK:STEP, for example " +
                                  kind + "@3:2");
    }
    const std::string_view view = text;
    return {traits.kind, parse_number(view.substr(at + 1, colon - at - 1), "the rank"),
            parse_number(view.substr(colon + 1), "the step")};
  }
  throw std::invalid_argument("--fault: there is no kind '" + kind +
                              "'; --list-faults names them all");
}

}  // namespace mini_train
