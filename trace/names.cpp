#include "trace/model.h"

namespace rollcall::trace {

std::string_view name_of(OpState state) {
  switch (state) {
    case OpState::called:
      return "called";
    case OpState::returned:
      return "returned";
    case OpState::launched:
      return "launched";
    case OpState::started:
      return "started";
    case OpState::finished:
      return "finished";
    case OpState::failed:
      return "failed";
    case OpState::unknown:
      break;
  }
  return "unknown";
}

std::string_view name_of(Liveness liveness) {
  switch (liveness) {
    case Liveness::running:
      return "running";
    case Liveness::stopped:
      return "stopped";
    case Liveness::exited:
      return "exited";
    case Liveness::dead:
      return "dead";
    case Liveness::unknown:
      break;
  }
  return "unknown";
}

}  // namespace rollcall::trace
