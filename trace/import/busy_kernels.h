// For how long the GPU of a process was busy: the kernels in a trace, of compute and of NCCL, as
// three unions of time. What the stage `slow` calls exposed communication rests on them.
//
// Kernels come in any order, and those of a kind overlap, too: each kind is kept as spans that
// neither overlap nor touch, so that nothing counts twice. A kernel is of communication where its
// caller says so (NCCL's, by their names); copies and memsets are no kernels.
//
// Invariants of what at() gives, for any two ends a <= b and the differences between them:
//   compute <= either <= b - a, communication <= either, either <= compute + communication.
//
// Memory: 16 bytes a span, at most `spans_max` of each kind, of which half may stand apart for
// good, and as many again while at() is at work. By default that is 64 MiB of each kind, for two
// million kernels apart, and twice that for a moment where the vector grows. A trace of a million
// that all stand apart, in no order, took 45 MiB at the peak, and no time that could be measured.
// Beyond the bound nothing is kept, and why_not() says so.
//
// Nothing is measured from a part: where a kernel is missing, damaged or of another GPU, why_not()
// is a sentence, and at() is empty.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/model.h"

namespace rollcall::trace {

class BusyKernels {
 public:
  static constexpr size_t kSpansMax = 1u << 22;

  explicit BusyKernels(size_t spans_max = kSpansMax) : spans_max_(spans_max) {}

  // Times in nanoseconds since any zero, the same for all. A kernel that begins before it, or ends
  // before it begins, is damaged: it counts as lost.
  void add(bool is_communication, int64_t device, int64_t begin_ns, int64_t end_ns);
  // A kernel that is on file and cannot be placed.
  void lose() { ++lost_; }

  // Empty: all kernels are there.
  std::string why_not() const;
  // Of these operations, by ticket. Empty where why_not() is a sentence.
  struct End {
    uint64_t ticket = 0;
    int64_t end_ns = 0;
  };
  std::vector<BusyTime> at(std::span<const End> ends);

 private:
  struct Span {
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };
  class Union {
   public:
    void add(Span span);
    // Rising, without what overlaps or touches.
    const std::vector<Span>& spans();
    // Of the spans up to each of these times, which rise.
    std::vector<int64_t> lengths_until(const std::vector<int64_t>& times_ns);
    bool is_empty() const { return spans_.empty(); }
    size_t size() const { return spans_.size(); }
    void drop() { spans_ = {}; }

   private:
    void lay_together();

    std::vector<Span> spans_;
    size_t settled_ = 0;  // of them were laid together
  };

  size_t spans_max_;
  Union compute_;
  Union communication_;
  std::optional<int64_t> device_;
  bool has_others_ = false;  // kernels of another GPU
  bool is_full_ = false;
  uint64_t lost_ = 0;
};

}  // namespace rollcall::trace
