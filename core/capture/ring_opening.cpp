#include "core/capture/ring_opening.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/capture/futex.h"

namespace rollcall::capture {

namespace {

constexpr uint64_t kKindPatienceNs = 75'000'000;
constexpr uint64_t kLocalPatienceNs = 2'000'000'000;

constexpr uint32_t number_of(RingOpening::Decision decision) {
  return static_cast<uint32_t>(decision);
}

}  // namespace

void RingOpening::begin(const char* directory, const ring::Incarnation& incarnation,
                        const RingGeometry& geometry) noexcept {
  directory_ = directory;
  incarnation_ = incarnation;
  geometry_ = geometry;
  file_ = {};
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
  if (!ring::make_directories(directory_)) {
    error_ = {"create the directory", errno};
    decide(Decision::asked, Decision::failed);
    return;
  }
  const int directory = open(directory_, O_PATH | O_DIRECTORY | O_CLOEXEC);
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

RingOpening::Decision RingOpening::await_change(Decision from, uint64_t patience_ns) noexcept {
  const uint64_t until_ns = waiting_now_ns() + patience_ns;
  for (;;) {
    const uint32_t word = word_.load(std::memory_order_acquire);
    if (word != number_of(from)) return static_cast<Decision>(word);
    const uint64_t at_ns = waiting_now_ns();
    if (at_ns >= until_ns && decide(from, Decision::elsewhere)) return Decision::elsewhere;
    if (at_ns < until_ns) wait_while(word_, word, until_ns - at_ns);
  }
}

RingOpening::Decision RingOpening::await_decision() noexcept {
  const Decision first = await_change(Decision::asked, kKindPatienceNs);
  return first == Decision::local ? await_change(Decision::local, kLocalPatienceNs) : first;
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
