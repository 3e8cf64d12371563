#include "settings/variables_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "settings/nearest_name.h"
#include "settings/variable_table.h"

namespace rollcall::settings {
namespace {

struct Variable {
  std::string_view name;
  uint32_t first;
  uint32_t last;
  bool must_agree;
};

constexpr Variable kVariables[] = {
#define ROLLCALL_X(name, first, last, must_agree) {#name, first, last, must_agree},
    ROLLCALL_NCCL_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
};

// Names of other owners that begin like NCCL's. A prefix ends with an underscore.
constexpr std::string_view kForeign[] = {
    // PyTorch, which reads them still beside their TORCH_NCCL_ forms
    "NCCL_ASYNC_ERROR_HANDLING", "NCCL_AVOID_RECORD_STREAMS", "NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_MONITORING", "NCCL_ENABLE_TIMING", "NCCL_TRACE_BUFFER_SIZE",
    "NCCL_USE_COMM_NONBLOCKING",
    // profiler, tuner and network plugins
    "NCCL_PROFILE_", "NCCL_INSPECTOR_", "NCCL_TUNER_", "NCCL_OFI_", "NCCL_UCX_", "NCCL_SHARP_",
    "NCCL_IBEXT_", "NCCL_PLUGIN_", "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_GIB_",
    // containers, build systems, nccl-tests
    "NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT", "NCCL_ROOT_DIR", "NCCL_DIR", "NCCL_PATH",
    "NCCL_PREFIX", "NCCL_INCLUDE_", "NCCL_INCLUDE", "NCCL_LIB_", "NCCL_LIB", "NCCL_LIBRARY",
    "NCCL_TESTS_", "NCCL_TEST_"};

const Variable* find(std::string_view name) {
  const auto* const found =
      std::lower_bound(std::begin(kVariables), std::end(kVariables), name,
                       [](const Variable& a, std::string_view b) { return a.name < b; });
  return found != std::end(kVariables) && found->name == name ? found : nullptr;
}

bool is_foreign(std::string_view name) {
  return std::any_of(std::begin(kForeign), std::end(kForeign), [&](std::string_view one) {
    return one.ends_with('_') ? name.starts_with(one) : name == one;
  });
}

std::string version_text(uint32_t code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

bool reads(const Variable& variable, uint32_t version) {
  // Nothing is known of releases outside the table but that names seldom go.
  const bool since = variable.first <= version || variable.first == kOldestNccl;
  return version == 0 || (since && (version <= variable.last || variable.last == kNewestNccl));
}

// A name of this release that was meant, perhaps; empty if there is none.
std::string_view nearest(std::string_view name, uint32_t version) {
  std::vector<std::string_view> known;
  for (const Variable& variable : kVariables) {
    if (reads(variable, version)) known.push_back(variable.name);
  }
  return nearest_name(name, known);
}

}  // namespace

bool must_agree(std::string_view name) {
  const Variable* const variable = find(name);
  return variable != nullptr && variable->must_agree;
}

Unread judge_variable(std::string_view name, uint32_t version) {
  Unread unread;
  const Variable* const variable = find(name);
  const std::string release = version == 0 ? "NCCL" : fmt::format("NCCL {}", version_text(version));
  if (variable != nullptr) {
    if (reads(*variable, version)) return unread;
    unread.is_certain = true;
    unread.why = variable->first > version
                     ? fmt::format("{} does not read it: NCCL {} is the first that does", release,
                                   version_text(variable->first))
                     : fmt::format("{} does not read it: NCCL {} was the last that did", release,
                                   version_text(variable->last));
    return unread;
  }
  if (is_foreign(name)) return unread;
  const std::string_view meant = nearest(name, version);
  if (version > kNewestNccl && meant.empty()) return unread;
  unread.why = fmt::format("{} does not read it", release);
  if (!meant.empty()) unread.next = meant;
  unread.is_certain = version >= kOldestNccl && version <= kNewestNccl;
  return unread;
}

}  // namespace rollcall::settings
