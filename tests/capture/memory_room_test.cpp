// How much memory is left for files: of a machine and its cgroups that are made up, and of a real
// cgroup where one can be made.
#include "core/ring/memory_room.h"

#include "core/capture/flusher.h"
#include "core/capture/live.h"
#include "core/ring/ring_file.h"
#include "tests/capture/own_process.h"
#include "tests/capture/small_disk.h"
#include "tests/catch.h"

namespace rollcall {
namespace memory_room_test {

namespace fs = std::filesystem;
using ring::kMemoryUnknown;
using ring::MemoryRoom;
using test::TemporaryDirectory;

constexpr uint64_t kMiB = 1 << 20;

// A root with a /proc and cgroups of its own.
class Machine {
 public:
  Machine() { write("/proc/meminfo", "MemTotal:  4096000 kB\nMemAvailable:  2048000 kB\n"); }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_.path() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void mount(const std::string& line) {
    mounts_ += line + "\n";
    write("/proc/self/mountinfo", mounts_);
  }
  void group_of_one(const std::string& path, const std::string& limit, uint64_t used,
                    const std::string& stat = "") {
    write(path + "/memory.limit_in_bytes", limit + "\n");
    write(path + "/memory.usage_in_bytes", std::to_string(used) + "\n");
    write(path + "/memory.stat", stat);
  }
  void group_of_two(const std::string& path, const std::string& limit, uint64_t used,
                    const std::string& stat = "") {
    write(path + "/memory.max", limit + "\n");
    write(path + "/memory.current", std::to_string(used) + "\n");
    write(path + "/memory.stat", stat);
  }
  MemoryRoom room() const { return ring::read_memory_room(root_.path().c_str()); }

