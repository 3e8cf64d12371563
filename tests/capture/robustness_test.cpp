// Whatever fails around the recorder, the job goes on: no directory, no disk, no threads, forks.
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include <thread>

#include "core/capture/live.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

#if defined(__SANITIZE_THREAD__)
// A forked child that records has a flusher of its own; to the thread sanitizer that is an error
// unless it is told that it is meant.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace rollcall {
namespace robustness_test {

using test::all_reduce;
using test::ended_well;
using test::forbid_threads;
using test::in_own_process;
using test::limit;
using test::TemporaryDirectory;

char comm;

void record(int calls) { test::record_all_reduces(&comm, calls); }

size_t thread_count() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    count += entry.is_directory();
  }
  return count;
}

// Who holds the lock that says "this process lives"; 0: nobody. Not for the holder itself: closing
// the descriptor would drop it.
pid_t lock_holder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return -1;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  fcntl(descriptor, F_GETLK, &lock);
  close(descriptor);
  return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

TEST_CASE("of a host name as long as Linux allows all fits but its last character") {
  constexpr int kSkipped = 77;
  const TemporaryDirectory directory;
  const int status = in_own_process(directory.path(), [] {
    const int user = geteuid() == 0 ? 0 : CLONE_NEWUSER;
    const std::string longest(HOST_NAME_MAX, 'h');
    const bool is_named =
        unshare(CLONE_NEWUTS | user) == 0 && sethostname(longest.data(), longest.size()) == 0;
    if (!is_named) _exit(kSkipped);
    record(1);
    capture::flush_at_exit();
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) {
    WARN("skipped: needs root, or a user who may make namespaces");
    return;
  }
  CHECK(ended_well(status));
  const test::RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(std::string(ring.header.host) == std::string(kHostNameBytes - 1, 'h'));
}

TEST_CASE("a run directory that is a file leaves capture off and the job alone") {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "x";
  CHECK(ended_well(in_own_process(file + "/sub", [] {
    record(10);
    if (capture::enabled()) _exit(1);
    capture::flush_at_exit();
  })));
  CHECK(directory.files(".ring").empty());
}

TEST_CASE("a file size limit below the ring does not kill the job and leaves no file") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    limit(RLIMIT_FSIZE, 100000);
    record(10);
    if (capture::enabled()) _exit(1);
  })));
  CHECK(directory.files(".ring").empty());
}

TEST_CASE("a file size limit between ring and segments costs history, counted") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_RING_SLOTS", "64", 1);
    limit(RLIMIT_FSIZE, 4 << 20);
    record(10);
    limit(RLIMIT_FSIZE, 10);
    record(10);
    capture::flush_at_exit();
  })));
  REQUIRE(directory.files(".ring").size() == 1);
  const test::RingContents ring = test::read_ring(directory.files(".ring")[0]);
  CHECK(ring.verdict == HeaderVerdict::fine);
  CHECK(ring.stats.history_errors > 0);
  CHECK(ring.ops.size() == 20);
}

TEST_CASE("no descriptor left: nothing is recorded, or only the ring, and the job goes on") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    limit(RLIMIT_NOFILE, 3);
    record(10);
    if (capture::enabled()) _exit(1);
  })));
  CHECK(directory.files(".ring").empty());
}

// Whose numbers these are, as the kernel says; empty where one is closed.
std::string target_of(int descriptor) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), error);
}

