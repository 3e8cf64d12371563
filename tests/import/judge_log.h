// The verdict on a text, as `rollcall diff job.log` reaches it.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/analysis.h"
#include "trace/import/importer.h"
#include "trace/shared_identifiers.h"

namespace rollcall::trace {

inline Run read_log(const std::string& text) {
  Run run;
  import_bytes("job.log", {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
               run.processes, run.issues, &run.logs);
  forget_shared_identifiers(run);
  return run;
}

inline analysis::Report judge_log(const std::string& text) {
  return analysis::analyse(read_log(text));
}

}  // namespace rollcall::trace
