// `rollcall verdicts`: what a verdict's code means.
#include <fmt/format.h>

#include <memory>

#include "analysis/finding.h"
#include "tools/command.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

using analysis::Verdict;

template <typename Print>
void for_each_verdict(Print print) {
  for (unsigned at = 0; at < static_cast<unsigned>(Verdict::Count); ++at) {
    print(static_cast<Verdict>(at));
  }
}

void print_markdown() {
  print_out(
      "# Verdicts\n\nWhat `rollcall diff` can say. Codes are never reused or renamed.\n\n"
      "This page is made by `rollcall verdicts --markdown` from analysis/finding.h.\n\n"
      "| code | severity | when |\n| --- | --- | --- |\n");
  for_each_verdict([](Verdict verdict) {
    print_out(fmt::format("| {} | {} | {} |\n", analysis::code_of(verdict),
                          analysis::name_of(analysis::severity_of(verdict)),
                          analysis::meaning_of(verdict)));
  });
  print_out(
      "\nExit status of `rollcall diff`: 0 in lockstep; 1 findings of severity hang or corruption; "
      "2 unusable arguments or input; 3 cannot decide; 4 findings of severity slow or risk "
      "only.\n");
}

void print_table() {
  for_each_verdict([](Verdict verdict) {
    print_out(fmt::format("{:<20}  {:<10}  {}\n", analysis::code_of(verdict),
                          analysis::name_of(analysis::severity_of(verdict)),
                          analysis::meaning_of(verdict)));
  });
}

}  // namespace

void add_verdicts(CommandLine& line) {
  Subcommand command(line, "verdicts",
                     "List the codes that `rollcall diff` may print, with meanings.");
  const auto markdown = std::make_shared<bool>(false);
  command.flag("--markdown", *markdown, "as the page docs/VERDICTS.md");
  command.action([markdown] {
    *markdown ? print_markdown() : print_table();
    return finish_output(kExitGood);
  });
}

}  // namespace rollcall::tools