// To ThreadSanitizer a descriptor that is opened and one that is written to are a race.
#if !defined(__SANITIZE_THREAD__)
TEST_CASE("with standard descriptors closed, and few allowed, no file of ours gets their numbers") {
  for (const rlim_t allowed : {rlim_t{64}, rlim_t{8}, rlim_t{1024}}) {
    // In memory: from a disk that answers late the ring goes elsewhere, for which few descriptors
    // may not be enough.
    const TemporaryDirectory directory(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(ended_well(in_own_process(directory.path(), [&] {
      setenv("ROLLCALL_RING_SLOTS", "64", 1);
      setenv("ROLLCALL_CHROME_TRACE", "1", 1);
      for (int number = 3; number < 64; ++number) close(number);
      limit(RLIMIT_NOFILE, allowed);
      close(STDIN_FILENO);
      close(STDOUT_FILENO);
      record(10);
      CHILD_REQUIRE(capture::enabled());
      const int highest = static_cast<int>(std::min<rlim_t>(allowed - 1, ring::kDescriptorFloor));
      CHILD_REQUIRE(capture::ring_file().descriptor == highest);
      for (int round = 0; round < 2000; ++round) {
        record(10);
        CHILD_REQUIRE(write(STDOUT_FILENO, "x", 1) < 0 && errno == EBADF);
      }
      CHILD_REQUIRE(target_of(STDIN_FILENO).empty());
      CHILD_REQUIRE(target_of(STDOUT_FILENO).empty());
      capture::flush_at_exit();
    })));
    const test::RingContents ring = test::read_ring(directory.files(".ring").at(0));
    CHECK(ring.verdict == HeaderVerdict::fine);
    CHECK(ring.stats.history_errors == 0);
  }
}
#endif

TEST_CASE("with no number left but the standard ones nothing is recorded") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    for (int number = 3; number < 64; ++number) close(number);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    limit(RLIMIT_NOFILE, 3);
    record(10);
    if (capture::enabled()) _exit(1);
    CHILD_REQUIRE(target_of(STDOUT_FILENO).empty());
  })));
  CHECK(directory.files(".ring").empty());
}

TEST_CASE("calls that succeed leave errno as it was, the first of each kind included") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path() + "/not/there/yet", [] {
    errno = 12345;
    capture::add_meta("key", "value");
    CHILD_REQUIRE(errno == 12345);
    record(1);
    CHILD_REQUIRE(errno == 12345);
    test::open_test_comm(&comm);
    CHILD_REQUIRE(errno == 12345);
    capture::OpCall send = all_reduce(&comm, 1);
    send.kind = OpKind::Send;
    send.root_or_peer = 1;
    capture::end_op(capture::begin_op(send), 0);
    CHILD_REQUIRE(errno == 12345);
    const pid_t child = fork();
    CHILD_REQUIRE(errno == 12345);
    record(1);
    CHILD_REQUIRE(errno == 12345);
    if (child == 0) _exit(0);
    wait(nullptr);
  })));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// As much as a thread has whose creator asked for the least; what stands on it already is the
// job's.
void run_on_small_stack(void* (*body)(void*), size_t bytes) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHILD_REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread{};
  CHILD_REQUIRE(pthread_create(&thread, &attributes, body, nullptr) == 0);
  pthread_join(thread, nullptr);
}

TEST_CASE("the first call of a process may come from a thread with 16 KiB of stack") {
  for (const char* place : {"", "/deep/below"}) {
    const TemporaryDirectory directory;
    const std::string run = directory.path() + place;
    CHECK(ended_well(in_own_process(run, [] {
      setenv("ROLLCALL_CHROME_TRACE", "1", 1);
      setenv("ROLLCALL_VERBOSE", "2", 1);
      setenv("ROLLCALL_MAX_HISTORY", "nonsense", 1);
      close(STDERR_FILENO);
      open("/dev/null", O_WRONLY);
      setenv("NCCL_LONG", std::string(6000, 'x').c_str(), 1);
      const auto body = [](void*) -> void* {
        test::open_test_comm(&comm);
        record(3);
        return nullptr;
      };
      run_on_small_stack(body, 16384);
      CHILD_REQUIRE(capture::enabled());
    })));
  }
}
#endif

TEST_CASE("a background thread has begun, under its name, when its creator goes on") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    record(1);
    size_t named = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(entry.path() / "comm"), name);
      named += name == "rollcall";
    }
    CHILD_REQUIRE(named == 1);
  })));
}

TEST_CASE("descriptors that run out later cost history, counted, and not the ring") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_RING_SLOTS", "64", 1);
    record(10);
    limit(RLIMIT_NOFILE, 3);
    record(10);
    capture::flush_at_exit();
  })));
  const test::RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(ring.stats.history_errors > 0);
  CHECK(ring.ops.size() == 20);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::exited));
}

