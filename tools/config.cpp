// `rollcall config`: the recorder's variables and what they are set to here.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "core/base/variables.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/terminal.h"
#include "tools/variables.h"

namespace rollcall::tools {
namespace {

struct Variable {
  const char* name;
  const char* type;
  const char* fallback;
  const char* meaning;
};
constexpr Variable kVariables[] = {
#define ROLLCALL_X(name, type, fallback, meaning) {#name, #type, fallback, meaning},
    ROLLCALL_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
};

std::string_view value_of(const Variable& variable) {
  const char* value = std::getenv(variable.name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

void print_markdown() {
  print_out(
      "# Variables\n\nWhat the recorder reads from the environment, once per process, when it "
      "starts."
      " A value that cannot be understood costs one line on stderr, and the default is used.\n\n"
      "This page is made by `rollcall config --markdown` from core/base/variables.h.\n\n"
      "| variable | type | default | meaning |\n| --- | --- | --- | --- |\n");
  for (const Variable& variable : kVariables) {
    const std::string fallback =
        *variable.fallback == 0 ? "" : fmt::format("`{}`", variable.fallback);
    print_out(fmt::format("| `{}` | {} | {} | {} |\n", variable.name, variable.type, fallback,
                          variable.meaning));
  }
}

void print_table() {
  size_t width = 0;
  for (const Variable& variable : kVariables) {
    width = std::max(width, std::string_view(variable.name).size());
  }
  for (const Variable& variable : kVariables) {
    const std::string_view value = value_of(variable);
    const std::string shown =
        value.empty()
            ? (*variable.fallback == 0 ? "not set" : fmt::format("{} (default)", variable.fallback))
            : fmt::format("{} (set; default {})", report::printable(value),
                          *variable.fallback == 0 ? "none" : variable.fallback);
    print_out(fmt::format("{:<{}}  {}\n{:{}}  {}\n", variable.name, width, shown, "", width,
                          variable.meaning));
  }
}

}  // namespace

void add_config(CommandLine& line) {
  Subcommand command(line, "config",
                     "List the ROLLCALL_* variables with their meaning and their value here.");
  const auto markdown = std::make_shared<bool>(false);
  command.flag("--markdown", *markdown, "as the page docs/VARIABLES.md");
  command.footer(
      "\nExamples:\n"
      "  rollcall config\n"
      "  ROLLCALL_RING_SLOTS=65536 rollcall run -- ./job    set one for a job");
  command.action([markdown] {
    *markdown ? print_markdown() : print_table();
    if (!*markdown) {
      for (const std::string& sentence : unknown_variables()) say(sentence);
    }
    return finish_output(kExitGood);
  });
}

}  // namespace rollcall::tools
