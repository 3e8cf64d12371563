#include "core/capture/background_thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "core/base/keep_errno.h"

namespace rollcall::capture {

namespace {
// Room, not memory: what is not touched costs none. The static TLS of the job's libraries is taken
// from it.
constexpr size_t kStackBytes = 1024 * 1024;
constexpr time_t kBirthSeconds = 1;

// What the new thread needs to know, on a page of its own: its creator may not wait for it.
struct Birth {
  const char* name;
  void* (*run)(void*);
  void* argument;
  std::atomic<uint32_t> has_begun;
};

Birth* make_birth(const char* name, void* (*run)(void*), void* argument) noexcept {
  void* memory =
      mmap(nullptr, sizeof(Birth), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? new (memory) Birth{name, run, argument, 0} : nullptr;
}

void* begin(void* memory) {
  auto* birth = static_cast<Birth*>(memory);
  void* (*const run)(void*) = birth->run;
  void* const argument = birth->argument;
  prctl(PR_SET_NAME, birth->name);
  birth->has_begun.store(1, std::memory_order_release);
  // The page may be gone by now: to wake is to name an address.
  syscall(SYS_futex, &birth->has_begun, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  return run(argument);
}

bool wait_for(const Birth& birth) noexcept {
  const timespec patience{.tv_sec = kBirthSeconds, .tv_nsec = 0};
  for (;;) {
    if (birth.has_begun.load(std::memory_order_acquire) != 0) return true;
    const long waited =
        syscall(SYS_futex, &birth.has_begun, FUTEX_WAIT_PRIVATE, 0, &patience, nullptr, 0);
    if (waited != 0 && errno != EINTR && errno != EAGAIN) return false;
  }
}
}  // namespace

bool start_background_thread(const char* name, void* (*run)(void*), void* argument) noexcept {
  const KeepErrno keep;
  Birth* birth = make_birth(name, run, argument);
  if (birth == nullptr) return false;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    munmap(birth, sizeof(Birth));
    return false;
  }
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // The new thread inherits the mask: it never sees one of the job's signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool created = pthread_create(&thread, &attributes, begin, birth) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!created || wait_for(*birth)) munmap(birth, sizeof(Birth));
  return created;
}

}  // namespace rollcall::capture
