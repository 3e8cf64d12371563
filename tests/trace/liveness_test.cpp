// Whether a process is still there, from what the kernel says of it.
#include "trace/liveness.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/catch.h"

namespace rollcall::trace {
namespace liveness_test {

std::string stat_line(const std::string& name, char state, unsigned flags, unsigned pending) {
  // Fields 4 to 31; only 9 (flags), 22 (start time) and 31 (pending signals) matter.
  return fmt::format(
      "77 ({}) {} 1 77 77 0 -1 {} 5 0 0 0 1 2 0 0 20 0 3 0 4242 1000 100 "
      "18446744073709551615 1 1 0 0 0 {} 0 0",
      name, state, flags, pending);
}

std::string stat_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  return line;
}

TEST_CASE("the state, the start time and whether it is ending are read behind any process name") {
  for (const std::string name : {"python", "a b", "tricky) R 1", ""}) {
    ProcessStat stat;
    REQUIRE(parse_process_stat(stat_line(name, 'S', 0x400140, 0), stat));
    CHECK(stat.state == 'S');
    CHECK(stat.start_time_ticks == 4242);
    CHECK_FALSE(stat.is_ending);
  }
}

TEST_CASE("a process that exits or has SIGKILL pending is ending, another signal is not its end") {
  ProcessStat stat;
  REQUIRE(parse_process_stat(stat_line("rank", 'R', 0x400144, 0), stat));
  CHECK(stat.is_ending);
  REQUIRE(parse_process_stat(stat_line("rank", 'T', 0x400140, 1u << (SIGKILL - 1)), stat));
  CHECK(stat.is_ending);
  REQUIRE(parse_process_stat(stat_line("rank", 'T', 0x400140, 1u << (SIGUSR1 - 1)), stat));
  CHECK_FALSE(stat.is_ending);
}

TEST_CASE("a line that breaks off is refused") {
  const std::string whole = stat_line("rank", 'S', 0, 0);
  ProcessStat stat;
  CHECK_FALSE(parse_process_stat("", stat));
  CHECK_FALSE(parse_process_stat("77 (rank", stat));
  CHECK_FALSE(parse_process_stat(whole.substr(0, whole.size() / 2), stat));
}

TEST_CASE("the kernel's own lines say that this process lives and a killed child is ending") {
  ProcessStat mine;
  REQUIRE(parse_process_stat(stat_of(::getpid()), mine));
  CHECK_FALSE(mine.is_ending);
  CHECK(mine.start_time_ticks != 0);

  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  REQUIRE(::kill(child, SIGKILL) == 0);
  // Whatever the kernel has done of it so far: pending, exiting, or a zombie. For an instant, when
  // it has taken the signal and not begun to exit, it shows nothing.
  ProcessStat childs;
  for (int look = 0; look < 10'000 && !childs.is_ending && childs.state != 'Z'; ++look) {
    REQUIRE(parse_process_stat(stat_of(child), childs));
  }
  CHECK((childs.is_ending || childs.state == 'Z'));
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("of a process of another boot or machine nothing is claimed") {
  FileHeader header{};
  header.pid = static_cast<uint32_t>(::getpid());
  const std::string boot = "00000000-0000-4000-8000-000000000000";
  REQUIRE(boot.copy(header.boot_id, sizeof header.boot_id) == boot.size());
  const LivenessAnswer answer = probe_liveness(header, -1);
  CHECK(answer.liveness == Liveness::unknown);
  CHECK(answer.evidence.empty());
}

// Of this process, as if it recorded.
FileHeader own_header() {
  FileHeader header{};
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  REQUIRE(boot.copy(header.boot_id, sizeof header.boot_id) == boot.size());
  ProcessStat mine;
  REQUIRE(parse_process_stat(stat_of(::getpid()), mine));
  struct stat status {};
  REQUIRE(::stat("/proc/self/ns/pid", &status) == 0);
  header.pid = static_cast<uint32_t>(::getpid());
  header.start_time_ticks = mine.start_time_ticks;
  header.pid_namespace = status.st_ino;
  return header;
}

TEST_CASE("a process that neither locks nor maps its file runs another program") {
  FileHeader header = own_header();
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  const int descriptor = ::fileno(file);
  REQUIRE(::ftruncate(descriptor, 4096) == 0);
  const auto liveness = [&] { return probe_liveness(header, descriptor).liveness; };
  CHECK(liveness() == Liveness::dead);
  CHECK(probe_liveness(header, descriptor).evidence.find("another program") != std::string::npos);
  // A job that has closed all descriptors has lost the lock alone.
  void* memory = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
  REQUIRE(memory != MAP_FAILED);
  CHECK(liveness() == Liveness::running);
  REQUIRE(::munmap(memory, 4096) == 0);
  CHECK(liveness() == Liveness::dead);
  // Where there are no locks, the mapping is not asked for either.
  header.is_unlocked = 1;
  CHECK(liveness() == Liveness::running);
  std::fclose(file);
}

TEST_CASE("a free lock is the end of a process of another container, unless there are no locks") {
  FileHeader header{};
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  REQUIRE(boot.copy(header.boot_id, sizeof header.boot_id) == boot.size());
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  CHECK(probe_liveness(header, ::fileno(file)).liveness == Liveness::dead);
  header.is_unlocked = 1;
  CHECK(probe_liveness(header, ::fileno(file)).liveness == Liveness::unknown);
  std::fclose(file);
}

TEST_CASE(
    "of a process of another container whose heart has just beaten a free lock says nothing") {
  FileHeader header = own_header();
  header.pid_namespace = 1;
  header.clock_kind = ClockKind::monotonic;
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  timespec now{};
  REQUIRE(::clock_gettime(CLOCK_REALTIME, &now) == 0);
  const uint64_t now_ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000;
  header.first_anchor = {.ticks = 1, .monotonic_ns = 1, .realtime_ns = now_ns, .error_ns = 0};
  header.heartbeat_ticks = 1;
  CHECK(probe_liveness(header, ::fileno(file)).liveness == Liveness::unknown);
  header.first_anchor.realtime_ns -= 60'000'000'000;
  CHECK(probe_liveness(header, ::fileno(file)).liveness == Liveness::dead);
  std::fclose(file);
}

TEST_CASE("an exit record is the last word of a process unless it is asked behind it") {
  FileHeader header = own_header();
  header.is_unlocked = 1;
  header.exit_state = static_cast<uint32_t>(ExitState::exited);
  CHECK(probe_liveness(header, -1).liveness == Liveness::exited);
  CHECK(probe_behind_exit(header, -1).liveness == Liveness::running);
}

}  // namespace liveness_test
}  // namespace rollcall::trace