TEST_CASE("without a thread for the flusher the ring records, and history is written at the exit") {
  const TemporaryDirectory directory;
  const int status = in_own_process(directory.path(), [&] {
    setenv("ROLLCALL_RING_SLOTS", "256", 1);
    if (!forbid_threads(directory.path())) _exit(77);
    const size_t threads_before = thread_count();
    record(100);
    CHILD_REQUIRE(capture::enabled());
    CHILD_REQUIRE(!capture::live.has_flusher);
    CHILD_REQUIRE(thread_count() == threads_before);
    CHILD_REQUIRE(load_relaxed(capture::live.stats->flush_passes) == 0);
    CHILD_REQUIRE(directory.files(".segment").empty());
    capture::flush_at_exit();
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    WARN("skipped: needs a user that is not root, or a root that may change its user");
    return;
  }
  REQUIRE(ended_well(status));
  const test::RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(ring.ops.size() == 100);
  CHECK(ring.stats.history_lost == 0);
  REQUIRE(directory.files(".segment").size() == 1);
  CHECK(test::read_segment(directory.files(".segment")[0]).ops.size() == 100);
}

TEST_CASE("without a thread for the flusher the clock is anchored all the same") {
  const TemporaryDirectory directory;
  const int status = in_own_process(directory.path(), [&] {
    if (!forbid_threads(directory.path())) _exit(77);
    record(10);
    const uint64_t anchors = load_relaxed(capture::live.header->anchor_count);
    record((1 << 16) + 10);
    CHILD_REQUIRE(load_relaxed(capture::live.header->anchor_count) == anchors + 1);
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    WARN("skipped: needs a user that is not root, or a root that may change its user");
    return;
  }
  CHECK(ended_well(status));
}

// What the test after this one turns into.
TEST_CASE("after exec: a program that records three calls", "[.after-exec]") {
  const std::string directory = getenv("ROLLCALL_DIR");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    CHILD_REQUIRE(line.find(".ring") == std::string::npos);
  }
  record(3);
  std::vector<std::string> rings;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".ring") rings.push_back(entry.path().string());
  }
  CHILD_REQUIRE(rings.size() == 2);
  // A child does not share its parent's locks: it sees what any other process sees. It asks for no
  // memory: the flusher, which starts up meanwhile, may have held the allocator's lock.
  const pid_t child = fork();
  if (child == 0) {
    for (const std::string& path : rings) {
      CHILD_REQUIRE(lock_holder(path) == (path.ends_with("-1.ring") ? getppid() : 0));
    }
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHILD_REQUIRE(status == 0);
  capture::flush_at_exit();
}

TEST_CASE("exec ends one file, and the program that follows has one of its own") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    record(5);
    capture::begin_op(all_reduce(&comm, 99));  // another thread of a program may be in a call
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execl("/proc/self/exe", "after-exec", "[after-exec]", static_cast<char*>(nullptr));
    _exit(1);
  })));
  const auto files = directory.files(".ring");
  REQUIRE(files.size() == 2);
  const bool second_is_new = files[1].ends_with("-1.ring");
  const test::RingContents before = test::read_ring(files[second_is_new ? 0 : 1]);
  const test::RingContents after = test::read_ring(files[second_is_new ? 1 : 0]);
  CHECK(before.ops.size() == 6);
  CHECK(before.in_flight == 1);
  CHECK(before.header.exit_state == static_cast<uint32_t>(ExitState::running_or_killed));
  CHECK(after.ops.size() == 3);
  CHECK(after.ops.begin()->first == 1);
  CHECK(after.header.exit_state == static_cast<uint32_t>(ExitState::exited));
  CHECK(before.header.pid == after.header.pid);
  CHECK(before.header.start_time_ticks == after.header.start_time_ticks);
}

