#include "core/capture/process_meta.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "core/base/check.h"
#include "core/base/secrets.h"
#include "core/base/setting_files.h"
#include "core/base/small_file.h"
#include "core/base/text.h"
#include "core/base/variables.h"
#include "core/capture/live.h"

extern char** environ;

namespace rollcall::capture {

namespace {

// Of libraries, whose settings explain what they do. Launchers have secrets among theirs
// (PMI_SHARED_SECRET, SLURM_JWT): of those single names.
constexpr std::string_view kPrefixes[] = {"NCCL_", "CUDA_", "TORCH_NCCL_", "ROLLCALL_"};
constexpr std::string_view kNames[] = {"RANK",
                                       "LOCAL_RANK",
                                       "WORLD_SIZE",
                                       "LOCAL_WORLD_SIZE",
                                       "GROUP_RANK",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "TORCHELASTIC_RUN_ID",
                                       "OMPI_COMM_WORLD_RANK",
                                       "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_LOCAL_RANK",
                                       "OMPI_COMM_WORLD_LOCAL_SIZE",
                                       "OMPI_COMM_WORLD_NODE_RANK",
                                       "PMIX_NAMESPACE",
                                       "PMIX_RANK",
                                       "PMI_RANK",
                                       "PMI_SIZE",
                                       "PMI_LOCAL_RANK",
                                       "PMI_LOCAL_SIZE",
                                       "SLURM_PROCID",
                                       "SLURM_LOCALID",
                                       "SLURM_NTASKS",
                                       "SLURM_NODEID",
                                       "SLURM_JOB_ID",
                                       "SLURM_NNODES"};
constexpr const char* kSettings[] = {
#define ROLLCALL_X(name, type, source, fallback, meaning) #name,
    ROLLCALL_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
};

constexpr const char* kRankVariables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                          "SLURM_PROCID"};

// What add_meta() and add_coverage() were told, also before the recorder started; a forked child
// starts its own file with it.
constinit char sticky_text[8192]{};
constinit size_t sticky_bytes = 0;
constinit char coverage_text[64]{};
constinit size_t coverage_bytes = 0;

// One escaped "key=value\n"; ColdLock held. Truncation cuts whole lines: a cut value would be a
// wrong one.
bool append_line(std::string_view line, size_t cut) noexcept {
  const uint32_t used = live.meta_bytes;
  if (cut != 0 || line.size() > kMetaBytesMax - used) {
    count(live.stats->meta_truncated, line.size() + cut);
    return false;
  }
  memcpy(live.meta + used, line.data(), line.size());
  live.meta_bytes = used + static_cast<uint32_t>(line.size());
  store_release(live.header->meta_bytes, live.meta_bytes);
  return true;
}

// A thread of the job may have little stack: what is long is put together here, with the ColdLock
// held. A line, a text that goes into one, and the command line without its secrets.
constinit char line_room[8192]{};
constinit char text_room[4096]{};
constinit char command_room[4096]{};

TextWriter line_of(std::string_view key, std::string_view value) noexcept {
  TextWriter line{std::span<char>(line_room)};
  line.text(key).character('=').escaped(value).character('\n');
  return line;
}

void append_link(std::string_view key, const char* path) noexcept {
  const ssize_t bytes = readlink(path, text_room, sizeof(text_room));
  if (bytes > 0) append_meta(key, {text_room, static_cast<size_t>(bytes)});
}

// The command line is what tells runs apart. Files of a run are sent around, so that it stands
// there without its secrets.
void append_command_line() noexcept {
  const size_t bytes = read_small_file("/proc/self/cmdline", text_room);
  if (bytes == 0) return;
  TextWriter line{std::span<char>(command_room)};
  // An argument that is cut off may be half of a secret.
  const bool is_cut = bytes == sizeof(text_room) && text_room[bytes - 1] != 0;
  const std::string_view read(text_room, bytes);
  const size_t whole = is_cut ? read.rfind('\0') + 1 : bytes;  // npos + 1 is 0
  write_without_secrets(line, part_of(read, 0, whole));
  if (is_cut) line.text(" …");
  append_meta("cmdline", line.view());
}

void append_environment() noexcept {
  if (environ == nullptr) return;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = part_of(text, 0, equals);
    if (!may_record_variable(name)) continue;
    TextBuffer<256> key;
    key.text("env.").text(name);
    if (key.cut_bytes() == 0) append_meta(key.view(), part_of(text, equals + 1));
  }
}

