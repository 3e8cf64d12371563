// Traces of PyTorch's profiler beside a run: whose they are, which of their records made which
// call, and how their clock lies to the run's.
//
// Threads: plain functions; an object belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comparison/kineto_join.h"
#include "report/perfetto/kineto_trace.h"
#include "report/perfetto/perfetto.h"
#include "trace/import/kineto_records.h"
#include "trace/model.h"

namespace rollcall::tools {

struct KinetoFile {
  std::string path;
  trace::KinetoTrace trace;
  std::optional<uint32_t> process = {};  // whose it is, where that one was recorded
  comparison::KinetoJoin join = {};
  report::perfetto::KinetoLosses losses = {};  // of a trace that has the file's events in it
};

class KinetoFiles {
 public:
  // A file, or those of a directory that are such traces, by name. False: `error` says why.
  bool read(const std::string& path, std::string& error);
  // Finds the processes: by rank, else by host and process id.
  void assign(const trace::Run& run);

  // Forgets files of other processes, and those whose process is not known. False: none is left.
  bool keep_those_of(const std::vector<uint32_t>& processes);

  std::vector<uint32_t> processes() const;
  // Joins the process's files with its calls, and returns how they call these.
  std::map<uint64_t, report::KinetoName> names_of(uint32_t process, const trace::Process& whole);

  const std::vector<KinetoFile>& files() const { return files_; }
  std::vector<KinetoFile>& files() { return files_; }
  // What there is to be known of the merge, a sentence each, once all are joined.
  std::vector<std::string> sentences(const trace::Run& run) const;

 private:
  std::vector<KinetoFile> files_;
};

// Whose trace it is, for people: "PyTorch, rank 3 (node0)".
std::string title_of(const KinetoFile& file, size_t number);

// "within 4 us": rounded up, for it is a bound.
std::string within(int64_t bound_ns);

// Added to the times of the file as they stand there, they are those of the run.
int64_t offset_of(const KinetoFile& file, const trace::Run& run);

}  // namespace rollcall::tools