TEST_CASE("a forked child has a file of its own and leaves its parent's alone") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    record(5);
    const capture::OpToken in_flight = capture::begin_op(all_reduce(&comm, 99));
    if (fork() == 0) {
      capture::end_op(in_flight, 1);  // the child comes back from the call it was forked in
      record(3);
      capture::flush_at_exit();
      _exit(0);
    }
    int status = 0;
    wait(&status);
    record(2);
    if (status != 0) _exit(1);
  })));
  const auto files = directory.files(".ring");
  REQUIRE(files.size() == 2);
  test::RingContents parent = test::read_ring(files[0]);
  test::RingContents child = test::read_ring(files[1]);
  if (parent.ops.size() < child.ops.size()) std::swap(parent, child);
  CHECK(parent.ops.size() == 8);
  CHECK(parent.in_flight == 1);
  CHECK(parent.stats.forks == 1);
  CHECK(child.ops.size() == 3);
  CHECK(child.header.parent_pid == parent.header.pid);
  CHECK(child.ops.begin()->second.seq == 0);
}

TEST_CASE("a forked child closes no file that the job has in place of the recorder's") {
  const TemporaryDirectory directory;
  const auto is_open_in_child = [](int descriptor) {
    if (fork() == 0) _exit(fcntl(descriptor, F_GETFD) >= 0 ? 0 : 1);
    int status = 0;
    wait(&status);
    return status == 0;
  };
  CHECK(ended_well(in_own_process(directory.path(), [&] {
    record(1);
    if (is_open_in_child(ring::kDescriptorFloor)) _exit(1);  // the recorder's
    close(ring::kDescriptorFloor);
    if (dup2(STDERR_FILENO, ring::kDescriptorFloor) < 0) _exit(2);
    if (!is_open_in_child(ring::kDescriptorFloor)) _exit(3);
  })));
}

TEST_CASE("the flusher comes to an end of its work in a job that never pauses") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_CHROME_TRACE", "1", 1);
    record(1);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        while (!is_over) record(100);
      });
    }
    const bool has_ended =
        test::wait_for([] { return load_acquire(capture::live.stats->flush_passes) >= 3; });
    is_over = true;
    for (std::thread& thread : threads) thread.join();
    _exit(has_ended ? 0 : 1);
  })));
}

TEST_CASE("a child that never calls NCCL leaves nothing") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    record(1);
    if (fork() == 0) {
      capture::flush_at_exit();
      _exit(0);
    }
    wait(nullptr);
  })));
  CHECK(directory.files(".ring").size() == 1);
}

TEST_CASE("a child made behind the C library's back does not write to its parent's file") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    record(5);
    const pid_t child = test::fork_unseen();
    if (child == 0) {
      record(3);
      _exit(0);
    }
    wait(nullptr);
  })));
  const auto files = directory.files(".ring");
  REQUIRE(files.size() == 2);
  const size_t counts[] = {test::read_ring(files[0]).ops.size(),
                           test::read_ring(files[1]).ops.size()};
  CHECK(std::min(counts[0], counts[1]) == 3);
  CHECK(std::max(counts[0], counts[1]) == 5);
}

// In a child: ends it where it hangs. Not by an alarm, which waits for the recorder's lock as every
// signal of the job's does.
void limit_time() {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  const itimerspec limit{.it_interval = {}, .it_value = {.tv_sec = 60, .tv_nsec = 0}};
  CHILD_REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  CHILD_REQUIRE(timer_settime(timer, 0, &limit, nullptr) == 0);
}

TEST_CASE("a child does not inherit a lock that is held for its parent's first call") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    const capture::ColdLock held;  // as if by another thread, which has not come to start yet
    for (const bool is_seen : {true, false}) {
      const pid_t child = is_seen ? fork() : test::fork_unseen();
      if (child == 0) {
        limit_time();
        record(3);
        _exit(capture::live.stats == nullptr ? 1 : 0);
      }
      int status = 1;
      waitpid(child, &status, 0);
      CHILD_REQUIRE(status == 0);
    }
  })));
  CHECK(directory.files(".ring").size() == 2);
}