// What configuration files have set, where the environment has nothing to say.
void append_file_settings() noexcept {
  TextWriter text{std::span<char>(text_room)};
  for (const char* name : kSettings) {
    const SettingOrigin origin = origin_of_setting(name);
    if (origin != SettingOrigin::user_file && origin != SettingOrigin::system_file) continue;
    const char* value = setting(name);
    if (value == nullptr) continue;
    if (text.bytes() != 0) text.text(", ");
    text.text(name).character('=').text(value);
    text.text(" (").text(setting_file(origin)).character(')');
  }
  if (text.bytes() != 0) append_meta("conf", text.view());
}

void append_place_in_job() noexcept {
  unsigned rank = 0;
  std::string_view from;
  if (find_job_rank(rank, from)) {
    TextBuffer<16> number;
    append_meta("job_rank", number.number(rank).view());
    append_meta("job_rank_from", from);
  }
  const char* local_rank = getenv("LOCAL_RANK");
  if (local_rank == nullptr) local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  if (local_rank == nullptr) local_rank = getenv("SLURM_LOCALID");
  if (local_rank != nullptr) append_meta("local_rank", local_rank);
  const char* world_size = getenv("WORLD_SIZE");
  if (world_size == nullptr) world_size = getenv("OMPI_COMM_WORLD_SIZE");
  if (world_size == nullptr) world_size = getenv("SLURM_NTASKS");
  if (world_size != nullptr) append_meta("world_size", world_size);
}

// The process's path in the cgroup hierarchy: version 2's line is "0::PATH", version 1's memory
// controller "N:memory:PATH". Empty where neither is mounted.
struct CgroupPath {
  char text[1024];
  size_t bytes;
  bool version2;
  std::string_view view() const noexcept { return {text, bytes}; }
};

CgroupPath read_cgroup() noexcept {
  CgroupPath path{};
  std::string_view rest(text_room, read_small_file("/proc/self/cgroup", text_room));
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = part_of(rest, 0, end);
    rest = end == std::string_view::npos ? std::string_view{} : part_of(rest, end + 1);
    const size_t memory = line.find(":memory:");
    const bool version2 = part_of(line, 0, 3) == "0::";
    if (!version2 && memory == std::string_view::npos) continue;
    const std::string_view found = part_of(line, version2 ? 3 : memory + 8);
    if (found.size() > sizeof(path.text)) continue;
    memcpy(path.text, found.data(), found.size());
    path.bytes = found.size();
    path.version2 = version2;
    if (!version2) break;
  }
  return path;
}

bool oom_kills_in(const char* path, unsigned long& kills) noexcept {
  const std::string_view text(text_room, read_small_file(path, text_room));
  const size_t at = text.find("oom_kill ");
  if (at == std::string_view::npos) return false;
  const std::string_view number = part_of(text, at + 9);
  uint64_t value = 0;
  if (!parse_decimal(part_of(number, 0, number.find('\n')), value)) return false;
  kills = value;
  return true;
}

}  // namespace

bool may_record_variable(std::string_view name) noexcept {
  // Of `rollcall run`'s own: whoever has it can pass a process off as the job's, and no two ranks
  // of a launcher have the same.
  if (name == "ROLLCALL_JOB_TOKEN") return false;
  for (const std::string_view prefix : kPrefixes) {
    if (part_of(name, 0, prefix.size()) == prefix) return true;
  }
  for (const std::string_view allowed : kNames) {
    if (name == allowed) return true;
  }
  return false;
}

