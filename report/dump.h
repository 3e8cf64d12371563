// Everything on file, one JSON object per line: schema rollcall.dump/1.
//
// The lines of a process come together: one "run", its "comm"s, its "op"s in call order, its
// "event"s, one "stats". Unknown is null, never 0.
#pragma once

#include <functional>
#include <string>

#include "trace/model.h"

namespace rollcall::report {

// `write` gets whole lines, many at a time; false from it stops the dump (a closed pipe).
void dump_process(const trace::Process& process,
                  const std::function<bool(const std::string&)>& write);

}  // namespace rollcall::report
