// A run and PyTorch's traces of it as one archive, which Perfetto opens on one time line (v58 and
// later): the run's trace, PyTorch's files as they are, and a manifest that says how their clocks
// lie to each other.
//
// The manifest is that of github.com/google/perfetto, docs/reference/perfetto-manifest.md.
//
// Threads: the main thread alone.
#pragma once

#include <cstdint>
#include <string>

#include "tools/kineto_files.h"
#include "tools/output_file.h"
#include "tools/perfetto_run.h"

namespace rollcall::tools {

// Returns the slices of the run's trace; where the file failed, or `error` is not empty, it is of
// no use.
uint64_t write_archive(const PerfettoRun& run, const KinetoFiles& files, OutputFile& file,
                       std::string& error);

}  // namespace rollcall::tools