void* record_when_cancelled(void*) {
  pthread_cancel(pthread_self());
  record(1);
  pthread_testcancel();
  _exit(1);
}

TEST_CASE("a thread that is cancelled in the first call of all leaves the others their recorder") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    limit_time();
    pthread_t thread{};
    CHILD_REQUIRE(pthread_create(&thread, nullptr, record_when_cancelled, nullptr) == 0);
    void* how = nullptr;
    pthread_join(thread, &how);
    CHILD_REQUIRE(how == PTHREAD_CANCELED);
    record(2);
  })));
  REQUIRE(directory.files(".ring").size() == 1);
  CHECK(test::read_ring(directory.files(".ring")[0]).ops.size() == 3);
}

TEST_CASE("no handler of a signal runs where the recorder holds its lock, and then it does") {
  static std::atomic<int> handled;
  handled = 0;
  const auto before = signal(SIGUSR1, [](int) { ++handled; });
  {
    const capture::ColdLock held;
    raise(SIGUSR1);
    CHECK(handled == 0);
  }
  CHECK(handled == 1);
  signal(SIGUSR1, before);
}

TEST_CASE("a pipe on stderr that nobody empties holds nobody up") {
  CHECK(ended_well(in_own_process("/proc/no-directory", [] {
    int ends[2];
    CHILD_REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
    while (write(ends[1], "x", 1) == 1) {
    }
    fcntl(ends[1], F_SETFL, 0);
    CHILD_REQUIRE(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    setenv("ROLLCALL_VERBOSE", "1", 1);
    limit_time();
    record(1);
  })));
}

// Who hangs is ended.
TEST_CASE("a child does not inherit a lock that is held, nor a turn at the clock's anchor") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    record(5);
    capture::live.refreshes_anchor.store(true);
    const capture::ColdLock held;  // as if by another thread
    const auto record_in_child = [](pid_t child) {
      if (child == 0) {
        limit_time();
        record(3);
        CHILD_REQUIRE(load_relaxed(capture::live.header->anchor_count) != 0);
        _exit(0);
      }
      int status = 1;
      waitpid(child, &status, 0);
      CHILD_REQUIRE(status == 0);
    };
    record_in_child(fork());
    record_in_child(test::fork_unseen());
  })));
  CHECK(directory.files(".ring").size() == 3);
}

TEST_CASE("a broken invariant turns capture off, once and said, and what was written stays") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    test::open_test_comm(&comm);
    record(3);
    capture::fail_check("ring.cpp", 7, "slot < slots");
    record(4);
    capture::fail_check("ring.cpp", 8, "another");  // adds nothing: it may follow from the first
  })));
  REQUIRE(directory.files(".ring").size() == 1);
  const test::RingContents ring = test::read_ring(directory.files(".ring")[0]);
  CHECK(ring.ops.size() == 3);
  CHECK(ring.torn == 0);
  CHECK(ring.stats.checks_failed == 1);
  CHECK(ring.stats.dropped_off == 4);
  CHECK(ring.header.capture_state == static_cast<uint32_t>(CaptureState::off));
  const auto is_off = [](const auto& entry) { return entry.second.kind == EventKind::CaptureOff; };
  CHECK(std::count_if(ring.events.begin(), ring.events.end(), is_off) == 1);
}

// The blocked signals of the thread of this process that is called `name`; 0: there is none.
uint64_t blocked_signals(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "status");
    std::string line;
    bool is_it = false;
    while (std::getline(file, line)) {
      if (line.starts_with("Name:")) is_it = line.substr(line.find_last_of("\t ") + 1) == name;
      if (is_it && line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
    }
  }
  return 0;
}

TEST_CASE("the flusher blocks every signal, so that the job's reach the job's own threads") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    record(1);
    CHILD_REQUIRE(test::wait_for([] { return blocked_signals("rollcall") != 0; }));
    const uint64_t blocked = blocked_signals("rollcall");
    for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGALRM, SIGPROF}) {
      CHILD_REQUIRE((blocked >> (signal - 1) & 1) == 1);
      sigset_t mine;
      sigprocmask(SIG_SETMASK, nullptr, &mine);
      CHILD_REQUIRE(sigismember(&mine, signal) == 0);
    }
  })));
}

