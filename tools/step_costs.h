// What the steps of a running job cost, for `rollcall top`: how long they take, and which share of
// them is charged to each rank, as `rollcall slow` finds in the newest calls. docs/SLOW.md has the
// rules.
//
// A process of its own reads the files: the screen is drawn while it is at work, and whatever it
// meets there, the last answer stands. It is asked again once twenty times the processor time has
// passed that it took: a twentieth of one processor. Of jobs with more ranks than kRanksOfCosts
// nobody is asked, for a look at fewer calls of each would compare nothing.
//
// Threads: an object belongs to one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rollcall::tools {

inline constexpr size_t kRanksOfCosts = 1024;

// Calls that are read of each of so many ranks: 262,144 of all together, which are half a second of
// work and some 100 MiB, but at least 1,024 of each.
uint64_t window_of_steps(size_t ranks);

struct StepCosts {
  using Process = std::pair<std::string, uint32_t>;  // its host and pid

  std::string sentence;               // empty: nothing could be compared
  std::map<Process, double> charged;  // the share of a step
};

// Of schema rollcall.slow/1; nullopt: it is no such JSON.
std::optional<StepCosts> costs_in(std::string_view json);

class StepCostsReader {
 public:
  explicit StepCostsReader(std::string directory) : directory_(std::move(directory)) {}
  ~StepCostsReader();
  StepCostsReader(const StepCostsReader&) = delete;
  StepCostsReader& operator=(const StepCostsReader&) = delete;

  // Takes an answer that is there, and asks where it is time to. `now_ns`: of the monotonic clock.
  void advance(int64_t now_ns);
  // Asks once, and waits for the answer, for at most so long.
  void wait(int64_t limit_ns);
  bool is_waiting() const { return pid_ > 0; }
  const StepCosts& newest() const { return newest_; }

 private:
  void ask(int64_t now_ns);
  bool take(int64_t now_ns);  // false: it is not through
  void give_up();
  void reap();

  std::string directory_;
  StepCosts newest_;
  pid_t pid_ = -1;
  pid_t given_up_ = -1;  // killed, and not gone yet
  int answer_ = -1;
  int64_t asked_ns_ = 0;
  int64_t next_ns_ = 0;
};

}  // namespace rollcall::tools
