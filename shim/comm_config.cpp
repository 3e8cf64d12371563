#include "shim/comm_config.h"

#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/keep_errno.h"
#include "core/base/open_file.h"

namespace rollcall::shim {
namespace {

constexpr uintptr_t kPageBytes = 4096;  // the smallest there is: a finer split is harmless

// NCCL_COMM_BLOCKING overrides what the program asked for.
void apply_environment(CommConfig& config) {
  const char* blocking = getenv("NCCL_COMM_BLOCKING");
  if (blocking == nullptr) return;
  if (strcmp(blocking, "0") == 0) config.non_blocking = true;
  if (strcmp(blocking, "1") == 0) config.non_blocking = false;
}

void read_name(CommConfig& config, const char* name_untrusted) {
  char copy[kCommNameBytes - 1];
  const size_t readable = copy_if_readable(copy, name_untrusted, sizeof(copy));
  const size_t bytes = strnlen(copy, readable);
  // Without an end inside a readable piece shorter than asked for, this is no string.
  if (bytes == readable && readable < sizeof(copy)) return;
  memcpy(config.name, copy, bytes);
}

}  // namespace

namespace {

size_t copy_from_memory_file(void* to, const void* from, size_t size) noexcept {
  const int memory = open_file("/proc/self/mem", O_RDONLY);
  if (memory < 0) return 0;
  const ssize_t copied =
      pread(memory, to, size, static_cast<off_t>(reinterpret_cast<uintptr_t>(from)));
  close(memory);
  return copied > 0 ? static_cast<size_t>(copied) : 0;
}

// The same without the system call, which filters of containers refuse beside ptrace. A thread of
// the job that is being cancelled is not to end in here, where nothing may be thrown.
size_t copy_by_file(void* to, const void* from, size_t size) noexcept {
  int cancel_before = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before);
  const size_t copied = copy_from_memory_file(to, from, size);
  pthread_setcancelstate(cancel_before, nullptr);
  return copied;
}

}  // namespace

size_t copy_if_readable(void* to, const void* from, size_t size) noexcept {
  const KeepErrno keep;
  if (from == nullptr || size > kReadableBytesMax) return 0;
  // One piece per page: the kernel copies whole pieces until the first that faults.
  iovec remote[kReadableBytesMax / kPageBytes + 1];
  unsigned pieces = 0;
  uintptr_t at = reinterpret_cast<uintptr_t>(from);
  for (size_t left = size; left != 0; ++pieces) {
    const size_t bytes = std::min(left, kPageBytes - at % kPageBytes);
    remote[pieces] = {reinterpret_cast<void*>(at), bytes};
    at += bytes;
    left -= bytes;
  }
  iovec local = {to, size};
  const ssize_t copied = process_vm_readv(getpid(), &local, 1, remote, pieces, 0);
  if (copied < 0 && (errno == EPERM || errno == ENOSYS)) return copy_by_file(to, from, size);
  return copied > 0 ? static_cast<size_t>(copied) : 0;
}

CommConfig read_config(const nccl::Config* config, bool inherited_non_blocking) noexcept {
  CommConfig result;
  result.non_blocking = config == nullptr && inherited_non_blocking;
  nccl::ConfigHead head = {};
  const size_t readable = config == nullptr ? 0 : copy_if_readable(&head, config, sizeof(head));
  const size_t valid = std::min(readable, head.size);
  if (valid >= nccl::kConfigBytesBlocking && head.magic == nccl::kApiMagic) {
    if (head.blocking != nccl::kConfigUndefInt) result.non_blocking = head.blocking == 0;
    if (valid >= nccl::kConfigBytesName && head.version >= nccl::kConfigVersionName &&
        head.comm_name != nullptr)
      read_name(result, head.comm_name);
  }
  apply_environment(result);
  return result;
}

}  // namespace rollcall::shim
