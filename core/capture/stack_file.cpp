#include "core/capture/stack_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "core/base/clock.h"
#include "core/base/open_file.h"
#include "core/base/small_file.h"
#include "core/capture/process.h"

namespace rollcall::capture {

namespace {

constexpr char kTasks[] = "/proc/self/task";
constexpr size_t kFactBytes = 256;
// Of a job with thousands of threads those that fit into it: the records wait meanwhile.
constexpr uint64_t kFactsTimeMaxNs = 1'000'000'000;

std::atomic<FrameSource> frame_source{nullptr};

uint64_t realtime_now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// The first line of a small file of a thread; empty where the kernel does not tell.
std::string_view fact_of(std::string_view thread, const char* name,
                         char (&text)[kFactBytes]) noexcept {
  TextBuffer<96> path;
  path.text(kTasks).character('/').text(thread).character('/').text(name);
  const std::string_view all(text, read_small_file(path.c_str(), text));
  return part_of(all, 0, all.find('\n'));
}

// "pid (name) S ...": the name may hold anything.
std::string_view state_in(std::string_view stat) noexcept {
  const size_t end = stat.rfind(") ");
  return end == std::string_view::npos ? std::string_view{} : part_of(stat, end + 2, 1);
}

void write_thread(StackFile& file, std::string_view thread) noexcept {
  char text[kFactBytes];
  file.line("thread", thread);
  const auto write = [&](const char* key, std::string_view value) {
    if (!value.empty()) file.line(key, value);
  };
  write("name", fact_of(thread, "comm", text));
  write("state", state_in(fact_of(thread, "stat", text)));
  write("wait_channel", fact_of(thread, "wchan", text));
  write("system_call", fact_of(thread, "syscall", text));
}

// By the system call itself: opendir() allocates, and the lock for that may be what the job hangs
// on.
void write_threads(StackFile& file) noexcept {
  const int descriptor = open_file(kTasks, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  const uint64_t until_ns = monotonic_now_ns() + kFactsTimeMaxNs;
  bool is_late = false;
  alignas(dirent64) char entries[1024];
  while (!is_late) {
    const long bytes = syscall(SYS_getdents64, descriptor, entries, sizeof entries);
    if (bytes <= 0) break;
    for (long at = 0; at < bytes && !is_late;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      uint64_t number = 0;
      const std::string_view name = entry->d_name;
      if (!parse_decimal(name, number)) continue;
      is_late = monotonic_now_ns() > until_ns;
      if (!is_late) write_thread(file, name);
    }
  }
  if (is_late) file.note_cut();
  close(descriptor);
}

}  // namespace

StackFile::~StackFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_);
}

bool StackFile::create(const char* directory, std::string_view stem) noexcept {
  TextWriter path(path_);
  path.text(directory).character('/').text(stem).text(kStacksEnding);
  // A name with a dot in front is nobody's file.
  TextWriter temporary(temporary_);
  temporary.text(directory).text("/.").text(stem).text(kStacksEnding);
  path.c_str();
  temporary.c_str();
  if (path.cut_bytes() != 0 || temporary.cut_bytes() != 0) return false;
  unlink(temporary_);
  descriptor_ = open_file(temporary_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  return descriptor_ >= 0;
}

void StackFile::line(std::string_view key, std::string_view value) noexcept {
  if (is_full_) return;
  // Escaped text is twice as long at most.
  const size_t bytes_max = key.size() + 2 * value.size() + 2;
  if (bytes_max > sizeof storage_ || bytes_ + bytes_max > kStackFileBytesMax) {
    is_full_ = true;
    is_cut_ = true;
    return;
  }
  if (buffer_.bytes() + bytes_max > sizeof storage_) flush();
  const size_t before = buffer_.bytes();
  buffer_.text(key).character(' ').escaped(value).character('\n');
  bytes_ += buffer_.bytes() - before;
}

void StackFile::line(std::string_view key, uint64_t value) noexcept {
  TextBuffer<24> text;
  line(key, text.number(value).view());
}

void StackFile::flush() noexcept {
  std::string_view left = buffer_.view();
  while (!left.empty() && !has_failed_) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) has_failed_ = true;
    if (written > 0) left.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
}

bool StackFile::finish() noexcept {
  constexpr std::string_view kCut = "cut 1\n";
  constexpr std::string_view kEnd = "end 1\n";
  if (buffer_.bytes() + kCut.size() + kEnd.size() > sizeof storage_) flush();
  if (is_cut_) buffer_.text(kCut);
  buffer_.text(kEnd);
  flush();
  if (close(descriptor_) != 0 && errno != EINTR) has_failed_ = true;
  descriptor_ = -1;
  if (!has_failed_ && rename(temporary_, path_) == 0) return true;
  unlink(temporary_);
  return false;
}

void set_frame_source(FrameSource source) noexcept {
  frame_source.store(source, std::memory_order_release);
}

namespace {

bool write_into(StackFile& file, const char* directory, std::string_view stem) noexcept {
  if (!file.create(directory, stem)) return false;
  file.line("rollcall_stacks", 1);
  file.line("realtime_ns", realtime_now_ns());
  file.line("pid", static_cast<uint64_t>(getpid()));
  file.line("source", "recorder");
  write_threads(file);
  if (const FrameSource source = frame_source.load(std::memory_order_acquire)) source(file);
  return file.finish();
}

}  // namespace

// In memory of its own, and only for as long: it is asked for once in a job's life, or never.
bool write_stacks(const char* directory, std::string_view stem) noexcept {
  void* memory =
      mmap(nullptr, sizeof(StackFile), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* file = new (memory) StackFile;
  const bool is_written = write_into(*file, directory, stem);
  file->~StackFile();
  munmap(memory, sizeof(StackFile));
  return is_written;
}

}  // namespace rollcall::capture
