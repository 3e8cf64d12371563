#include "tools/variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "core/base/setting_files.h"
#include "core/base/variables.h"
#include "report/terms.h"
#include "settings/nearest_name.h"

namespace rollcall::tools {
namespace {

constexpr std::string_view kPrefix = "ROLLCALL_";

constexpr std::string_view kRecorders[] = {
#define ROLLCALL_X(name, type, source, fallback, meaning) #name,
    ROLLCALL_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
};
constexpr std::string_view kCommands[] = {
#define ROLLCALL_X(name, type, source, fallback, meaning) #name,
    ROLLCALL_COMMAND_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
};
// What the build and the scripts read besides.
constexpr std::string_view kOthers[] = {"ROLLCALL_SKIP_SETUP", "ROLLCALL_WRITE_GOLDENS",
                                        "ROLLCALL_FAKE_LOG"};
// The emulator's, and those of tests and benchmarks.
constexpr std::string_view kFamilies[] = {
    "ROLLCALL_EMULATE_",   "ROLLCALL_E2E_", "ROLLCALL_TORCH", "ROLLCALL_BENCH_",
    "ROLLCALL_GPU_CHECK_", "ROLLCALL_SIM_", "ROLLCALL_REAL_"};

bool is_known(std::string_view name) {
  const auto is_name = [name](std::string_view known) { return known == name; };
  return std::any_of(std::begin(kRecorders), std::end(kRecorders), is_name) ||
         std::any_of(std::begin(kCommands), std::end(kCommands), is_name) ||
         std::any_of(std::begin(kOthers), std::end(kOthers), is_name) ||
         std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [name](std::string_view family) { return name.starts_with(family); });
}

}  // namespace

std::vector<std::string> unknown_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with(kPrefix) && !is_known(name)) names.emplace_back(name);
  }
  // In an order that is not the environment's, and each name once.
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (std::string& name : names) {
    const std::string_view nearest = settings::nearest_name(name, kRecorders);
    name = fmt::format("{} is set, but no such variable is known, and it does nothing; {}.", name,
                       nearest.empty() ? std::string("`rollcall config` lists them")
                                       : fmt::format("{} was probably meant", nearest));
  }
  return names;
}

std::vector<std::string> setting_complaints() {
  static std::vector<std::string> sentences;
  sentences.clear();
  list_setting_complaints([](std::string_view sentence) { sentences.emplace_back(sentence); });
  for (std::string& sentence : sentences) sentence = report::printable(sentence) + '.';
  return sentences;
}

}  // namespace rollcall::tools
