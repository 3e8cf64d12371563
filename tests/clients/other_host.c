// Preloaded, it puts a process on another host: with a name of its own, and a clock that is wrong.
//
//   OTHER_HOST_NAME=node1 OTHER_HOST_AHEAD_NS=-90000000000 LD_PRELOAD=.../other_host.so PROGRAM
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long status = syscall(SYS_clock_gettime, clock, now);
  const char* const ahead = getenv("OTHER_HOST_AHEAD_NS");
  if (status != 0 || ahead == NULL) return (int)status;
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return 0;
  const long long time_ns = now->tv_sec * SECOND_NS + now->tv_nsec + atoll(ahead);
  now->tv_sec = time_ns / SECOND_NS;
  now->tv_nsec = time_ns % SECOND_NS;
  return 0;
}

int gethostname(char* name, size_t bytes) {
  const char* const own = getenv("OTHER_HOST_NAME");
  if (own == NULL || bytes <= strlen(own)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(name, own, strlen(own) + 1);
  return 0;
}
