// A run and PyTorch's traces of it on one time line: as an archive, which Perfetto opens from v58
// on, of the run's trace, PyTorch's files as they are, unpacked, and a manifest that says how their
// clocks lie to each other; or as one trace, which has the events of all, for any Perfetto.
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

// The trace of the run that is written next has the events of the files below their ranks. Both
// outlive the writing.
void write_in_one(PerfettoRun& run, KinetoFiles& files);

}  // namespace rollcall::tools
