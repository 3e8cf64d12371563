#include "core/capture/ring_opening.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

#include "core/base/open_file.h"
#include "core/base/small_file.h"
#include "core/base/text.h"
#include "core/capture/futex.h"

namespace rollcall::capture {

namespace {

constexpr uint64_t kLookNs = 5'000'000;
constexpr uint32_t kLooksMax = 18;  // 90 ms of a file system's
constexpr uint64_t kPatienceNs = 2'000'000'000;

constexpr uint32_t number_of(RingOpening::Decision decision) {
  return static_cast<uint32_t>(decision);
}

// Of a thread of this process: it sleeps in the kernel, and neither runs nor waits for a processor.
// True, too, where nothing tells.
bool is_asleep(uint32_t thread) noexcept {
  TextBuffer<64> path;
  path.text("/proc/self/task/").number(thread).text("/stat");
  char content[512];
  const std::string_view all(content, read_small_file(path.c_str(), content));
  // "NUMBER (NAME) STATE ..."; the name may hold anything.
  const size_t end_of_name = all.rfind(')');
  return part_of(all, end_of_name, 3) != ") R";
}

}  // namespace

void RingOpening::begin(const char* directory, const ring::Incarnation& incarnation,
                        const RingGeometry& geometry) noexcept {
  directory_ = directory;
  incarnation_ = incarnation;
  geometry_ = geometry;
  file_ = {};
  thread_.store(0, std::memory_order_relaxed);
  word_.store(number_of(Decision::asked), std::memory_order_release);
}

bool RingOpening::decide(Decision expected, Decision decision) noexcept {
  uint32_t word = number_of(expected);
  const bool is_first =
      word_.compare_exchange_strong(word, number_of(decision), std::memory_order_acq_rel);
  if (is_first) wake(word_);
  return is_first;
}

void RingOpening::move_on(Decision decision) noexcept {
  word_.store(number_of(decision), std::memory_order_release);
  wake(word_);
}

void RingOpening::work() noexcept {
  thread_.store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
  if (!ring::make_directories(directory_)) {
    error_ = {"create the directory", errno};
    decide(Decision::asked, Decision::failed);
    return;
  }
  const int directory = open_file(directory_, O_PATH | O_DIRECTORY);
  if (directory < 0) {
    error_ = {"open the directory", errno};
    decide(Decision::asked, Decision::failed);
    return;
  }
  const bool is_local = ring::is_on_local_file_system(directory);
  close(directory);
  if (!is_local) {
    decide(Decision::asked, Decision::elsewhere);
  } else if (decide(Decision::asked, Decision::local)) {
    open_here();
  }
}

void RingOpening::open_here() noexcept {
  TextWriter stem{std::span<char>(stem_)};
  if (!ring::create_ring_file(directory_, incarnation_, geometry_, file_, stem, error_)) {
    decide(Decision::local, Decision::failed);
    return;
  }
  stem_bytes_ = stem.bytes();
  if (!decide(Decision::local, Decision::direct)) {
    ring::remove_ring_file(file_, directory_, this->stem());
  }
}

// A thread that has not begun yet waits for a processor.
bool RingOpening::waits_for_files() const noexcept {
  const uint32_t thread = thread_.load(std::memory_order_relaxed);
  return thread != 0 && is_asleep(thread);
}

RingOpening::Decision RingOpening::await_decision() noexcept {
  const KeepErrno keep;
  const uint64_t until_ns = waiting_now_ns() + kPatienceNs;
  uint32_t looks = 0;
  for (;;) {
    const uint32_t word = word_.load(std::memory_order_acquire);
    const auto decision = static_cast<Decision>(word);
    if (decision != Decision::asked && decision != Decision::local) return decision;
    const bool has_waited = looks >= kLooksMax || waiting_now_ns() >= until_ns;
    if (has_waited && decide(decision, Decision::elsewhere)) return Decision::elsewhere;
    if (has_waited) continue;
    wait_while(word_, word, kLookNs);
    if (waits_for_files()) ++looks;
  }
}

bool RingOpening::await_release() noexcept {
  for (;;) {
    const uint32_t word = word_.load(std::memory_order_acquire);
    if (word == number_of(Decision::released)) return true;
    if (word == number_of(Decision::cancelled)) return false;
    wait_while(word_, word, kNoTimeout);
  }
}

}  // namespace rollcall::capture
