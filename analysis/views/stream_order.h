// The order of a process's streams that explains the waits best.
//
// Whether the streams of a process wait for each other is on no file. First they are taken as free.
// A rank that then seems to have stopped outside NCCL, with nothing on file that speaks against it,
// may in truth stand in its last call, behind an earlier one of a rank that waits: then the record
// is read again with the streams chained, and of several such ranks those that wait then are
// victims of the rest. So it is where the job stands and nobody seems to wait: two communicators
// used in another order on one rank are a deadlock only where the streams wait for each other.
#pragma once

#include <optional>
#include <vector>

#include "analysis/rules/rules.h"

namespace rollcall::analysis {

// The facts of one order, and what they are made of.
class GatheredFacts {
 public:
  // `blocking`: positions that the ranks disagree about and did not go past. All are kept by
  // reference.
  GatheredFacts(const Index& index, const Options& options, const JobState& job,
                const std::vector<Difference>& differences, const std::vector<Difference>& blocking,
                StreamOrder stream_order);

  GatheredFacts(const GatheredFacts&) = delete;
  GatheredFacts& operator=(const GatheredFacts&) = delete;

  const Facts& facts() const { return facts_; }

 private:
  Playback playback_;
  WaitGraph graph_;
  UnheardRanks unheard_;
  ChangingSizes sizes_;
  Memo memo_;
  Facts facts_;
};

// The record, read as it explains the waits best, and what is found of them.
class StreamOrderChoice {
 public:
  // All are kept by reference.
  StreamOrderChoice(const Index& index, const Options& options, const JobState& job,
                    const std::vector<Difference>& differences,
                    const std::vector<Difference>& blocking);

  const Facts& facts() const { return (chained_ ? *chained_ : free_).facts(); }
  std::vector<Draft>& drafts() { return drafts_; }

  // For a job that stands although nobody seems to wait, and nothing else explains it. True where
  // ranks wait in a circle if the streams are chained: the facts and the drafts are then of that
  // reading. Not where the GPU was seen to run what would be behind the circle, where the job has
  // called for too long behind it, or where the calls do not get by without another circle: ranks
  // that always differ in their order do well with it. A copy of the run.
  bool find_circle();

 private:
  void read_chained();
  bool gets_by_without(const Facts& chained) const;

  const Index& index_;
  const Options& options_;
  const JobState& job_;
  const std::vector<Difference>& differences_;
  const std::vector<Difference>& blocking_;
  GatheredFacts free_;
  std::optional<GatheredFacts> chained_;
  std::vector<Draft> drafts_;
};

}  // namespace rollcall::analysis
