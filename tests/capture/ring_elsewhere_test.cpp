// Run directories on file systems that are not local: the ring lives elsewhere, and a copy of it in
// the run directory. The system call that tells the kind of a file system is stood in for.
#include <dlfcn.h>
#include <linux/magic.h>
#include <sys/statfs.h>

#include "core/base/clock.h"
#include "core/capture/flusher.h"
#include "core/capture/live.h"
#include "core/format/ring_copy.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace {

// Of the run directory.
enum class Server { none, answers, hangs };
std::atomic<Server> server{Server::none};

bool is_in_run_directory(int descriptor) {
  char path[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const char* directory = getenv("ROLLCALL_DIR");
  return readlink(link.c_str(), path, sizeof(path) - 1) > 0 && directory != nullptr &&
         std::string_view(path).starts_with(directory);
}

}  // namespace

// In front of the C library's.
extern "C" int fstatfs(int descriptor, struct statfs* where) noexcept {
  using Ask = int (*)(int, struct statfs*);
  static const auto real = reinterpret_cast<Ask>(dlsym(RTLD_NEXT, "fstatfs"));
  const int status = real(descriptor, where);
  if (server.load() == Server::none || !is_in_run_directory(descriptor)) return status;
  while (server.load() == Server::hangs) poll(nullptr, 0, 5);
  where->f_type = NFS_SUPER_MAGIC;
  return status;
}

namespace rollcall {
namespace ring_elsewhere_test {

using test::ended_well;
using test::in_own_process;
using test::TemporaryDirectory;

char comm;

void record(int calls) { test::record_all_reduces(&comm, calls); }

// A run directory on a server, and a local one.
class Places {
 public:
  int run(const std::function<void()>& body, Server kind = Server::answers) const {
    return in_own_process(run_.path(), [&] {
      setenv("ROLLCALL_LOCAL_DIR", local_.path().c_str(), 0);
      server = kind;
      body();
    });
  }
  std::vector<std::string> copies() const { return run_.files(".ring"); }
  std::vector<std::string> segments() const { return run_.files(".segment"); }
  std::vector<std::string> rings() const { return local_.files(".ring"); }

 private:
  TemporaryDirectory run_;
  TemporaryDirectory local_;
};

RingCopyNote note_of(const std::string& path) {
  RingCopyNote note{};
  std::ifstream file(path, std::ios::binary);
  file.seekg(kRingCopyNoteOffset);
  file.read(reinterpret_cast<char*>(&note), sizeof note);
  return note;
}

TEST_CASE("a ring whose run directory is on a server lives in the local one, and is copied") {
  const Places places;
  REQUIRE(ended_well(places.run([] {
    record(10);
    CHILD_REQUIRE(capture::enabled());
    CHILD_REQUIRE(capture::ring_file().descriptor >= 0);
    capture::flush_now();
  })));
  REQUIRE(places.rings().size() == 1);
  REQUIRE(places.copies().size() == 1);
  for (const std::string& path : {places.rings()[0], places.copies()[0]}) {
    const test::RingContents ring = test::read_ring(path);
    REQUIRE(ring.verdict == HeaderVerdict::fine);
    CHECK(ring.ops.size() == 10);
    CHECK(ring.hostile == 0);
    CHECK(ring.stats.history_errors == 0);
    CHECK(note_of(path).live_path == places.rings()[0]);
  }
  CHECK(note_of(places.rings()[0]).is_copy == 0);
  CHECK(note_of(places.copies()[0]).is_copy == 1);
  CHECK(note_of(places.copies()[0]).copied_ticks != 0);
  CHECK(places.segments().size() == 1);
}

TEST_CASE("a process that ends by itself leaves the copy, whole, and no ring elsewhere") {
  const Places places;
  REQUIRE(ended_well(places.run([] {
    record(10);
    capture::flush_at_exit();
  })));
  CHECK(places.rings().empty());
  REQUIRE(places.copies().size() == 1);
  const test::RingContents ring = test::read_ring(places.copies()[0]);
  REQUIRE(ring.verdict == HeaderVerdict::fine);
  CHECK(ring.ops.size() == 10);
  CHECK(ring.header.exit_state == static_cast<uint32_t>(ExitState::exited));
  CHECK(ring.stats.history_records == 10);
}

TEST_CASE("a killed process leaves its ring in the local directory, to the last call") {
  const Places places;
  const int status = places.run([] {
    record(3);
    capture::flush_now();
    record(4);
    static_cast<void>(capture::begin_op(test::all_reduce(&comm, 7)));
    raise(SIGKILL);
  });
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(places.rings().size() == 1);
  const test::RingContents ring = test::read_ring(places.rings()[0]);
  CHECK(ring.ops.size() == 8);
  CHECK(ring.in_flight == 1);
}

TEST_CASE("without a local place the ring is memory of the process, and the copy is what stays") {
  const Places places;
  REQUIRE(ended_well(places.run([] {
    setenv("ROLLCALL_LOCAL_DIR", "/nowhere/at/all", 1);
    record(10);
    CHILD_REQUIRE(capture::enabled());
    CHILD_REQUIRE(capture::ring_file().descriptor == -1);
    capture::flush_at_exit();
  })));
  CHECK(places.rings().empty());
  REQUIRE(places.copies().size() == 1);
  CHECK(test::read_ring(places.copies()[0]).ops.size() == 10);
  CHECK(std::string(note_of(places.copies()[0]).live_path).empty());
}

TEST_CASE("a server that never answers keeps no call, and what is called is in the local ring") {
  const Places places;
  REQUIRE(ended_well(places.run(
      [] {
        alarm(60);  // who waits for the server for good is ended
        record(10);
        CHILD_REQUIRE(capture::enabled());
      },
      Server::hangs)));
  CHECK(places.copies().empty());
  REQUIRE(places.rings().size() == 1);
  CHECK(test::read_ring(places.rings()[0]).ops.size() == 10);
}

TEST_CASE("a server that answers late gets the copy and the history then") {
  const Places places;
  REQUIRE(ended_well(places.run(
      [] {
        record(10);
        CHILD_REQUIRE(capture::file_stem().empty());
        server = Server::answers;
        CHILD_REQUIRE(test::wait_for([] { return !capture::file_stem().empty(); }));
        capture::flush_at_exit();
      },
      Server::hangs)));
  CHECK(places.rings().empty());
  REQUIRE(places.copies().size() == 1);
  CHECK(test::read_ring(places.copies()[0]).stats.history_records == 10);
}

TEST_CASE("a run directory that goes away costs the copy, counted, and the job runs on") {
  const Places places;
  REQUIRE(ended_well(places.run([] {
    record(10);
    capture::flush_now();
    std::filesystem::remove_all(getenv("ROLLCALL_DIR"));
    record(10);
    capture::flush_now();
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_errors) > 0);
    CHILD_REQUIRE(capture::enabled());
  })));
  REQUIRE(places.rings().size() == 1);
  CHECK(test::read_ring(places.rings()[0]).ops.size() == 20);
}

