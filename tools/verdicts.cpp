// `rollcall verdicts`: what a verdict's code means.
#include <fmt/format.h>

#include "analysis/finding.h"
#include "analysis/verdict.h"
#include "tools/command.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

using analysis::Verdict;

void print_table() {
  for (unsigned at = 0; at < static_cast<unsigned>(Verdict::Count); ++at) {
    const auto verdict = static_cast<Verdict>(at);
    print_out(fmt::format("{:<20}  {:<10}  {:<8}  {}\n", analysis::code_of(verdict),
                          analysis::name_of(analysis::severity_of(verdict)),
                          analysis::name_of(analysis::origin_of(verdict)),
                          analysis::meaning_of(verdict)));
  }
}

}  // namespace

void add_verdicts(CommandLine& line) {
  Subcommand command(
      line, "verdicts",
      "List the codes that `rollcall diff` may print, with severity, class and meaning.");
  command.action([] {
    print_table();
    return finish_output(kExitGood);
  });
}

}  // namespace rollcall::tools
