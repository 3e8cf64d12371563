#include "fuzz/changed_run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/format/ring_layout.h"
#include "fuzz/worlds.h"
#include "tests/trace/files.h"
#include "trace/loader.h"

namespace rollcall::fuzz {
namespace {

// One change. `how`: the low two bits say how many bytes of `value` are written (1, 2, 4, 8).
// kCopiesField: as many are copied instead, from the entry and the place in it that the first two
// bytes of `value` name: keys and parents are only of interest where they are those of others.
// kCopiesEntry: the whole entry is.
struct Patch {
  uint8_t file;
  uint8_t area;
  uint16_t entry;
  uint8_t at;
  uint8_t how;
  uint8_t value[8];
};
static_assert(sizeof(Patch) == 14);
constexpr uint8_t kCopiesEntry = 4;
constexpr uint8_t kCopiesField = 8;

// Of the input's second byte; the others are what the kernel says of the first processes.
constexpr uint8_t kLive = 1;
constexpr uint8_t kWindow = 2;

constexpr size_t kPatchesMax = 64;

struct Area {
  size_t entry_bytes;
  std::vector<uint64_t> entries;  // where those in use begin
};

// A file that stays on disk and is changed where it lies: that is quicker than to write it anew.
class ChangedFile {
 public:
  ChangedFile(const std::string& path, const std::vector<std::byte>& sound) : size_(sound.size()) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(size_)) != 0) std::abort();
    void* mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) std::abort();
    ::close(file);
    bytes_ = static_cast<std::byte*>(mapped);
    std::memcpy(bytes_, sound.data(), size_);
    find_areas();
  }
  ~ChangedFile() { ::munmap(bytes_, size_); }
  ChangedFile(const ChangedFile&) = delete;
  ChangedFile& operator=(const ChangedFile&) = delete;

  void put(const Patch& patch) {
    const Area& area = areas_[patch.area % areas_.size()];
    const uint64_t entry = area.entries[patch.entry % area.entries.size()];
    const uint64_t other = area.entries[patch.value[0] % area.entries.size()];
    if ((patch.how & kCopiesEntry) != 0) return copy(other, entry, area.entry_bytes);
    const size_t width = size_t{1} << (patch.how & 3);
    const size_t places = area.entry_bytes / width;
    if (places == 0) return;
    const uint64_t to = entry + patch.at % places * width;
    if ((patch.how & kCopiesField) != 0) {
      return copy(other + patch.value[1] % places * width, to, width);
    }
    write(to, patch.value, width);
  }

  void undo() {
    for (; !undone_.empty(); undone_.pop_back()) {
      const auto& [offset, old] = undone_.back();
      std::memcpy(bytes_ + offset, old.data(), old.size());
    }
  }

 private:
  void copy(uint64_t from, uint64_t to, size_t size) {
    const std::vector<std::byte> bytes(bytes_ + from, bytes_ + from + size);
    write(to, bytes.data(), size);
  }

  void write(uint64_t offset, const void* bytes, size_t size) {
    undone_.emplace_back(offset, std::vector<std::byte>(bytes_ + offset, bytes_ + offset + size));
    std::memcpy(bytes_ + offset, bytes, size);
  }

  // Those that have anything in them.
  void add_area(uint64_t offset, size_t entry_bytes, uint64_t entries) {
    Area area{entry_bytes, {}};
    for (uint64_t i = 0; i < entries; ++i) {
      const std::byte* entry = bytes_ + offset + i * entry_bytes;
      const bool is_used =
          std::any_of(entry, entry + entry_bytes, [](std::byte b) { return b != std::byte{0}; });
      if (is_used) area.entries.push_back(offset + i * entry_bytes);
    }
    if (!area.entries.empty()) areas_.push_back(std::move(area));
  }

  void find_areas() {
    FileHeader header;
    std::memcpy(&header, bytes_, sizeof header);
    add_area(header.ops.offset, sizeof(OpRecord), header.ring_slots);
    add_area(header.comms.offset, sizeof(CommEntry), header.comms_max);
    add_area(header.events.offset, sizeof(EventRecord), header.event_slots);
    add_area(header.threads.offset, sizeof(ThreadEntry), header.threads_max);
    add_area(header.graphs.offset, sizeof(GraphEntry), header.graphs_max);
    add_area(header.channels.offset, sizeof(ChannelEntry), header.channels_max);
    add_area(header.kernel_phases.offset, sizeof(KernelPhasesEntry), header.kernel_phase_slots);
    add_area(header.progress.offset, sizeof(uint64_t), header.progress_slots);
    add_area(header.meta.offset, 64, header.meta.bytes / 64);
    constexpr size_t kClock = offsetof(FileHeader, clock_kind);
    add_area(kClock, sizeof(FileHeader) - kClock, 1);
  }

  std::byte* bytes_;
  size_t size_;
  std::vector<Area> areas_;
  std::vector<std::pair<uint64_t, std::vector<std::byte>>> undone_;
};

struct RunOnDisk {
  std::string path;
  std::deque<ChangedFile> files;
};

fuzz::World recorded_world(const std::string& directory) {
  fuzz::World world;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (file.path().extension() != ".ring") continue;
    std::ifstream stream(file.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    world.push_back({file.path().filename(), {begin, begin + bytes.size()}});
  }
  std::sort(world.begin(), world.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  if (world.empty()) std::abort();
  return world;
}

std::deque<RunOnDisk> write_worlds(const std::string& directory) {
  const char* recorded = std::getenv("ROLLCALL_FUZZ_RUN");
  const std::vector<fuzz::World> worlds =
      recorded ? std::vector<fuzz::World>{recorded_world(recorded)} : fuzz::sound_worlds();
  std::deque<RunOnDisk> runs;
  for (const fuzz::World& world : worlds) {
    RunOnDisk& run = runs.emplace_back();
    run.path = directory + "/" + std::to_string(runs.size());
    std::filesystem::create_directory(run.path);
    for (const fuzz::RingFile& file : world) {
      run.files.emplace_back(run.path + "/" + file.name, file.bytes);
    }
  }
  return runs;
}

// What the loader would ask the kernel.
void set_liveness(trace::Run& run, uint8_t choice) {
  if ((choice & kLive) == 0) return;
  run.live = true;
  int64_t newest_ns = 0;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    trace::Process& process = run.processes[i];
    const int said = i < 3 ? choice >> (2 + 2 * i) & 3 : 0;
    process.liveness = static_cast<trace::Liveness>(said + 1);
    newest_ns = std::max(newest_ns, process.heartbeat_ns);
  }
  run.read_at_ns = newest_ns;
}

}  // namespace

std::optional<trace::Run> changed_run(const uint8_t* data, size_t size) {
  static const test::Directory directory;
  static std::deque<RunOnDisk> runs = write_worlds(directory.path());
  if (size < 2) return std::nullopt;
  RunOnDisk& chosen = runs[data[0] % runs.size()];
  const uint8_t choice = data[1];
  std::span<const uint8_t> rest(data + 2, size - 2);
  for (size_t n = 0; n < kPatchesMax && rest.size() >= sizeof(Patch); ++n) {
    Patch patch;
    std::memcpy(&patch, rest.data(), sizeof patch);
    rest = rest.subspan(sizeof patch);
    chosen.files[patch.file % chosen.files.size()].put(patch);
  }
  trace::Run run = trace::load_run(
      chosen.path,
      {.window = (choice & kWindow) != 0 ? 8u : 0u, .threads = 1, .probe_processes = false});
  for (ChangedFile& file : chosen.files) file.undo();
  set_liveness(run, choice);
  return run;
}

}  // namespace rollcall::fuzz
