#include "shim/comm_tracking.h"

#include <pthread.h>

#include <atomic>

#include "core/base/keep_errno.h"
#include "shim/comm_config.h"
#include "shim/ended_handles.h"
#include "shim/failures.h"

namespace rollcall::shim {
namespace {

struct Pending {
  nccl::Comm* where = nullptr;   // null: free
  const void* thread = nullptr;  // whose group it waits for; null: the group has ended
  uint32_t index = kCommUnknown;
  Site site;
};

// As many as the file has entries for: what finds no place here has none there.
constexpr unsigned kPendingMax = kCommsMax;
Pending g_pending[kPendingMax];
unsigned g_pending_end = 0;                // behind the last that was ever used
std::atomic<unsigned> g_pending_count{0};  // spares every other group the lock
pthread_mutex_t g_pending_lock = PTHREAD_MUTEX_INITIALIZER;

// A thread's identity for as long as it is inside a group.
const void* this_thread() {
  static thread_local const char t_anchor __attribute__((tls_model("initial-exec"))) = 0;
  return &t_anchor;
}

void keep_pending(const Site& site, uint32_t index, nccl::Comm* where, bool in_group) {
  pthread_mutex_lock(&g_pending_lock);
  Pending* place = nullptr;
  for (unsigned i = 0; i < g_pending_end; ++i) {
    Pending& pending = g_pending[i];
    if (pending.where == where) {  // the same variable again: what it held is history
      place = &pending;
      break;
    }
    if (place == nullptr && pending.where == nullptr) place = &pending;
  }
  if (place == nullptr && g_pending_end < kPendingMax) place = &g_pending[g_pending_end++];
  if (place != nullptr) {
    if (place->where == nullptr) g_pending_count.fetch_add(1, std::memory_order_relaxed);
    *place = {where, in_group ? this_thread() : nullptr, index, site};
  }
  pthread_mutex_unlock(&g_pending_lock);
}

void release(Pending& pending) {
  pending = {};
  g_pending_count.fetch_sub(1, std::memory_order_relaxed);
}

// What NCCL has stored for one that is in no group any more; false where that cannot be read. The
// variable may be gone by now, if the job keeps its handles elsewhere.
bool read_handle(const Pending& pending, nccl::Comm& handle) {
  return pending.thread == nullptr &&
         copy_if_readable(&handle, pending.where, sizeof(nccl::Comm)) == sizeof(nccl::Comm);
}

// Takes the next one from `at` on that `takes` wants out of the table. What is to be done with it
// asks NCCL and the recorder, and is done without the lock.
template <typename Takes>
bool take_pending(unsigned& at, Takes takes, Pending& taken) {
  bool is_found = false;
  pthread_mutex_lock(&g_pending_lock);
  for (; !is_found && at < g_pending_end; ++at) {
    Pending& pending = g_pending[at];
    if (pending.where == nullptr || !takes(pending)) continue;
    taken = pending;
    release(pending);
    is_found = true;
  }
  pthread_mutex_unlock(&g_pending_lock);
  return is_found;
}

CommState state_of(uint32_t index) {
  const CommEntry* entry = capture::comm_entry(index);
  return entry != nullptr ? static_cast<CommState>(__atomic_load_n(&entry->state, __ATOMIC_ACQUIRE))
                          : CommState::empty;
}

int ask(nccl::CommQuery query, nccl::Comm comm) {
  int value = -1;
  return query != nullptr && query(comm, &value) == nccl::kSuccess ? value : -1;
}

void bind(uint32_t index, nccl::Comm comm) {
  g_ended_handles.remove(comm);
  capture::bind_comm(index, comm);
}

bool is_non_blocking(uint32_t index) {
  const CommEntry* entry = capture::comm_entry(index);
  return entry != nullptr && entry->non_blocking != 0;
}

// NCCL creates it on a thread of its own, which the creating call does not wait for: it is the
// parent that blocks or not, where there is one.
bool comes_later(uint32_t index) {
  const CommEntry* entry = capture::comm_entry(index);
  if (entry == nullptr) return false;
  return is_non_blocking(entry->parent_index != kCommUnknown ? entry->parent_index : index);
}

// The call that created it is over and was not refused.
void settle(const Site& site, uint32_t index, nccl::Comm comm, nccl::Result result) {
  if (comm == nullptr) {
    // Nothing was created, or not yet.
    if (result == nccl::kSuccess && index != kCommUnknown) {
      capture::close_comm(index, CommState::none);
    }
    return;
  }
  // One that the file has no room for, at the address of one that has ended.
  if (index == kCommUnknown) return g_ended_handles.remove(comm);
  if (capture::find_comm(comm) != index) bind(index, comm);
  if (result == nccl::kSuccess && !is_non_blocking(index)) became_ready(site, index, comm);
}

}  // namespace

void forget_pending_after_fork() noexcept { pthread_mutex_init(&g_pending_lock, nullptr); }

void creation_returned(const Site& site, uint32_t index, nccl::Comm* where,
                       nccl::Result result) noexcept {
  if (where == nullptr) return;
  const KeepErrno keep;
  if (is_failure(result)) {
    if (index != kCommUnknown) capture::close_comm(index, CommState::failed);
    return;
  }
  // In a group the caller's variable may still hold anything: it is not looked at.
  const bool in_group = capture::current_group() != 0;
  // Of a split NCCL may say at once that it succeeded, and make the handle afterwards.
  const bool is_over = result == nccl::kSuccess && !comes_later(index);
  if (!in_group && (is_over || *where != nullptr))
    settle(site, index, *where, result);
  else
    keep_pending(site, index, where, in_group);
}

void group_returned(const Site& site, nccl::Result result) noexcept {
  if (g_pending_count.load(std::memory_order_relaxed) == 0) return;
  const KeepErrno keep;
  const auto is_mine = [&](Pending& pending) {
    if (pending.thread != this_thread()) return false;
    if (result != nccl::kInProgress || *pending.where != nullptr) return true;
    pending.thread = nullptr;  // NCCL's thread fills the handle in
    return false;
  };
  Pending mine;
  for (unsigned at = 0; take_pending(at, is_mine, mine);) {
    if (!is_failure(result)) {
      settle(site, mine.index, *mine.where, result);
    } else if (mine.index != kCommUnknown) {
      capture::close_comm(mine.index, CommState::failed);
    }
  }
}

void children_arrived(uint32_t parent) noexcept {
  if (g_pending_count.load(std::memory_order_relaxed) == 0) return;
  const KeepErrno keep;
  nccl::Comm handle = nullptr;
  const auto has_arrived = [&](const Pending& pending) {
    const CommEntry* entry = capture::comm_entry(pending.index);
    return entry != nullptr && entry->parent_index == parent && read_handle(pending, handle);
  };
  Pending arrived;
  for (unsigned at = 0; take_pending(at, has_arrived, arrived);) {
    settle(arrived.site, arrived.index, handle, nccl::kSuccess);
  }
}

uint32_t index_of_comm(nccl::Comm comm) noexcept {
  const uint32_t index = capture::find_comm(comm);
  if (index != kCommUnknown || comm == nullptr) return index;
  if (g_pending_count.load(std::memory_order_relaxed) == 0) return index;
  const auto is_it = [&](const Pending& pending) {
    nccl::Comm written = nullptr;
    return read_handle(pending, written) && written == comm;
  };
  Pending found;
  unsigned at = 0;
  if (!take_pending(at, is_it, found)) return kCommUnknown;
  if (found.index == kCommUnknown)
    g_ended_handles.remove(comm);
  else
    bind(found.index, comm);
  return found.index;
}

void became_ready(const Site& site, uint32_t index, nccl::Comm comm) noexcept {
  if (state_of(index) != CommState::initialising) return;
  const KeepErrno keep;  // NCCL is asked
  const Queries& queries = queries_of(site.copy);
  capture::comm_ready(index, ask(queries.count, comm), ask(queries.rank, comm),
                      ask(queries.device, comm), 0);
}

bool comm_ending(nccl::Comm comm, CommState state) noexcept {
  const bool ends = state == CommState::destroyed || state == CommState::aborted;
  if (!ends || comm == nullptr || g_ended_handles.has(comm)) return false;
  g_ended_handles.add(comm);
  g_call_flags.has_ended_handles.store(true, std::memory_order_relaxed);
  return true;
}

void comm_goes_on(nccl::Comm comm) noexcept { g_ended_handles.remove(comm); }

}  // namespace rollcall::shim
