#include "tools/stack_request.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/format/file_name.h"
#include "core/format/header_check.h"
#include "core/format/stack_request.h"
#include "report/terms.h"
#include "tools/output_file.h"
#include "tools/process_table.h"
#include "tools/ring_files.h"
#include "trace/bytes.h"
#include "trace/live_ring.h"
#include "trace/liveness.h"
#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

constexpr useconds_t kLookUs = 5000;
// Between two looks whether those that have not answered are still there.
constexpr int64_t kLivenessPeriodNs = 100'000'000;
constexpr size_t kFactBytes = 4096;
// Of a process with more, those that come first.
constexpr size_t kThreadsRead = 65536;

int64_t now_ns() { return static_cast<int64_t>(monotonic_now_ns()); }

struct Asked {
  std::string ring;  // in the run directory
  FileHeader header{};
  uid_t owner = 0;  // of the file of that name
  StackAnswer answer;
  trace::Liveness liveness = trace::Liveness::unknown;
  uint32_t number = 0;
  bool is_pending = false;
};

// Where the file is a copy, and the ring itself can be read here, the ring: of a copy the process
// does not look at these words.
class Ring {
 public:
  Ring(const std::string& path, int access) : Ring(path, access, trace::find_live_ring(path)) {}
  ~Ring() {
    if (is_open()) ::close(descriptor_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  // Evidence of another host's, perhaps: it is not written to.
  bool is_copy() const { return is_copy_; }
  int descriptor() const { return descriptor_; }
  const char* why_not() const { return std::strerror(is_open() ? errno : -descriptor_); }
  bool read(StackRequest& request) const {
    return is_open() && ::pread(descriptor_, &request, sizeof request, kStackRequestOffset) ==
                            static_cast<ssize_t>(sizeof request);
  }
  // Asked of the descriptor itself: the name may have come to stand for another file.
  bool is_of(const Asked& one) const {
    struct stat status {};
    std::array<std::byte, kHeaderBytes> page{};
    FileHeader header{};
    RingCopyNote note{};
    const bool is_fine =
        is_open() && ::fstat(descriptor_, &status) == 0 && status.st_uid == one.owner &&
        ::pread(descriptor_, page.data(), page.size(), 0) == ssize_t{kHeaderBytes} &&
        judge_header(page, static_cast<uint64_t>(status.st_size), header) == HeaderVerdict::fine;
    std::memcpy(&note, page.data() + kRingCopyNoteOffset, sizeof note);
    return is_fine && note.is_copy == 0 && header.pid == one.header.pid &&
           header.run_id == one.header.run_id &&
           header.start_time_ticks == one.header.start_time_ticks;
  }
  // A write to a file reaches its shared mappings at once.
  bool write_wanted(uint32_t number) const {
    return ::pwrite(descriptor_, &number, sizeof number,
                    kStackRequestOffset + offsetof(StackRequest, wanted)) ==
           static_cast<ssize_t>(sizeof number);
  }

 private:
  Ring(const std::string& path, int access, const trace::LiveRing& live)
      : descriptor_(trace::open_regular(AT_FDCWD, live.path.empty() ? path : live.path, access,
                                        trace::Links::refused)),
        is_copy_(live.is_copy && live.path.empty()) {}
  const int descriptor_;  // or an errno negated
  const bool is_copy_;
};

trace::Liveness liveness_of(const std::string& path, const FileHeader& header) {
  const Ring ring(path, O_RDONLY);
  if (!ring.is_open()) return trace::Liveness::unknown;
  return trace::probe_liveness(header, ring.descriptor()).liveness;
}

bool is_over(trace::Liveness liveness) {
  return liveness == trace::Liveness::exited || liveness == trace::Liveness::dead;
}

std::string stacks_of(const std::string& ring) {
  return ring.substr(0, ring.size() - kRingEnding.size()) + std::string(kStacksEnding);
}

std::vector<Asked> list_processes(const std::string& directory) {
  std::vector<Asked> all;
  for (const std::string& path : list_rings(directory)) {
    const std::optional<FileHeader> header = read_header(path);
    if (!header || !path.ends_with(kRingEnding)) continue;
    Asked one;
    one.ring = path;
    one.header = *header;
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) continue;
    one.owner = status.st_uid;
    uint64_t rank = 0;
    const bool has_rank = parse_decimal(read_meta(path, *header, "job_rank"), rank);
    one.answer.rank = has_rank && rank <= INT32_MAX ? static_cast<int32_t>(rank) : -1;
    one.answer.host = report::printable(padded_view(header->host));
    one.answer.pid = header->pid;
    one.liveness = liveness_of(path, *header);
    all.push_back(std::move(one));
  }
  // Of an earlier attempt, or a program in front of the one that runs.
  std::set<int32_t> living;
  for (const Asked& one : all) {
    if (!is_over(one.liveness)) living.insert(one.answer.rank);
  }
  std::erase_if(all, [&](const Asked& one) {
    return is_over(one.liveness) && living.count(one.answer.rank) != 0;
  });
  int32_t next = 0;
  for (const Asked& one : all) next = std::max(next, one.answer.rank + 1);
  for (Asked& one : all) {
    if (one.answer.rank < 0) one.answer.rank = next++;
  }
  return all;
}

// --- from outside -------------------------------------------------------------------------------

std::string fact_of(const std::string& path) {
  const trace::FileSource file(path);
  std::string text(kFactBytes, '\0');
  text.resize(file.error() == 0 ? file.read(0, text.data(), text.size()) : 0);
  return text.substr(0, text.find('\n'));
}

std::string escaped(const std::string& text) {
  std::string room(2 * text.size() + 1, '\0');
  TextWriter writer(room);
  return std::string(writer.escaped(text).view());
}

std::vector<std::string> threads_of(uint32_t pid) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(
      ::opendir(fmt::format("/proc/{}/task", pid).c_str()), ::closedir);
  if (!tasks) return names;
  while (const dirent* entry = ::readdir(tasks.get())) {
    uint64_t number = 0;
    if (parse_decimal(entry->d_name, number) && names.size() < kThreadsRead) {
      names.emplace_back(entry->d_name);
    }
  }
  return names;
}