 private:
  TemporaryDirectory root_;
  std::string mounts_ = "22 1 8:1 / / rw - ext4 /dev/sda rw\n";
};

const std::string kMountOfOne =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory";
const std::string kMountOfTwo =
    "35 31 0:32 / /sys/fs/cgroup rw,relatime shared:9 master:3 - cgroup2 cgroup2 rw,nsdelegate";

TEST_CASE("without cgroups the room is what the machine has available") {
  const Machine machine;
  CHECK(machine.room().available_bytes == 2000 * kMiB);
  CHECK(machine.room().limit_bytes == 4000 * kMiB);
}

TEST_CASE("where nothing tells the memory, the room is not known") {
  const TemporaryDirectory empty;
  const MemoryRoom room = ring::read_memory_room(empty.path().c_str());
  CHECK(room.available_bytes == kMemoryUnknown);
  CHECK(room.limit_bytes == kMemoryUnknown);
}

TEST_CASE("a memory cgroup of version 1 leaves its limit without what is used") {
  Machine machine;
  machine.write("/proc/self/cgroup", "9:name=systemd:/x\n4:memory:/job/step\n1:cpu:/x\n");
  machine.mount(kMountOfOne);
  machine.group_of_one("/sys/fs/cgroup/memory", "9223372036854771712", 0);
  machine.group_of_one("/sys/fs/cgroup/memory/job", "9223372036854771712", 0);
  machine.group_of_one("/sys/fs/cgroup/memory/job/step", std::to_string(100 * kMiB), 30 * kMiB);
  CHECK(machine.room().available_bytes == 70 * kMiB);
  CHECK(machine.room().limit_bytes == 100 * kMiB);
}

TEST_CASE("the nearest limit counts, whichever group it is of") {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/pod/container/job\n");
  machine.mount(kMountOfTwo);
  machine.group_of_two("/sys/fs/cgroup/pod/container/job", "max", 10 * kMiB);
  machine.group_of_two("/sys/fs/cgroup/pod/container", std::to_string(300 * kMiB), 50 * kMiB);
  machine.group_of_two("/sys/fs/cgroup/pod", std::to_string(400 * kMiB), 380 * kMiB);
  CHECK(machine.room().available_bytes == 20 * kMiB);
  CHECK(machine.room().limit_bytes == 300 * kMiB);
}

TEST_CASE("a container with a namespace of its own finds its limit at the mount point") {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/\n");
  machine.mount(kMountOfTwo);
  machine.group_of_two("/sys/fs/cgroup", std::to_string(200 * kMiB), 150 * kMiB);
  CHECK(machine.room().available_bytes == 50 * kMiB);
}

TEST_CASE("a container without a namespace finds its group below what is mounted") {
  Machine machine;
  machine.write("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  machine.mount(
      "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,hugetlb,memory");
  machine.group_of_one("/sys/fs/cgroup/memory", std::to_string(200 * kMiB), 150 * kMiB);
  machine.group_of_one("/sys/fs/cgroup/memory/inner", std::to_string(100 * kMiB), 90 * kMiB);
  CHECK(machine.room().available_bytes == 10 * kMiB);
}

TEST_CASE("of a group that is not below the mount, the mount itself is asked") {
  Machine machine;
  machine.write("/proc/self/cgroup", "4:memory:/docker/abcdef\n");
  machine.mount("35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory");
  machine.group_of_one("/sys/fs/cgroup/memory", std::to_string(200 * kMiB), 150 * kMiB);
  CHECK(machine.room().available_bytes == 50 * kMiB);
}

TEST_CASE("pages of files on disk are room, of those in active use half") {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/job\n4:memory:/old\n");
  machine.mount(kMountOfTwo);
  machine.group_of_two("/sys/fs/cgroup/job", std::to_string(100 * kMiB), 95 * kMiB,
                       "anon 5\ninactive_file 41943040\nactive_file 20971520\n");
  CHECK(machine.room().available_bytes == 55 * kMiB);
  machine.mount("36 31 0:33 / /mem\\040ory rw - cgroup cgroup rw,memory");
  machine.group_of_one("/mem ory/old", std::to_string(100 * kMiB), 95 * kMiB,
                       "inactive_file 1048576\ntotal_inactive_file 2097152\n");
  CHECK(machine.room().available_bytes == 7 * kMiB);
}

TEST_CASE("lines longer than any that matters are passed over") {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/\n");
  machine.mount("30 1 0:9 / /merged rw - overlay overlay lowerdir=" + std::string(10'000, 'l'));
  machine.mount(kMountOfTwo);
  machine.group_of_two("/sys/fs/cgroup", std::to_string(200 * kMiB), 150 * kMiB);
  CHECK(machine.room().available_bytes == 50 * kMiB);
}

TEST_CASE("nonsense in these files is no limit, and no harm") {
  Machine machine;
  machine.write("/proc/self/cgroup", "::\n\n4:memory\nmemory\n4:memory:/../..\n0::/a\n");
  machine.mount(kMountOfOne + "\n- - -\n35\n35 31 0:32 / /x rw - cgroup2");
  machine.mount(kMountOfTwo);
  machine.group_of_two("/sys/fs/cgroup/a", "-7", 1);
  CHECK(machine.room().available_bytes == 2000 * kMiB);
  // More used than allowed, as while a limit is lowered.
  machine.group_of_two("/sys/fs/cgroup/a", "1000", 2000);
  CHECK(machine.room().available_bytes == 0);
}

TEST_CASE("history takes little of the memory, and less of a small one") {
  CHECK(ring::history_bytes_in_memory({.limit_bytes = 64ull << 30}) == ring::kHistoryBytesInMemory);
  CHECK(ring::history_bytes_in_memory({.limit_bytes = 160 * kMiB}) == 10 * kMiB);
  CHECK(ring::history_bytes_in_memory({}) == ring::kHistoryBytesInMemory);
}

// --- a real cgroup, of version 1 -----------------------------------------------------------------

char comm;

// Calls that no coding makes small: several megabytes of history.
void record_random_calls(int calls) {
  uint64_t random = 1;
  for (int n = 0; n < calls; ++n) {
    random = random * 6364136223846793005 + 1442695040888963407;
    capture::end_op(capture::begin_op(test::all_reduce(&comm, random >> 20)), 0);
    if (n % 4096 == 0) capture::flush_now();
  }
  capture::flush_now();
}

// A memory cgroup of version 1, which goes when its processes are gone.
class MemoryGroup {
 public:
  explicit MemoryGroup(uint64_t limit_bytes) {
    std::error_code failed;
    is_made_ = fs::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes", failed) &&
               fs::create_directory(path_, failed);
    if (is_made_) std::ofstream(path_ / "memory.limit_in_bytes") << limit_bytes << std::flush;
  }
  ~MemoryGroup() {
    if (is_made_) test::wait_for([&] { return ::rmdir(path_.c_str()) == 0; });
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  bool is_made() const { return is_made_; }
  bool take_this_process() const {
    std::ofstream processes(path_ / "cgroup.procs");
    return static_cast<bool>(processes << getpid() << std::flush);
  }

 private:
  fs::path path_ = "/sys/fs/cgroup/memory/rollcall-test-" + std::to_string(getpid());
  bool is_made_ = false;
};

// A sanitizer's shadow of each page that a program touches is charged to the same cgroup: there the
// kernel ends the process for memory that the recorder never took.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasShadowMemory = true;
#else
constexpr bool kHasShadowMemory = false;
#endif

// Runs `body` on a file system in memory, in a memory cgroup with this limit; where none can be
// made that is said.
void in_memory_group(const TemporaryDirectory& directory, uint64_t limit_bytes,
                     const std::function<void(const std::string& disk)>& body) {
  if (kHasShadowMemory) {
    WARN("skipped: a sanitizer's own memory counts against the cgroup's limit");
    return;
  }
  const MemoryGroup group(limit_bytes);
  if (!group.is_made()) {
    WARN("skipped: no memory cgroup of version 1 can be made here");
    return;
  }
  test::on_small_disk(directory, "size=2g", [&](const std::string& disk) {
    CHILD_REQUIRE(group.take_this_process());
    body(disk);
    for (const auto& entry : fs::directory_iterator(disk)) fs::remove(entry.path());
  });
}

uint64_t bytes_of(const std::string& disk, std::string_view ending) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(disk)) {
    if (entry.path().string().ends_with(ending)) bytes += entry.file_size();
  }
  return bytes;
}

TEST_CASE("history in memory takes a sixteenth of the container's at most, and the job lives") {
  const TemporaryDirectory directory;
  in_memory_group(directory, 320 * kMiB, [](const std::string& disk) {
    record_random_calls(1'500'000);
    CHILD_REQUIRE(capture::enabled());
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_bytes) > 20 * kMiB);
    CHILD_REQUIRE(bytes_of(disk, ".segment") <= 20 * kMiB);
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_dropped_files) > 0);
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_errors) == 0);
  });
}

TEST_CASE("history in memory that was asked for ends where the container's room does, counted") {
  const TemporaryDirectory directory;
  in_memory_group(directory, 60 * kMiB, [](const std::string& disk) {
    setenv("ROLLCALL_MAX_HISTORY", "1g", 1);
    record_random_calls(2'500'000);  // more than 50 MiB of history, and a ring of 11
    CHILD_REQUIRE(capture::enabled());
    CHILD_REQUIRE(bytes_of(disk, ".segment") < 30 * kMiB);
    CHILD_REQUIRE(load_relaxed(capture::live.stats->history_errors) > 0);
  });
}

TEST_CASE("a container that has no room for a ring in memory is left alone") {
  const TemporaryDirectory directory;
  in_memory_group(directory, 16 * kMiB, [](const std::string& disk) {
    record_random_calls(1);
    CHILD_REQUIRE(!capture::enabled());
    CHILD_REQUIRE(bytes_of(disk, "") == 0);
  });
}

}  // namespace memory_room_test
}  // namespace rollcall