void die_of_nothing(int) { _exit(0); }

// The flusher touches the header at every beat of its heart.
void break_flusher() {
  const uintptr_t header = reinterpret_cast<uintptr_t>(capture::live.header);
  mprotect(reinterpret_cast<void*>(header), kHeaderBytes, PROT_NONE);
}

pid_t thread_called(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string own;
    std::getline(std::ifstream(entry.path() / "comm"), own);
    if (own == name) return static_cast<pid_t>(std::stol(entry.path().filename().string()));
  }
  return 0;
}

TEST_CASE(
    "what kills the flusher kills the process, past the job's handlers, as any fatal signal") {
  const TemporaryDirectory directory;
  const int status = in_own_process(directory.path(), [] {
    signal(SIGSEGV, die_of_nothing);
    record(3);
    capture::begin_op(all_reduce(&comm, 9));  // in flight
    // Sent from outside, a signal does not reach it: the heart beats on.
    CHILD_REQUIRE(test::wait_for([] { return blocked_signals("rollcall") != 0; }));
    syscall(SYS_tgkill, getpid(), thread_called("rollcall"), SIGSEGV);
    const uint64_t heartbeat = load_acquire(capture::live.header->heartbeat_ticks);
    CHILD_REQUIRE(test::wait_for(
        [&] { return load_acquire(capture::live.header->heartbeat_ticks) != heartbeat; }));
    alarm(60);
    break_flusher();
    for (;;) pause();
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
  const test::RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(ring.ops.size() == 4);
  CHECK(ring.in_flight == 1);
  CHECK(ring.torn == 0);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::running_or_killed));
}

TEST_CASE("a thread that ends inside a call leaves it entered and not returned") {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    test::open_test_comm(&comm);
    std::thread([] { capture::begin_op(all_reduce(&comm, 5)); }).join();
    record(1);
  })));
  REQUIRE(directory.files(".ring").size() == 1);
  const test::RingContents ring = test::read_ring(directory.files(".ring")[0]);
  REQUIRE(ring.ops.size() == 2);
  CHECK(ring.in_flight == 1);
  CHECK(ring.ops.at(1).returned_ticks == 0);
  CHECK(ring.ops.at(1).thread_index != ring.ops.at(2).thread_index);
}

TEST_CASE("a run directory that is removed under a running job costs the record, not the job") {
  const TemporaryDirectory directory;
  const std::string run = directory.path() + "/run";
  CHECK(ended_well(in_own_process(run, [&] {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    record(10);
    std::filesystem::remove_all(run);
    for (int round = 0; round < 10; ++round) record(1000);
    capture::flush_at_exit();
  })));
  CHECK_FALSE(std::filesystem::exists(run));
}

TEST_CASE("a ring file that somebody truncates under the job ends the job with SIGBUS") {
  const TemporaryDirectory directory;
  const int status = in_own_process(directory.path(), [&] {
    signal(SIGBUS, SIG_DFL);  // not the sanitizer's
    test::open_test_comm(&comm);
    record(1);
    CHILD_REQUIRE(truncate(directory.files(".ring").at(0).c_str(), 0) == 0);
    record(1);
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

TEST_CASE("the lock tells a living writer from a dead one") {
  const TemporaryDirectory directory;
  int ready[2];
  int leave[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(leave) == 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("ROLLCALL_DIR", directory.path().c_str(), 1);
    record(1);
    char byte = 1;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    if (read(leave[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  const std::string file = directory.files(".ring").at(0);
  CHECK(lock_holder(file) == child);
  REQUIRE(write(leave[1], &byte, 1) == 1);
  waitpid(child, nullptr, 0);
  CHECK(lock_holder(file) == 0);
  for (const int end : {ready[0], ready[1], leave[0], leave[1]}) close(end);
}

}  // namespace robustness_test
}  // namespace rollcall