bool find_job_rank(unsigned& rank, std::string_view& from) noexcept {
  for (const char* name : kRankVariables) {
    const char* value = getenv(name);
    uint64_t number = 0;
    if (value == nullptr || !parse_decimal(value, number) || number > INT32_MAX) continue;
    rank = static_cast<unsigned>(number);
    from = name;
    return true;
  }
  return false;
}

bool read_oom_kills(unsigned long& kills) noexcept {
  const CgroupPath cgroup = read_cgroup();
  // Inside a container the path is the host's, and the container's own root is what is mounted.
  const std::string_view bases[] = {cgroup.view(), ""};
  for (const std::string_view base : bases) {
    TextBuffer<1200> path;
    path.text(cgroup.version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory").text(base);
    path.text(cgroup.version2 ? "/memory.events" : "/memory.oom_control");
    if (oom_kills_in(path.c_str(), kills)) return true;
  }
  return false;
}

bool append_meta(std::string_view key, std::string_view value) noexcept {
  const TextWriter line = line_of(key, value);
  return append_line(line.view(), line.cut_bytes());
}

void write_process_meta(const Config& config_in) noexcept {
  append_meta("rollcall_version", ROLLCALL_VERSION);
  append_link("exe", "/proc/self/exe");
  append_command_line();
  if (getcwd(text_room, sizeof(text_room)) != nullptr) append_meta("cwd", text_room);
  append_meta("run_dir", config_in.directory);
  append_place_in_job();
  append_environment();
  append_file_settings();
  const CgroupPath cgroup = read_cgroup();
  if (cgroup.bytes != 0) append_meta("cgroup", cgroup.view());
  unsigned long kills = 0;
  if (read_oom_kills(kills)) {
    TextBuffer<32> number;
    append_meta("oom_kills_at_start", number.number(kills).view());
  }
}

void write_sticky_meta() noexcept {
  append_line({sticky_text, sticky_bytes}, 0);
  if (coverage_bytes != 0) append_meta("coverage", {coverage_text, coverage_bytes});
}

void add_meta(const char* key, const char* value) noexcept {
  if (key == nullptr || value == nullptr) return;
  const ColdLock lock;
  const TextWriter line = line_of(key, value);
  if (line.cut_bytes() == 0 && line.bytes() <= sizeof(sticky_text) - sticky_bytes) {
    memcpy(sticky_text + sticky_bytes, line.view().data(), line.bytes());
    sticky_bytes += line.bytes();
  }
  if (live.incarnation.load(std::memory_order_acquire) == 0) return;
  append_line(line.view(), line.cut_bytes());
}

bool add_file_meta(const char* key, const char* value) noexcept {
  if (key == nullptr || value == nullptr) return false;
  const ColdLock lock;
  return live.incarnation.load(std::memory_order_acquire) != 0 && append_meta(key, value);
}

void add_coverage(const char* path) noexcept {
  if (path == nullptr) return;
  const ColdLock lock;
  const std::string_view known(coverage_text, coverage_bytes);
  for (size_t at = 0; at < known.size();) {
    const size_t end = known.find(',', at);
    if (part_of(known, at, end - at) == path) return;
    at = end == std::string_view::npos ? known.size() : end + 1;
  }
  const std::string_view word(path);
  if (word.size() + 1 > sizeof(coverage_text) - coverage_bytes) return;
  if (coverage_bytes != 0) coverage_text[coverage_bytes++] = ',';
  memcpy(coverage_text + coverage_bytes, word.data(), word.size());
  coverage_bytes += word.size();
  if (live.incarnation.load(std::memory_order_acquire) == 0) return;
  append_meta("coverage", {coverage_text, coverage_bytes});
}

}  // namespace rollcall::capture