TEST_CASE("the switch of the copy pauses the recording, and resumes it") {
  const Places places;
  REQUIRE(ended_well(places.run([] {
    record(10);
    capture::flush_now();
    const std::string copy = std::string(capture::run_directory()) + "/" +
                             std::string(capture::file_stem()) + std::string(kRingEnding);
    const int file = open(copy.c_str(), O_WRONLY | O_CLOEXEC);
    for (const uint32_t value : {1, 0}) {
      CHILD_REQUIRE(pwrite(file, &value, sizeof value, offsetof(FileHeader, capture_switch)) == 4);
      capture::flush_now();
      CHILD_REQUIRE(load_relaxed(capture::live.header->capture_switch) == value);
      record(5);
    }
    capture::flush_now();
  })));
  const test::RingContents ring = test::read_ring(places.copies().at(0));
  CHECK(ring.ops.size() == 15);
  CHECK(ring.stats.dropped_paused == 5);
}

// The kernel writes, as it does for another process: the thread sanitizer takes a store of this
// one, which races with the recorder by intention, for a defect.
void write_over(void* area, const void* bytes, size_t count) {
  static const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  const auto at = static_cast<off_t>(reinterpret_cast<uintptr_t>(area));
  CHILD_REQUIRE(pwrite(memory, bytes, count, at) == static_cast<ssize_t>(count));
}

TEST_CASE("whatever is written over such a ring, it is copied and the job runs on") {
  for (const int byte : {0, 1, 0xee, 0xff}) {
    INFO(byte);
    const Places places;
    CHECK(ended_well(places.run([&] {
      alarm(300);
      record(10);
      capture::flush_now();
      const ring::RingFile& file = capture::ring_file();
      const std::vector<char> scribbled(file.bytes, static_cast<char>(byte));
      auto* words = reinterpret_cast<uint64_t*>(file.header);
      for (size_t at = 0; at < sizeof(FileHeader) / sizeof *words; ++at) {
        const uint64_t before = load_relaxed(words[at]);
        write_over(&words[at], scribbled.data(), sizeof before);
        record(1);
        const uint64_t passes = load_relaxed(capture::live.stats->flush_passes);
        capture::flush_now();
        CHILD_REQUIRE(load_relaxed(capture::live.stats->flush_passes) > passes);
        write_over(&words[at], &before, sizeof before);
      }
      write_over(file.memory, scribbled.data(), file.bytes);
      record(10);
      capture::flush_now();
      capture::flush_at_exit();
    })));
  }
}

TEST_CASE("a child of such a process has a ring and a copy of its own") {
  const Places places;
  REQUIRE(ended_well(places.run([] {
    record(3);
    const pid_t child = fork();
    if (child == 0) {
      record(4);
      capture::flush_at_exit();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHILD_REQUIRE(ended_well(status));
    capture::flush_at_exit();
  })));
  CHECK(places.rings().empty());
  REQUIRE(places.copies().size() == 2);
  CHECK(test::read_ring(places.copies()[0]).ops.size() +
            test::read_ring(places.copies()[1]).ops.size() ==
        7);
}

}  // namespace ring_elsewhere_test
}  // namespace rollcall