std::string text_from_outside(uint32_t pid) {
  using std::chrono::duration_cast;
  const auto now =
      duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
  std::string text =
      fmt::format("rollcall_stacks 1\nrealtime_ns {}\npid {}\nsource outside\n", now.count(), pid);
  for (const std::string& thread : threads_of(pid)) {
    const std::string folder = fmt::format("/proc/{}/task/{}/", pid, thread);
    text += fmt::format("thread {}\n", thread);
    const auto add = [&](const char* key, const std::string& value) {
      if (!value.empty()) text += fmt::format("{} {}\n", key, escaped(value));
    };
    const std::string stat = fact_of(folder + "stat");
    const size_t behind_name = stat.rfind(") ");
    add("name", fact_of(folder + "comm"));
    add("state", behind_name == std::string::npos ? "" : stat.substr(behind_name + 2, 1));
    add("wait_channel", fact_of(folder + "wchan"));
    add("system_call", fact_of(folder + "syscall"));
  }
  return text + "end 1\n";
}

bool is_of_this_machine(const FileHeader& header) {
  if (padded_view(header.boot_id) != fact_of("/proc/sys/kernel/random/boot_id")) return false;
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) != 0 || status.st_ino != header.pid_namespace) {
    return false;
  }
  const auto facts = read_process(static_cast<pid_t>(header.pid));
  return facts && facts->start_ticks == header.start_time_ticks;
}

