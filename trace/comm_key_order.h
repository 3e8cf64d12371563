// An order of communicator keys, for maps by key.
#pragma once

#include <tuple>

#include "core/format/ring_layout.h"

namespace rollcall::trace {

struct CommKeyOrder {
  bool operator()(const CommKey& a, const CommKey& b) const {
    return std::tuple(a.high, a.low) < std::tuple(b.high, b.low);
  }
};

}  // namespace rollcall::trace
