#include "tools/class_status.h"

#include <algorithm>
#include <iterator>

#include "tools/command.h"

namespace rollcall::tools {
namespace {

using analysis::Origin;

struct ClassStatus {
  Origin origin;
  int status;
};
constexpr ClassStatus kStatuses[] = {{Origin::program, kExitProgram},
                                     {Origin::node, kExitNode},
                                     {Origin::fabric, kExitFabric},
                                     {Origin::outside, kExitOutside},
                                     {Origin::unknown, kExitHang}};

}  // namespace

int exit_status_of(Origin origin) {
  const auto* place = std::find_if(std::begin(kStatuses), std::end(kStatuses),
                                   [&](const ClassStatus& one) { return one.origin == origin; });
  return place != std::end(kStatuses) ? place->status : kExitHang;
}

int exit_status_of(std::string_view origin) {
  const auto* place =
      std::find_if(std::begin(kStatuses), std::end(kStatuses),
                   [&](const ClassStatus& one) { return name_of(one.origin) == origin; });
  return place != std::end(kStatuses) ? place->status : kExitHang;
}

bool is_hang_status(int status) {
  return std::any_of(std::begin(kStatuses), std::end(kStatuses),
                     [&](const ClassStatus& one) { return one.status == status; });
}

}  // namespace rollcall::tools
