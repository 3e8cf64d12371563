// Where the ranks of a job stand, their stacks merged: a tree of frames, the outermost first, each
// with the ranks that are there and those that are not.
//
// Threads: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trace/stack_file.h"

namespace rollcall::report {

class MergedStacks {
 public:
  MergedStacks();
  ~MergedStacks();
  MergedStacks(const MergedStacks&) = delete;
  MergedStacks& operator=(const MergedStacks&) = delete;

  void add(int32_t rank, const trace::StackFile& file);
  // A rank of which nothing is known, and why: "ended".
  void add_absent(int32_t rank, const std::string& why);
  bool is_empty() const { return ranks_.empty() && absent_.empty(); }
  bool has_frames() const;

  // Lines, each with its end. What is told of threads without frames is cut off at some lines.
  std::string text() const;
  // Schema rollcall.stacks/1: `frames`, a list of {frame, ranks, absent, threads, waits, frames};
  // `threads`, those without frames; `moving`, `outside`: ranks; `without`: ranks and why.
  std::string json() const;

 private:
  struct Node;
  void add_thread(int32_t rank, const trace::StackThread& thread);

  std::unique_ptr<Node> root_;
  std::map<std::string, std::vector<int32_t>> bare_threads_;  // by what they do
  std::map<std::string, std::vector<int32_t>> absent_;        // by why
  std::map<std::string, std::vector<int32_t>> notes_;         // about ranks
  std::vector<int32_t> ranks_;
  std::vector<int32_t> outside_;
};

// "train.py:64 load_batch < train.py:98 main, in clock_nanosleep": where the process stands, by its
// first thread of Python, or what its first thread does. Empty: nothing is known.
std::string standing_place(const trace::StackFile& file);

// "in clock_nanosleep", "running"; empty where the kernel did not tell.
std::string waits_in_words(const trace::StackThread& thread);

}  // namespace rollcall::report
