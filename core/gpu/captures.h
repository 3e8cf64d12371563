// Which CUDA graphs hold captured operations, which executables were made of them, and the marks
// that say how far a replay has come (GraphEntry of the ring file).
//
// A graph is known by its handle, which the driver tells during the capture; the calls that make an
// executable of it, change, copy or destroy it are told by the shim (recorder.h). A handle that is
// used again by the driver is another graph: whoever destroys one has to be heard.
//
// Threads: find() is lock-free; everything else takes a lock, and none of it is on the path of an
// operation that is not captured.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "core/base/limits.h"
#include "core/format/ring_layout.h"
#include "core/gpu/driver.h"

namespace rollcall::gpu {

inline constexpr uint32_t kNoCapture = 0xffffffff;

// The place of one operation (or of a group's share) on a lane. Null: there is no place.
struct LaneMark {
  uint64_t* position = nullptr;  // in the file; written by the GPU, read by nobody here
  uint64_t number = 0;
  uint32_t capture = kNoCapture;
  uint32_t lane = 0;
  uint64_t started() const { return number * 2 + 1; }
  uint64_t finished() const { return number * 2 + 2; }
};

class Captures {
 public:
  // Zeroes are its initial state.
  void begin(GraphEntry* entries, SelfStatistics* stats) noexcept;

  // --- while capturing
  // The entry of this capture, made where it is new; kNoCapture, counted, when the table is full.
  uint32_t join(uint64_t capture, Graph graph) noexcept;
  // False for a graph that the capture was told to go into (cuStreamBeginCaptureToGraph): it may be
  // the body of a conditional node, where marks are not allowed.
  bool may_mark(uint32_t entry) noexcept;
  void add_operation(uint32_t entry) noexcept;
  LaneMark next_mark(uint32_t entry, Stream stream) noexcept;
  // The driver's number of the capture that a mark is for.
  uint64_t identity_of(const LaneMark& mark) const noexcept {
    return captures_[mark.capture].identity;
  }
  // The node of its lane that was put last (marks.h): the capturing thread's.
  Node& newest_mark(const LaneMark& mark) noexcept {
    return captures_[mark.capture].newest_mark[mark.lane];
  }
  // This graph holds marks.
  bool is_marked(Graph graph) noexcept;
  // Marks would no longer tell which operation they stand for.
  void give_marks_up(uint32_t entry) noexcept;

  // --- what becomes of graphs
  void captures_into(Graph graph) noexcept;
  void cloned(Graph clone, Graph graph) noexcept;
  void destroyed(Graph graph) noexcept;
  // Also when an executable is brought up to date from another graph.
  void instantiated(const void* executable, Graph graph) noexcept;
  void executable_destroyed(const void* executable) noexcept;

  // The entry whose operations an executable replays; kNoCapture: none are known.
  uint32_t find(const void* executable) const noexcept;
  // One more replay of it, and one that was counted and did not come to be.
  struct Replay {
    uint32_t graph = 0;  // OpRecord::graph; 0: none
    uint32_t operations = 0;
    uint64_t number = 0;  // from 0
  };
  Replay begin_replay(uint32_t entry) noexcept;
  void refuse_replay(uint32_t entry) noexcept;
  GraphEntry* entries() noexcept { return entries_; }
  uint32_t entry_count() const noexcept { return used_.load(std::memory_order_acquire); }

 private:
  // What the file's entry says as well, which is for readers and is not read back.
  struct Capture {
    uint64_t identity;
    uint64_t launches;
    uint32_t operations;
    uint32_t lanes;
    Stream stream[kGraphLanesMax];
    uint32_t handles;      // graphs
    uint32_t executables;  // that exist
    bool has_no_marks;
    uint64_t units[kGraphLanesMax];
    Node newest_mark[kGraphLanesMax];
  };
  struct Handle {
    Graph graph;     // null: free
    uint32_t entry;  // kNoCapture: captured into on request
  };
  struct Place {
    std::atomic<const void*> executable;  // null: never used, kGone: used no more
    std::atomic<uint32_t> entry;
  };
  static constexpr uint32_t kHandlesMax = 2 * kGraphsMax;
  static constexpr uint32_t kProbesMax = 64;

  Handle* find_handle(Graph graph) noexcept;
  void add_handle(Graph graph, uint32_t entry) noexcept;
  void drop_handle(Handle& handle) noexcept;
  uint32_t take_entry() noexcept;
  void forget_executable(const void* executable) noexcept;

  pthread_mutex_t mutex_;
  GraphEntry* entries_;  // of the file; null: no table
  SelfStatistics* stats_;
  std::atomic<uint32_t> used_;  // entries ever used
  uint32_t oldest_;             // where the search for a free one goes on
  uint32_t handles_used_;       // those from here on never were
  uint32_t next_handle_;
  std::atomic<uint32_t> executables_;
  Capture captures_[kGraphsMax];
  Handle handles_[kHandlesMax];
  Place places_[kGraphExecutablesMax];
};

}  // namespace rollcall::gpu
