// The verdict for a person: what broke step first, then who, why, where to look.
//
// Order: the sentence; code and confidence; culprits; evidence; the table by rank; consequences;
// what to look at next; what is wrong with the files. Colours only where asked for.
#pragma once

#include <string>
#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::report {

struct TextOptions {
  bool colour = false;
  bool all = false;                      // every finding, every evidence, every communicator
  uint32_t context = 0;                  // calls shown before and after the first difference
  std::vector<std::string> incidents{};  // verdicts kept while the job ran, a sentence each
  std::string rerun_hint{};              // the command that shows more; empty: none is named
};

std::string diff_text(const trace::Run& run, const analysis::Report& report,
                      const TextOptions& options);
// The leading finding in one line: "RC-MISSING-CALL: rank 3 ...".
std::string diff_sentence(const analysis::Report& report);

}  // namespace rollcall::report
