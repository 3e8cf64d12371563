// Who broke the order in which ranks make their calls, so that they wait for each other in a
// circle; or left out a call that comes first, as far as that looks the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/rules/circle.h"

namespace rollcall::analysis {

// Who broke the order, and how that shows; nobody where nothing tells.
struct Breach {
  std::vector<uint32_t> processes;
  std::string how;
  Confidence confidence = Confidence::certain;
  std::string who = {};                 // of whom that is told; empty: of all who are blamed
  std::optional<Misstep> misstep = {};  // nothing: it may be one or another
  std::string look = {};  // where a call was, or may have been, left out: what to look at for that
  bool is_order_first = false;  // another order is likelier
};

Breach find_breach(const Facts& facts, const Circle& circle);
// Of ranks of which the first waits in one call without another: on no file is whether it would
// have made that later. A call left out is the more frequent mistake, but of several calls
// (`are_several`) another order is.
Breach breach_without(const Facts& facts, std::vector<uint32_t> odd, uint32_t waits,
                      uint32_t without, bool are_several);

// The only one of those who made the circle's calls that did otherwise than before, with nothing
// that contradicts it.
std::vector<uint32_t> find_odd_caller(const Facts& facts, const Circle& circle);
// The few who are alone in a call that most of its communicator have not made, where there are no
// others like them.
std::vector<uint32_t> find_lonely(const Facts& facts, const Circle& circle);
// The call of the circle in which a process waits; kNone where it waits in none.
uint32_t waits_in(const Facts& facts, const Circle& circle, uint32_t process);

}  // namespace rollcall::analysis
