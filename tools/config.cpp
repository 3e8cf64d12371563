// `rollcall config`: the recorder's variables and the command's own, what they are set to here, and
// what the recorder makes of a value that it does not understand.
#include "core/base/config.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/setting_files.h"
#include "core/base/variables.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/terminal.h"
#include "tools/variables.h"

namespace rollcall::tools {
namespace {

struct Variable {
  const char* name;
  const char* fallback;
  const char* meaning;
};
constexpr Variable kVariables[] = {
#define ROLLCALL_X(name, type, source, fallback, meaning) {#name, fallback, meaning},
    ROLLCALL_VARIABLES(ROLLCALL_X) ROLLCALL_COMMAND_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
};

std::string_view value_of(const Variable& variable) {
  const char* value = setting(variable.name);
  // The command's own are in the environment alone.
  if (value == nullptr) value = std::getenv(variable.name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

std::string source_of(const Variable& variable) {
  const SettingOrigin origin = origin_of_setting(variable.name);
  const bool is_from_file =
      origin == SettingOrigin::user_file || origin == SettingOrigin::system_file;
  return is_from_file ? fmt::format("from {}", report::printable(setting_file(origin))) : "set";
}

// What the recorder says when it starts here: "NAME=VALUE is not ...; using ...".
std::vector<std::string> complaints() {
  static std::vector<std::string> sentences;
  sentences.clear();
  read_config([](std::string_view sentence) { sentences.emplace_back(sentence); });
  return sentences;
}

std::string shown(const Variable& variable, const std::vector<std::string>& complaints) {
  const std::string_view fallback = variable.fallback;
  const std::string_view value = value_of(variable);
  if (value.empty()) return fallback.empty() ? "not set" : fmt::format("{} (default)", fallback);
  const std::string assignment = fmt::format("{}=", variable.name);
  for (const std::string& complaint : complaints) {
    if (!complaint.starts_with(assignment)) continue;
    return report::printable(std::string_view(complaint).substr(assignment.size()));
  }
  return fmt::format("{} ({}; default {})", report::printable(value), source_of(variable),
                     fallback.empty() ? "none" : fallback);
}

void print_table() {
  size_t width = 0;
  for (const Variable& variable : kVariables) {
    width = std::max(width, std::string_view(variable.name).size());
  }
  const std::vector<std::string> rejected = complaints();
  for (const Variable& variable : kVariables) {
    print_out(fmt::format("{:<{}}  {}\n{:{}}  {}\n", variable.name, width,
                          shown(variable, rejected), "", width, variable.meaning));
  }
}

}  // namespace

void add_config(CommandLine& line) {
  Subcommand command(line, "config",
                     "List the ROLLCALL_* variables with their meaning and their value here.");
  command.footer(
      "\nExamples:\n"
      "  rollcall config\n"
      "  ROLLCALL_RING_SLOTS=65536 rollcall run -- ./job    set one for a job\n"
      "  (umask 022; mkdir -p ~/.config; echo ROLLCALL_OVERHEAD_BUDGET=2 >> "
      "~/.config/rollcall.conf)\n"
      "                                                     and one for all of yours");
  command.action([] {
    print_table();
    for (const std::string& sentence : setting_complaints()) say(sentence);
    for (const std::string& sentence : unknown_variables()) say(sentence);
    return finish_output(kExitGood);
  });
}

}  // namespace rollcall::tools
