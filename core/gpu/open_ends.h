// Marks behind calls that NCCL launches later (ncclInProgress): who records them, and when.
//
// The mark belongs behind the kernel, and onto a stream that is still there. Both are known to the
// thread whom ncclCommGetAsyncError has told that NCCL is through, until it returns from there:
// then that thread may destroy the stream, whoever made the call. So the first one that is told
// records the mark, be it the launching thread or a watchdog, and who is told meanwhile waits for
// it.
//
//   launching thread       take ─> filling ─> announced ── if nobody was told ──> open
//   a thread that asks     find open, ask NCCL, close: open ─> closing ─> marks ─> free
//   either, to give it up  close: announced, open ─> closing ─> free
//
// What NCCL tells is about this call only where the end was open before it was asked: while the
// launching thread is on its way in or out, the answer may be about the call before. Such an answer
// is noted (note_told), and the end is given up unmarked: by the launching thread, which reads the
// notes when it has announced the end, or by the one that was told, which looks for the end when it
// has noted so. Note and announcement are both written before the other is read, in one order for
// all threads: one of the two is seen. Only then is the end open for others to mark: who was told
// earlier may have destroyed the stream. An answer that came before the call is none about it: the
// launching thread remembers how many there were (answers).
//
// A default stream is another one in another thread, or with another device, and a capture is ended
// by the thread that began it: marks on such streams are the launching thread's alone.
//
// Bounded: kGpuOpenEndsMax places. A thread that ends with its end open leaves it to whoever is
// told, or ends the communicator. Where nobody does, or all streams are the thread's own, the place
// is lost, and so are the times of calls that find none.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "core/base/clock.h"
#include "core/base/limits.h"
#include "core/gpu/captures.h"
#include "core/gpu/driver.h"

namespace rollcall::gpu {

struct Group;
struct Pair;

// Which call, or end of a group; never used twice. 0: none.
using EndName = uint64_t;
constexpr EndName end_name_of_call(uint64_t ticket) { return ticket << 1; }
constexpr EndName end_name_of_group(uint32_t group) { return uint64_t{group} << 1 | 1; }

struct OpenEnd {
  enum State : uint64_t { free, filling, announced, open, closing };  // in this order
  std::atomic<uint64_t> word;                                         // name << 3 | State
  std::atomic<bool> is_launchers;                                     // all of its marks are
  // Of a group this, and nothing below.
  Group* group;
  // Of a call: its pair, or the mark of what it captured.
  Pair* pair;
  LaneMark lane;
  Stream lane_stream;
};

// Zeroes are its initial state.
class OpenEnds {
 public:
  bool is_empty() const noexcept { return taken_.load(std::memory_order_seq_cst) == 0; }

  // A place to fill in; null: all are taken.
  OpenEnd* take(EndName name) noexcept {
    for (OpenEnd& end : ends_) {
      uint64_t expected = OpenEnd::free;
      if (!end.word.compare_exchange_strong(expected, word_of(name, OpenEnd::filling))) continue;
      taken_.fetch_add(1, std::memory_order_seq_cst);
      end.is_launchers.store(false, std::memory_order_release);
      end.group = nullptr;
      end.pair = nullptr;
      end.lane = {};
      return &end;
    }
    return nullptr;
  }
  static void announce(OpenEnd& end, EndName name) noexcept {
    end.word.store(word_of(name, OpenEnd::announced), std::memory_order_seq_cst);
  }
  // Without effect where it has been given up meanwhile.
  static void open(OpenEnd& end, EndName name) noexcept {
    change(end, name, OpenEnd::announced, OpenEnd::open);
  }

  // Where it has come to this state at least, and is not finished.
  OpenEnd* find(EndName name, OpenEnd::State least) noexcept {
    if (is_empty()) return nullptr;
    for (OpenEnd& end : ends_) {
      if (is_there(end, name, least)) return &end;
    }
    return nullptr;
  }
  static bool is_there(const OpenEnd& end, EndName name, OpenEnd::State least) noexcept {
    const uint64_t word = end.word.load(std::memory_order_seq_cst);
    return word >= word_of(name, least) && word <= word_of(name, OpenEnd::closing);
  }
  // True: it is the caller's, who releases it. False: another one's, who was through when this
  // returned, unless it takes longer than anything that a driver does at once: the job goes on.
  bool close(OpenEnd& end, EndName name) noexcept {
    // In this order: it may be opened between the two.
    if (change(end, name, OpenEnd::announced, OpenEnd::closing) ||
        change(end, name, OpenEnd::open, OpenEnd::closing)) {
      return true;
    }
    uint64_t until_ns = 0;
    while (end.word.load(std::memory_order_acquire) == word_of(name, OpenEnd::closing)) {
      const uint64_t now_ns = monotonic_now_ns();
      if (until_ns == 0) until_ns = now_ns + kGpuEndWaitNs;
      if (now_ns > until_ns) break;
      sched_yield();
    }
    return false;
  }
  void release(OpenEnd& end) noexcept {
    end.word.store(OpenEnd::free, std::memory_order_release);
    taken_.fetch_sub(1, std::memory_order_seq_cst);
  }

  // Answers so far, about whatever communicator.
  uint64_t answers() const noexcept { return answers_.load(std::memory_order_acquire); }
  // Somebody was told that nothing is in progress on the communicator.
  void note_told(uint32_t comm_index) noexcept {
    const uint64_t number = answers_.fetch_add(1, std::memory_order_seq_cst) + 1;
    uint64_t newest = told_[comm_index].load(std::memory_order_seq_cst);
    while (newest < number && !told_[comm_index].compare_exchange_weak(newest, number)) {
    }
  }
  bool is_told_since(uint32_t comm_index, uint64_t answers) const noexcept {
    return comm_index < kCommsMax && told_[comm_index].load(std::memory_order_seq_cst) > answers;
  }

 private:
  static constexpr uint64_t word_of(EndName name, OpenEnd::State state) {
    return name << 3 | state;
  }
  static bool change(OpenEnd& end, EndName name, OpenEnd::State from, OpenEnd::State to) noexcept {
    uint64_t expected = word_of(name, from);
    return end.word.compare_exchange_strong(expected, word_of(name, to));
  }

  OpenEnd ends_[kGpuOpenEndsMax];
  std::atomic<uint32_t> taken_;
  std::atomic<uint64_t> answers_;
  std::atomic<uint64_t> told_[kCommsMax];  // the newest answer about each, by its number
};

}  // namespace rollcall::gpu
