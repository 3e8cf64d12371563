#include "core/gpu/captures.h"

#include <algorithm>

#include "core/base/atomic_word.h"
#include "core/base/clock.h"

namespace rollcall::gpu {

namespace {

const char gone_mark = 0;
const void* const kGone = &gone_mark;

class Guard {
 public:
  explicit Guard(pthread_mutex_t& mutex) noexcept : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Guard() { pthread_mutex_unlock(&mutex_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

uint32_t place_of(const void* executable) noexcept {
  const uint64_t address = reinterpret_cast<uintptr_t>(executable);
  return static_cast<uint32_t>(address * 0x9e3779b97f4a7c15 >> 40);
}

// The record has 32 bits for it, and 0 says that there is none.
uint32_t number_of(uint64_t capture) noexcept {
  const auto number = static_cast<uint32_t>(capture);
  return number != 0 ? number : 1;
}

}  // namespace

void Captures::begin(GraphEntry* entries, SelfStatistics* stats) noexcept {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  entries_ = entries;
  stats_ = stats;
}

Captures::Handle* Captures::find_handle(Graph graph) noexcept {
  Handle* const end = handles_ + handles_used_;
  Handle* const found =
      std::find_if(handles_, end, [&](const Handle& handle) { return handle.graph == graph; });
  return graph != nullptr && found != end ? found : nullptr;
}

void Captures::drop_handle(Handle& handle) noexcept {
  if (handle.graph == nullptr) return;
  if (handle.entry != kNoCapture && captures_[handle.entry].handles != 0) {
    --captures_[handle.entry].handles;
  }
  handle = {};
}

// Where there is no room, in turn: what is overwritten is the oldest, whose destruction was never
// heard of.
void Captures::add_handle(Graph graph, uint32_t entry) noexcept {
  if (graph == nullptr) return;
  Handle* handle = find_handle(graph);
  if (handle == nullptr) {
    handle = std::find_if(handles_, handles_ + handles_used_,
                          [](const Handle& other) { return other.graph == nullptr; });
    if (handle == handles_ + kHandlesMax) {
      handle = &handles_[next_handle_++ % kHandlesMax];
    } else if (handle == handles_ + handles_used_) {
      ++handles_used_;
    }
  }
  drop_handle(*handle);
  *handle = {graph, entry};
  if (entry != kNoCapture) ++captures_[entry].handles;
}

// A fresh one; when there is none, the oldest whose graph and executables are gone.
uint32_t Captures::take_entry() noexcept {
  const uint32_t used = used_.load(std::memory_order_relaxed);
  if (used < kGraphsMax) {
    used_.store(used + 1, std::memory_order_release);
    return used;
  }
  for (uint32_t i = 0; i < kGraphsMax; ++i) {
    const uint32_t entry = oldest_++ % kGraphsMax;
    if (captures_[entry].handles == 0 && captures_[entry].executables == 0) return entry;
  }
  return kNoCapture;
}

uint32_t Captures::join(uint64_t capture, Graph graph) noexcept {
  if (entries_ == nullptr) return kNoCapture;
  const Guard guard(mutex_);
  const uint32_t used = used_.load(std::memory_order_relaxed);
  for (uint32_t i = used; i-- > 0;) {
    if (captures_[i].identity == capture) return i;
  }
  const uint32_t number = take_entry();
  if (number == kNoCapture) {
    add_relaxed(stats_->graph_table_full, uint64_t{1});
    return kNoCapture;
  }
  GraphEntry& entry = entries_[number];
  store_release(entry.state, uint32_t{0});
  store_relaxed(entry.lanes, uint32_t{0});
  store_relaxed(entry.operations, uint32_t{0});
  store_relaxed(entry.launches, uint64_t{0});
  store_relaxed(entry.graph, number_of(capture));
  store_relaxed(entry.first_ticks, ticks_now());
  captures_[number] = {};
  captures_[number].identity = capture;
  const Handle* handle = find_handle(graph);
  captures_[number].has_no_marks = handle != nullptr && handle->entry == kNoCapture;
  add_handle(graph, number);
  store_release(entry.state, uint32_t{1});
  return number;
}

bool Captures::may_mark(uint32_t entry) noexcept {
  const Guard guard(mutex_);
  return !captures_[entry].has_no_marks;
}

Captures::Replay Captures::begin_replay(uint32_t entry) noexcept {
  Capture& capture = captures_[entry];
  add_relaxed(entries_[entry].launches, uint64_t{1});
  return {number_of(load_relaxed(capture.identity)), load_relaxed(capture.operations),
          add_relaxed(capture.launches, uint64_t{1})};
}

void Captures::refuse_replay(uint32_t entry) noexcept {
  add_relaxed(entries_[entry].launches, ~uint64_t{0});
  add_relaxed(captures_[entry].launches, ~uint64_t{0});
}

void Captures::add_operation(uint32_t entry) noexcept {
  add_relaxed(captures_[entry].operations, uint32_t{1});
  add_relaxed(entries_[entry].operations, uint32_t{1});
}

LaneMark Captures::next_mark(uint32_t number, Stream stream) noexcept {
  const Guard guard(mutex_);
  Capture& capture = captures_[number];
  GraphEntry& entry = entries_[number];
  uint32_t lane = 0;
  while (lane < capture.lanes && capture.stream[lane] != stream) ++lane;
  if (capture.has_no_marks || lane == kGraphLanesMax) return {};
  if (lane == capture.lanes) {
    capture.stream[lane] = stream;
    ++capture.lanes;
    store_relaxed(entry.stream[lane], uint64_t{reinterpret_cast<uintptr_t>(stream)});
    store_relaxed(entry.position[lane], uint64_t{0});
    store_release(entry.lanes, capture.lanes);
  }
  return {.position = &entry.position[lane],
          .number = capture.units[lane]++,
          .capture = number,
          .lane = lane};
}

bool Captures::is_marked(Graph graph) noexcept {
  const Guard guard(mutex_);
  const Handle* handle = find_handle(graph);
  if (handle == nullptr || handle->entry == kNoCapture) return false;
  return !captures_[handle->entry].has_no_marks && captures_[handle->entry].lanes != 0;
}

void Captures::give_marks_up(uint32_t entry) noexcept {
  const Guard guard(mutex_);
  captures_[entry].has_no_marks = true;
  captures_[entry].lanes = 0;
  store_release(entries_[entry].lanes, uint32_t{0});
}

void Captures::captures_into(Graph graph) noexcept {
  const Guard guard(mutex_);
  if (find_handle(graph) == nullptr) add_handle(graph, kNoCapture);
}

void Captures::cloned(Graph clone, Graph graph) noexcept {
  const Guard guard(mutex_);
  const Handle* handle = find_handle(graph);
  if (handle != nullptr) add_handle(clone, handle->entry);
}

void Captures::destroyed(Graph graph) noexcept {
  const Guard guard(mutex_);
  Handle* handle = find_handle(graph);
  if (handle != nullptr) drop_handle(*handle);
}

void Captures::forget_executable(const void* executable) noexcept {
  for (uint32_t probe = 0; probe < kProbesMax; ++probe) {
    Place& place = places_[(place_of(executable) + probe) & (kGraphExecutablesMax - 1)];
    const void* there = place.executable.load(std::memory_order_relaxed);
    if (there == nullptr) return;
    if (there != executable) continue;
    const uint32_t entry = place.entry.load(std::memory_order_relaxed);
    if (captures_[entry].executables != 0) --captures_[entry].executables;
    place.executable.store(kGone, std::memory_order_release);
    executables_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
}

void Captures::instantiated(const void* executable, Graph graph) noexcept {
  if (executable == nullptr || entries_ == nullptr) return;
  const Guard guard(mutex_);
  forget_executable(executable);
  const Handle* handle = find_handle(graph);
  if (handle == nullptr || handle->entry == kNoCapture) return;
  for (uint32_t probe = 0; probe < kProbesMax; ++probe) {
    Place& place = places_[(place_of(executable) + probe) & (kGraphExecutablesMax - 1)];
    const void* there = place.executable.load(std::memory_order_relaxed);
    if (there != nullptr && there != kGone) continue;
    place.entry.store(handle->entry, std::memory_order_relaxed);
    place.executable.store(executable, std::memory_order_release);
    executables_.fetch_add(1, std::memory_order_relaxed);
    ++captures_[handle->entry].executables;
    return;
  }
  add_relaxed(stats_->graph_table_full, uint64_t{1});
}

void Captures::executable_destroyed(const void* executable) noexcept {
  if (executable == nullptr) return;
  const Guard guard(mutex_);
  forget_executable(executable);
}

uint32_t Captures::find(const void* executable) const noexcept {
  if (executables_.load(std::memory_order_relaxed) == 0) return kNoCapture;
  for (uint32_t probe = 0; probe < kProbesMax; ++probe) {
    const Place& place = places_[(place_of(executable) + probe) & (kGraphExecutablesMax - 1)];
    const void* there = place.executable.load(std::memory_order_acquire);
    if (there == executable) return place.entry.load(std::memory_order_relaxed);
    if (there == nullptr) return kNoCapture;
  }
  return kNoCapture;
}

}  // namespace rollcall::gpu
