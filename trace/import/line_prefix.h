// What launchers and log collectors put in front of a program's line, and what that tells.
//
// A job's log seldom holds the bare lines that PyTorch and NCCL print. torchrun, srun, mpirun, Ray,
// Kubernetes, journald and `grep -n` each put something in front, often several of them. All of it
// is taken off, from left to right, by one table (line_prefix.cpp), and what names a rank, a host
// or a time is kept beside the line.
//
// What is taken off must be certain: a form that does not match whole is left where it is.
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace rollcall::trace {

struct LinePrefix {
  // The rank in the job, where a launcher names it outright: "[rank3]:" of PyTorch and torchrun,
  // "rank=3" of Ray; -1: not told.
  int32_t rank = -1;
  // The task that `srun -l` ("3: ") or `mpirun --tag-output` ("[1,3]<stdout>:") counts. It is the
  // rank where each task is one rank, and the node where a task is a torchrun; -1: not told.
  int32_t task = -1;
  // The rank on its host: "[default3]:" of torchrun, "rank 3:" of others; -1: not told.
  int32_t local_rank = -1;
  // The process as Ray names it; 0: not told.
  uint32_t pid = 0;
  // A host, pod, container or unit; empty: not told. Points into the line.
  std::string_view host;
  // "TP3", "DP0 TP3": what SGLang calls the process; empty: not told. Points into the line.
  std::string_view place;
  // The file that `grep -r` names; empty: not told. Points into the line.
  std::string_view file;
  // The last time stamp in front, nanoseconds since the epoch; 0: none. A stamp without a zone is
  // taken for UTC, one without a date for the first of January 1970: good for differences only.
  int64_t time_ns = 0;

  // The rank in the job as far as it is told.
  int32_t likely_rank() const { return rank >= 0 ? rank : task; }
};

// Takes prefixes off the lines of one text.
//
// Some forms look like much else ("3: " is what `srun -l` writes, and what any program may). Those
// are taken off where what is left begins as a line does that is read here; once that was so, they
// are taken off the text's other lines too, for launchers put the same in front of every line.
//
// Threads: an object belongs to one thread.
class PrefixTaker {
 public:
  // What is left of `line`.
  std::string_view take(std::string_view line, LinePrefix& prefix);

 private:
  std::string_view take_unsure(std::string_view line, LinePrefix& prefix, uint32_t& used);
  bool shows_pod(std::string_view line, const LinePrefix& prefix);
  std::string_view take_known_file(std::string_view line, LinePrefix& prefix) const;
  void confirm(size_t form, std::string_view line);

  uint32_t confirmed_ = 0;  // a bit for each form that looks like much else
  std::string file_;        // the last one that `grep -H` named in front of a match
  std::set<std::string, std::less<>> pods_;  // in front of lines that any program writes
};

// "node1:4711:4802 [3] NCCL": how NCCL begins a line.
bool begins_as_nccl(std::string_view line);

}  // namespace rollcall::trace
