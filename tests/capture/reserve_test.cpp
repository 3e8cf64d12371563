// File systems and kernels that keep less of their promises than those at hand: the system calls by
// which the ring file gets its space and its lock are stood in for.
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include <cstdarg>

#include "core/capture/live.h"
#include "tests/capture/hung_disk.h"
#include "tests/capture/own_process.h"
#include "tests/capture/small_disk.h"
#include "tests/catch.h"

namespace {

bool promises_only = false;  // space is said to be reserved, and is not
bool kernel_is_old = false;  // before 5.14
bool heeds_signals = false;  // gives up where one waits, as tmpfs of older kernels
bool has_no_locks = false;
volatile sig_atomic_t alarms = 0;

}  // namespace

// In front of the C library's.
extern "C" int posix_fallocate(int descriptor, off_t offset, off_t bytes) {
  if (heeds_signals) {
    kill(getpid(), SIGALRM);
    if (alarms != 0) return EINTR;
  }
  if (promises_only) return ftruncate(descriptor, offset + bytes) == 0 ? 0 : errno;
  using Reserve = int (*)(int, off_t, off_t);
  static const auto real = reinterpret_cast<Reserve>(dlsym(RTLD_NEXT, "posix_fallocate"));
  return real(descriptor, offset, bytes);
}

extern "C" int fstatvfs(int descriptor, struct statvfs* disk) noexcept {
  rollcall::test::ask_disk();
  if (promises_only) {
    *disk = {};
    return 0;
  }
  using Ask = int (*)(int, struct statvfs*);
  static const auto real = reinterpret_cast<Ask>(dlsym(RTLD_NEXT, "fstatvfs"));
  return real(descriptor, disk);
}

extern "C" int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (has_no_locks && command == F_SETLK) {
    errno = ENOLCK;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fcntl, descriptor, command, argument));
}

extern "C" int madvise(void* address, size_t bytes, int advice) noexcept {
  constexpr int kPopulateWrite = 23;
  if (kernel_is_old && advice == kPopulateWrite) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

namespace rollcall {
namespace reserve_test {

using test::ended_well;
using test::in_own_process;
using test::on_small_disk;
using test::TemporaryDirectory;

char comm;

void record(int calls) { test::record_all_reduces(&comm, calls); }

void find_no_space(const TemporaryDirectory& directory) {
  on_small_disk(directory, "size=2m", [](const std::string&) {
    promises_only = true;
    record(10);
    CHILD_REQUIRE(!capture::enabled());
  });
  CHECK(directory.files(".ring").empty());
}

TEST_CASE("space that was promised and is not there is found at the start, without SIGBUS") {
  find_no_space(TemporaryDirectory());
}

TEST_CASE("a kernel that cannot populate pages finds it, too") {
  kernel_is_old = true;
  find_no_space(TemporaryDirectory());
  kernel_is_old = false;
}

TEST_CASE("a kernel that cannot populate pages records") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    kernel_is_old = true;
    record(10);
  })));
  CHECK(test::read_ring(directory.files(".ring").at(0)).ops.size() == 10);
}

TEST_CASE("a signal that comes while space is reserved waits, and reaches the job") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    signal(SIGALRM, [](int) { alarms = alarms + 1; });
    heeds_signals = true;
    record(10);
    CHILD_REQUIRE(capture::enabled());
    CHILD_REQUIRE(alarms == 1);
  })));
  CHECK(test::read_ring(directory.files(".ring").at(0)).ops.size() == 10);
}

TEST_CASE("a file system without locks is recorded to, and readers are told to ask for none") {
  for (const bool without : {false, true}) {
    const TemporaryDirectory directory;
    CHECK(ended_well(in_own_process(directory.path(), [&] {
      has_no_locks = without;
      record(10);
    })));
    const test::RingContents ring = test::read_ring(directory.files(".ring").at(0));
    CHECK(ring.ops.size() == 10);
    CHECK(ring.header.is_unlocked == (without ? 1 : 0));
  }
}

}  // namespace reserve_test
}  // namespace rollcall
