// Reads the files of a run into memory.
//
// Every file is taken as hostile: bytes are copied, judged (core/format/record_check.h), then used.
// A file that is being written, cut off, foreign or scribbled on costs its own records at most;
// what went wrong is an Issue of the run, never an exception, and everything else is still read.
//
// A run directory may hold directories of its own (one per attempt, or one per host); files one
// level down are read as well, and the attempts within an attempt.
//
// Threads: the functions are reentrant. load_run reads with several threads of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trace/model.h"
#include "trace/team.h"

namespace rollcall::trace {

struct LoadOptions {
  // Newest operations kept per process, and about as many captured ones of the graphs that they
  // replay; others are left on disk. 0: everything. Bounds the memory of a run: processes x 2 x
  // window x 120 bytes.
  uint64_t window = 0;
  // Records held in memory, about; of a larger run the calls that are the same on all ranks stay on
  // disk (trace/equal_prefix.h), and an Issue says so. Of large logs they are left out when all of
  // it was read (trace/equal_calls.h). 0: no bound. Needs window 0.
  uint64_t records_max = 0;
  // False reads the rings only: what a watcher of a live job needs.
  bool segments = true;
  // Readers in parallel; 0: as many as the machine has processors, at most 8.
  unsigned threads = 0;
  // Asks the kernel about the processes (lock of the ring file, /proc), where they ran here. Off
  // for files that were copied from elsewhere, and for tests.
  bool probe_processes = true;
  // Files beyond this number are not read, and an Issue says so.
  uint32_t files_max = 1u << 18;
  // Reads together with these processes; rank 0 gets the run, the others a part of it that is good
  // for nothing. Null: alone.
  Team* team = nullptr;
  // Told how many processes of how many have been read, and how many mebibytes of how many of other
  // recorders' files; called from several threads. May be empty.
  std::function<void(uint64_t done, uint64_t all)> on_progress = {};
};

// In the Issue of a run that `records_max` bounded.
inline constexpr const char* kLeftOnDisk = "calls were left on disk";

// The same of logs.
inline constexpr const char* kReadAndLeftOut = "calls were read and left out";

// What stands for standard input among paths.
inline constexpr const char* kStandardInput = "-";

// Reads every ring below the directories among `paths`, each with its segments of both kinds, and
// the files that are named outright: rings, and what other recorders wrote (trace/import). All of
// it together is one run. Without anything usable it has no processes, and an Issue.
Run load_run(const std::vector<std::string>& paths, const LoadOptions& options = {});
Run load_run(const std::string& path, const LoadOptions& options = {});

// Sets Run::live by the processes that are not superseded, as load_run does.
void find_live(Run& run);

// One ring file and the segments beside it. What went wrong is appended to `issues`; when nothing
// could be read, the last of them is `unusable` and the process has no `host`, no operations.
Process load_file(const std::string& path, const LoadOptions& options, std::vector<Issue>& issues);

}  // namespace rollcall::trace
