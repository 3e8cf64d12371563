#include "core/capture/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include <cstddef>

namespace rollcall::capture {

namespace {
// Room, not memory: what is not touched costs none. The static TLS of the job's libraries is taken
// from it.
constexpr size_t kStackBytes = 1024 * 1024;
}  // namespace

bool start_background_thread(const char* name, void* (*run)(void*), void* argument) noexcept {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // The new thread inherits the mask: it never sees one of the job's signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool created = pthread_create(&thread, &attributes, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (created) pthread_setname_np(thread, name);
  return created;
}

}  // namespace rollcall::capture
