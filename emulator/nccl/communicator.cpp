#include "emulator/nccl/communicator.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <shared_mutex>
#include <unordered_map>

#include "emulator/nccl/patient_open.h"
#include "emulator/nccl/settings.h"

namespace emu_nccl {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<ncclComm_t, CommunicatorPointer> live;
};

Registry& registry() {
  static Registry* const one = new Registry;  // outlives every thread
  return *one;
}

}  // namespace

uint64_t UnitOrder::add() {
  std::lock_guard<std::mutex> lock(mutex_);
  pending_.insert(next_);
  return next_++;
}

bool UnitOrder::is_first(uint64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  return !pending_.empty() && *pending_.begin() == number;
}

void UnitOrder::remove(uint64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  pending_.erase(number);
  changed_.notify_all();
}

bool UnitOrder::empty() {
  std::lock_guard<std::mutex> lock(mutex_);
  return pending_.empty();
}

void UnitOrder::wait_empty(const std::atomic<bool>& give_up) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!pending_.empty() && !give_up.load()) {
    changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
}

void Windows::add(const void* buffer, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(buffer);
  ends_[begin] = begin + bytes;
}

void Windows::remove(const void* buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ends_.erase(reinterpret_cast<uintptr_t>(buffer));
}

bool Windows::hold(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto next = ends_.upper_bound(reinterpret_cast<uintptr_t>(address));
  return next != ends_.begin() && reinterpret_cast<uintptr_t>(address) < std::prev(next)->second;
}

ncclResult_t Communicator::asynchronous_error() {
  const ncclResult_t known = error.load();
  if (known != ncclSuccess) return known;
  if (state.load() == kInitialising || in_progress.load() > 0) return ncclInProgress;
  // NCCL notices a peer's end while something is under way, not before.
  if (!region || stopped() || units.empty()) return ncclSuccess;
  const bool look_for_dead = settings().peer_death == "error";
  for (int peer = 0; peer < ranks; ++peer) {
    RankSlot& slot = region->slot(peer);
    if (slot.aborted.load() != 0 ||
        (look_for_dead && process_is_gone(slot.pid, slot.process_started))) {
      error.store(ncclRemoteError);
      return ncclRemoteError;
    }
  }
  return ncclSuccess;
}

ncclComm_t register_communicator(const CommunicatorPointer& communicator) {
  const ncclComm_t handle = reinterpret_cast<ncclComm_t>(communicator.get());
  std::unique_lock<std::shared_mutex> lock(registry().mutex);
  registry().live[handle] = communicator;
  return handle;
}

CommunicatorPointer find_communicator(ncclComm_t handle) {
  std::shared_lock<std::shared_mutex> lock(registry().mutex);
  const auto found = registry().live.find(handle);
  return found == registry().live.end() ? nullptr : found->second;
}

void forget_communicator(ncclComm_t handle) {
  CommunicatorPointer last;  // destroyed without the lock
  std::unique_lock<std::shared_mutex> lock(registry().mutex);
  const auto found = registry().live.find(handle);
  if (found == registry().live.end()) return;
  last = std::move(found->second);
  registry().live.erase(found);
  lock.unlock();
}

// The state letter and the start time of /proc/<pid>/stat; false when there is no such process.
static bool read_process(int pid, char* state, uint64_t* started) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const int file = open_patiently(path, O_RDONLY);
  if (file < 0) return false;
  char text[1024];
  const ssize_t length = read(file, text, sizeof(text) - 1);  // the kernel gives it in one piece
  close(file);
  if (length <= 0) return false;
  text[length] = '\0';
  // The name may contain anything; the fields start behind its closing parenthesis.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return false;
  unsigned long long ticks = 0;
  if (std::sscanf(
          at + 1,
          " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", state,
          &ticks) != 2) {
    return false;
  }
  *started = ticks;
  return true;
}

uint64_t process_started(int pid) {
  char state = 0;
  uint64_t started = 0;
  return read_process(pid, &state, &started) ? started : 0;
}

bool process_is_gone(int pid, uint64_t started) {
  char state = 0;
  uint64_t now = 0;
  if (!read_process(pid, &state, &now)) return true;
  return state == 'Z' || state == 'X' || (started != 0 && now != started);
}

}  // namespace emu_nccl
