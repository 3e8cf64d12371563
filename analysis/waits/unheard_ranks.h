// Ranks that may be waiting for somebody whose file is not there, or whose newest record was torn
// when it ended, or for signals of which nobody can tell whether they were sent.
//
// A call shared with a rank that left no file is taken for finished, or nothing could be said at
// all. Whoever made such a call and then nothing more may in truth stand in it, and so may those
// who share a call with it that lies behind, on whatever stream: blaming them for what they did not
// call next would be a guess. That a rank called more behind such a call shows nothing, because
// calls return before they finish; that another rank passed the place where this one stands does.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/record/index.h"
#include "analysis/waits/playback.h"

namespace rollcall::analysis {

class UnheardRanks {
 public:
  // Linear in records, and empty where every rank of every communicator has a whole file and no
  // wait for signals is uncounted.
  UnheardRanks(const Index& index, const Playback& playback);
  bool may_wait_for_unknown(uint32_t process) const;

 private:
  struct Stream {
    std::vector<uint32_t> ops;
    size_t proved = 0;        // so many of them have finished, as far as can be told
    size_t suspect_from = 0;  // from here on they may wait for an unknown rank
  };
  struct Place {
    uint32_t stream = kNone;
    uint32_t position = 0;
  };

  void fill(uint32_t process);
  void find_torn();
  void find_last_calls();
  const std::set<uint64_t>& roles_behind(uint32_t group, uint64_t seq);
  bool is_behind(uint32_t group, const Member& member);
  bool is_shared_with_unknown(uint32_t process, uint32_t op) const;
  bool is_proof(uint32_t process, uint32_t op);
  void raise(uint32_t process, uint32_t stream, size_t proved);
  void spread();
  void spread_collective(uint32_t group, uint64_t seq);
  void suspect_first(uint32_t process);
  void suspect(uint32_t process, uint32_t op);
  void suspect_partners(uint32_t process, uint32_t op);
  void spread_suspicion();

  const Index& index_;
  const Playback& playback_;
  std::vector<std::vector<Stream>> streams_;  // by process
  std::vector<std::vector<Place>> places_;    // by process and op
  struct Raised {
    uint32_t process;
    uint32_t stream;
    size_t from;
  };
  std::vector<Raised> raised_;
  std::vector<Raised> suspected_;            // `from` up to the stream's suspect_from before
  std::vector<uint32_t> last_op_;            // by process; kNoRecord
  std::vector<std::vector<uint32_t>> torn_;  // by group: members whose newest record was torn
  std::map<std::pair<uint32_t, uint64_t>, std::set<uint64_t>> roles_behind_;  // by position
  enum class Answer : uint8_t { unknown, no, yes };
  std::vector<std::vector<Answer>> is_behind_;     // by group and member
  std::vector<uint64_t> done_;                     // by group: positions that have been spread
  std::set<std::pair<uint32_t, uint64_t>> asked_;  // collectives whose members are suspected
};

}  // namespace rollcall::analysis
