// What the GPUs did with the calls, as far as it is on file.
//
// Looked at is the front of each stream: its oldest operation that is awaited and not finished, and
// those of its group behind it, which begin and end together with it. A replay of a CUDA graph is
// one operation of its stream; the captured ones run within it. Where they are told one by one
// (views/as_executed.h), those that may wait for another stream of their graph are nowhere in
// front.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

// Aborting a communicator ends its kernels, and the events behind them come true: what the GPU did
// from then on says nothing about how far it had come by itself.
class GpuRecord {
 public:
  explicit GpuRecord(const Facts& facts);

  bool is_timed(uint32_t p, uint32_t i) const {
    return op(p, i).awaits_gpu || op(p, i).finished_ns != 0;
  }
  bool has_finished(uint32_t p, uint32_t i) const {
    return counts(p, i, op(p, i).finished_ns) || wrote(p, i, GpuMark::finished);
  }
  bool has_started(uint32_t p, uint32_t i) const {
    return counts(p, i, op(p, i).started_ns) || wrote(p, i, GpuMark::started) || has_finished(p, i);
  }
  bool is_awaited(uint32_t p, uint32_t i) const { return is_timed(p, i) && !has_finished(p, i); }

 private:
  const trace::Op& op(uint32_t p, uint32_t i) const { return facts_.index.op(p, i); }

  void note_abort(uint32_t p, const trace::Event& event);

  // What the GPU wrote has no time, and says nothing once its communicator was aborted.
  bool wrote(uint32_t p, uint32_t i, GpuMark mark) const {
    return op(p, i).mark == mark && counts(p, i, INT64_MAX - 1);
  }

  bool counts(uint32_t p, uint32_t i, int64_t time_ns) const;

  const Facts& facts_;
  std::vector<std::vector<int64_t>> aborted_ns_;  // by process and communicator
};

struct Front {
  uint32_t process = kNone;
  uint32_t op = kNoRecord;
  uint32_t stream = 0;            // its number among the process's
  uint32_t finished = kNoRecord;  // the last finished operation on its stream
  bool started = false;
  bool is_behind_untimed = false;  // calls stand in front of it that were not watched
};

struct GpuState {
  std::vector<Front> fronts;  // by process and stream
  // Rising: processes with operations behind which the GPU was not watched, and the newest one of
  // each such stream; kNoRecord where launches of graphs are not seen.
  std::vector<uint32_t> dark;
  std::vector<OpRef> dark_ops;
  bool is_watched = false;  // some process timed its operations
  bool is_inside = false;   // a host thread is inside NCCL
};

// As it is on file, whatever an abort ended.
inline bool has_begun(const trace::Op& op) {
  return op.started_ns != 0 || op.mark == GpuMark::started;
}
inline bool is_through(const trace::Op& op) {
  return op.finished_ns != 0 || op.mark == GpuMark::finished;
}
// By the time of the call where only the GPU's own word is known.
inline int64_t started_at(const trace::Op& op) {
  return op.started_ns != 0 ? op.started_ns : op.called_ns;
}
// A replay that the GPU has begun so long ago that it counts, and is not through with.
bool is_standing_replay(const Facts& facts, const trace::Op& op);
// Somebody looked at the process's GPU until the end: what is not on file of it has not happened.
bool is_watched_to_end(const Facts& facts, uint32_t process);
GpuState look_at_gpus(const Facts& facts, const GpuRecord& record);
// The ranks called different things there; behind a difference others are due to it.
bool is_disputed(const Facts& facts, uint32_t process, const trace::Op& op);
// The process has called something long ago that its GPU is not through with.
bool waits_for_its_gpu(const Facts& facts, uint32_t process);
// The process's GPU has begun or finished nothing for so long that it counts.
bool stands_still(const Facts& facts, uint32_t process);
// The fronts of each process that has any.
std::vector<std::span<const Front>> by_process(const GpuState& state);
// Those of one process.
std::span<const Front> fronts_of(const GpuState& state, uint32_t process);
// One of these has been reached by its stream: the process's GPU runs something.
bool runs_any(std::span<const Front> fronts);

// One operation, or one replay of a graph, on all its ranks.
struct Peers {
  std::vector<OpRef> ranks;    // those that are on file, the one that was asked about first
  bool is_owed = false;        // a rank did not make it
  bool is_complete = true;     // all ranks' are on file
  bool has_strangers = false;  // of a rank's nobody knows: it left no file, or its record is torn
  bool is_unknown = false;     // nor does anybody know who its ranks are, or what they replayed

  // By all whose records are there.
  bool is_made() const { return !is_owed && (is_complete || has_strangers); }
};
Peers peers_of(const Facts& facts, uint32_t process, uint32_t op);

}  // namespace rollcall::analysis
