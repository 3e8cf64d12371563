// A few threads that share out numbered pieces of work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "trace/team.h"

namespace rollcall::trace {

// Calls `work(i)` for every i of the share, each once, from `threads` threads (the caller is one of
// them). Returns when all are done.
template <typename Work>
void for_each_in(Share share, unsigned threads, const Work& work) {
  std::atomic<size_t> next{share.begin};
  const auto take = [&] {
    for (size_t i = next++; i < share.end; i = next++) work(i);
  };
  std::vector<std::thread> others;
  const size_t pieces = share.end - share.begin;
  for (unsigned i = 1; i < threads && i < pieces; ++i) others.emplace_back(take);
  take();
  for (std::thread& thread : others) thread.join();
}

// As many as the machine has processors, at most 8; of a team each its part of them.
inline unsigned worker_count(unsigned wanted, const Team* team) {
  if (wanted != 0) return wanted;
  const unsigned processors = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  return std::max(1u, processors / (team == nullptr ? 1 : std::max(1u, team->local_size())));
}

}  // namespace rollcall::trace