void look_from_outside(Asked& one) {
  if (!is_of_this_machine(one.header)) {
    one.answer.why = "no answer, and not to be seen from here";
    return;
  }
  const std::string path = stacks_of(one.ring);
  const size_t slash = path.rfind('/');
  const OpenDirectory folder(slash == std::string::npos ? "." : path.substr(0, slash));
  OutputFile file(folder, path.substr(slash + 1), Privacy::own);
  file.write(text_from_outside(one.header.pid));
  if (file.put_in_place()) {
    one.answer.file = path;
  } else {
    one.answer.why = fmt::format("no answer, and {} cannot be written: {}", path, file.why());
  }
}

// Whose ring is out of reach: on another host, or in its memory alone.
void look_without_asking(Asked& one) {
  if (is_of_this_machine(one.header)) {
    look_from_outside(one);
  } else {
    one.answer.why = "on another host or in another container";
  }
}

// --- asking --------------------------------------------------------------------------------------

void ask(Asked& one) {
  // As a reader first: what is a copy is not opened to be written.
  if (Ring(one.ring, O_RDONLY).is_copy()) return look_without_asking(one);
  const Ring ring(one.ring, O_RDWR);
  StackRequest request{};
  if (ring.is_open() && !ring.is_of(one)) {
    one.answer.why = "not asked: the ring is another file by now";
    return;
  }
  if (!ring.read(request) || !ring.write_wanted(request.wanted + 1)) {
    one.answer.why = fmt::format("not asked: {}", ring.why_not());
    return;
  }
  one.number = request.wanted + 1;
  one.is_pending = true;
}

void note_answer(Asked& one) {
  StackRequest request{};
  // Another command may have asked meanwhile, and got its answer for both.
  if (!Ring(one.ring, O_RDONLY).read(request) ||
      static_cast<int32_t>(request.written - one.number) < 0) {
    return;
  }
  one.is_pending = false;
  one.answer.file = stacks_of(one.ring);
}

// Who has not answered may have been stopped meanwhile, or have ended.
void wait_for(std::vector<Asked>& all, int64_t timeout_ns) {
  const int64_t until_ns = now_ns() + timeout_ns;
  int64_t looked_ns = now_ns();
  // Who is stopped answers when it goes on.
  const auto may_answer = [](const Asked& one) {
    return one.is_pending && one.liveness != trace::Liveness::stopped;
  };
  for (;;) {
    const bool looks_again = now_ns() - looked_ns >= kLivenessPeriodNs;
    if (looks_again) looked_ns = now_ns();
    for (Asked& one : all) {
      if (!one.is_pending) continue;
      // In this order: an answer before the end counts.
      if (looks_again) one.liveness = liveness_of(one.ring, one.header);
      note_answer(one);
      if (one.is_pending && is_over(one.liveness)) {
        one.is_pending = false;
        one.answer.why = "ended";
      }
    }
    if (std::none_of(all.begin(), all.end(), may_answer) || now_ns() > until_ns) return;
    ::usleep(kLookUs);
  }
}

}  // namespace

std::vector<StackAnswer> ask_all_for_stacks(const std::string& directory, int64_t timeout_ns) {
  std::vector<Asked> all = list_processes(directory);
  for (Asked& one : all) {
    if (is_over(one.liveness)) {
      one.answer.why = "ended";
    } else {
      ask(one);
    }
  }
  wait_for(all, timeout_ns);
  std::vector<StackAnswer> answers;
  for (Asked& one : all) {
    if (one.is_pending) look_from_outside(one);
    answers.push_back(std::move(one.answer));
  }
  std::stable_sort(answers.begin(), answers.end(),
                   [](const StackAnswer& a, const StackAnswer& b) { return a.rank < b.rank; });
  return answers;
}

void merge_stacks(const std::vector<StackAnswer>& answers, report::MergedStacks& merged) {
  for (const StackAnswer& answer : answers) {
    const auto file = answer.file.empty() ? std::nullopt : trace::read_stack_file(answer.file);
    if (file) {
      merged.add(answer.rank, *file);
    } else {
      merged.add_absent(answer.rank, answer.why.empty() ? "its file cannot be read" : answer.why);
    }
  }
}

}  // namespace rollcall::tools
