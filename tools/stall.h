// Tells when a communicator stands still: positions of its ranks in, decisions out.
//
// A communicator stands still where some rank waits in it, in a call or in front of one that others
// have made, and none of its ranks gets on. Whether that is a hang is the analysis' question, not
// this one's; but it is asked only where somebody waits. Ranks that are through with all that they
// called alike compute, compile, evaluate or write, however long, and nobody asks about them.
//
// Collectives, transfers and the creation of a communicator are watched apart: one may stand while
// another goes on.
//
// Patience: at first as long as the user set. Once a communicator has got on for a while, five
// times the longest time it has been quiet since, but 10 s at least and never longer than the user
// set. A rank that died is waited for three seconds only.
//
// Threads: none; time is what the caller says it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/format/ring_layout.h"

namespace rollcall::tools {

// What is watched of a communicator.
enum class Lane : uint8_t { collectives, transfers, creation };

// How far the newest call of a rank has come.
enum class Progress : uint8_t {
  through,   // returned, and the GPU is through with it
  returned,  // returned; whether the GPU is through is not known
  inside     // in flight: the host is inside NCCL, or the GPU is not through
};

// Whether the process can still get on.
enum class Life : uint8_t { runs, over, dead };  // dead: without an exit record

// Where one rank stands on one communicator.
struct Standing {
  CommKey comm{};
  Lane lane = Lane::collectives;
  uint64_t process = 0;   // names it among all
  uint64_t position = 0;  // calls so far
  Progress progress = Progress::through;
  Life life = Life::runs;
};

struct Look {
  int64_t now_ns = 0;
  std::vector<Standing> standings;
};

// What to do now.
enum class Act : uint8_t {
  nothing,
  warn,     // half of the patience is over
  ask,      // the patience is over: ask the analysis
  confirm,  // what was said to hang still does, after as long as the user set
  resumed   // a rank has got on where a hang was told of
};

struct Decision {
  Act act = Act::nothing;
  CommKey comm{};
  Lane lane = Lane::collectives;
  int64_t quiet_ns = 0;     // how long nobody has got on there, or had
  int64_t patience_ns = 0;  // after which the analysis is asked
};

class StallWatch {
 public:
  explicit StallWatch(int64_t patience_max_ns) : patience_max_ns_(patience_max_ns) {}

  // Times must not go back. At most one decision at a look, the most urgent.
  Decision look(const Look& look);
  // What the analysis said when it was asked: a hang, or not (yet), in which case it is asked again
  // later, and more and more rarely.
  void answered(bool is_hang);
  // A hang was told of, and goes on.
  bool is_open() const { return open_.has_value(); }

 private:
  using Name = std::pair<std::pair<uint64_t, uint64_t>, Lane>;
  struct Course {
    uint64_t fingerprint = 0;
    int64_t first_ns = 0;
    int64_t advanced_ns = 0;
    int64_t died_ns = 0;  // 0: nobody is dead
    int64_t longest_ns = 0;
    uint64_t advances = 0;
    int64_t next_ask_ns = 0;  // how long it is quiet then
    bool is_warned = false;
    bool waits = false;
  };

  void take(const Look& look);
  Act act_on(const Name& name, const Course& course, int64_t now_ns) const;
  void note(const Decision& decision, int64_t now_ns);
  void advance(Course& course, int64_t now_ns) const;
  int64_t patience_of(const Course& course) const;
  int64_t quiet_of(const Course& course, int64_t now_ns) const;

  const int64_t patience_max_ns_;
  std::map<Name, Course> courses_;
  std::optional<Name> asked_;  // the analysis has not answered yet
  std::optional<Name> open_;
  bool is_confirmed_ = false;
  std::optional<int64_t> resumed_after_ns_;
};

}  // namespace rollcall::tools
