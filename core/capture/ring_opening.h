// Where the ring of this process comes to lie: decided between the thread that makes the first call
// and the recorder's own, so that the job never waits for a file system that may not answer.
//
//   the recorder's thread                      the calling thread
//   makes the run directory, and asks for      waits
//   the kind of its file system
//     not local: `elsewhere`                   makes the ring in a local place (ring_file.h)
//     local: `local`                           waits on
//       makes the ring there: `direct`         takes it
//       cannot: `failed`                       says so; nothing is recorded
//                                              has waited enough: `elsewhere`, as above; what the
//                                              recorder's thread made meanwhile it removes again
//
// Either side moves the word on by a compare-exchange, so both know who was first. Behind the
// decision the recorder's thread waits until the caller has made the recorder ready (`released`) or
// given it up (`cancelled`). Where no thread can be had the caller does both parts.
//
// Enough is 90 ms in which the recorder's thread slept in the kernel, and so waited for the file
// system: what a first call may cost the job. (Making the local ring comes on top: some 10 ms.)
// Time in which that thread ran, or waited for a processor, does not count, so that a disk that
// does answer is not left because the machine is busy; it is bounded by 2 s, as an exit is
// (last_round.h). The caller looks every 5 ms.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/ring/ring_file.h"

namespace rollcall::capture {

class RingOpening {
 public:
  enum class Decision : uint32_t { asked, local, direct, failed, elsewhere, released, cancelled };

  // Before the thread is started.
  void begin(const char* directory, const ring::Incarnation& incarnation,
             const RingGeometry& geometry) noexcept;

  // The recorder's thread.
  void work() noexcept;
  // True when the recorder is ready, false when there will be none.
  bool await_release() noexcept;

  // The calling thread. `direct`, `failed` or `elsewhere`.
  Decision await_decision() noexcept;
  void release() noexcept { move_on(Decision::released); }
  void cancel() noexcept { move_on(Decision::cancelled); }

  // After the decision. Of `direct`: the ring and its stem; of `failed`: why.
  const ring::RingFile& file() const noexcept { return file_; }
  std::string_view stem() const noexcept { return {stem_, stem_bytes_}; }
  const ring::RingError& error() const noexcept { return error_; }
  const ring::Incarnation& incarnation() const noexcept { return incarnation_; }

 private:
  bool decide(Decision expected, Decision decision) noexcept;
  void move_on(Decision decision) noexcept;
  bool waits_for_files() const noexcept;
  void open_here() noexcept;

  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> thread_{0};  // the recorder's, by its number; 0: it has not begun
  const char* directory_ = nullptr;
  ring::Incarnation incarnation_{};
  RingGeometry geometry_{};
  ring::RingFile file_{};
  ring::RingError error_{};
  char stem_[kFileNameBytes]{};
  size_t stem_bytes_ = 0;
};

}  // namespace rollcall::capture
