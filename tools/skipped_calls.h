// Calls of a large run that judging it leaves on disk, for commands that write every call: a
// process is read again when its turn comes, so that only one is in memory.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <optional>

#include "trace/model.h"

namespace rollcall::tools {

// As `rollcall diff` holds of a large run to judge it.
inline constexpr uint64_t kRecordsInMemory = 1u << 20;

// The process with all of its calls; nothing where none was skipped, or its files are gone.
std::optional<trace::Process> read_skipped(const trace::Process& known, int64_t read_at_ns);

// Takes the Issue about it from the run: what was left on disk will be read.
void forget_skipping(trace::Run& run);

}  // namespace rollcall::tools
