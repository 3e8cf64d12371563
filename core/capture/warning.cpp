#include "core/capture/warning.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>

#include "core/base/keep_errno.h"
#include "core/base/setting_files.h"
#include "core/base/text.h"
#include "core/ring/quiet_signals.h"

namespace rollcall::capture {

namespace {

constexpr uint32_t kUnread = UINT32_MAX;
constinit std::atomic<uint32_t> verbosity{kUnread};

// A process whose recorder never starts reads no configuration.
uint32_t current_verbosity() noexcept {
  const uint32_t level = verbosity.load(std::memory_order_relaxed);
  if (level != kUnread) return level;
  const char* text = setting("ROLLCALL_VERBOSE");
  uint64_t number = 0;
  return text != nullptr && parse_decimal(text, number) && number < 2
             ? static_cast<uint32_t>(number)
             : 1;
}

// A pipe that is full, because nobody reads it for the moment, would hold the job up. Where a pipe
// takes anything, it takes a line like ours as a whole (PIPE_BUF).
bool takes_a_line() noexcept {
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0;
}

}  // namespace

void set_verbosity(uint32_t level) noexcept { verbosity.store(level, std::memory_order_relaxed); }

void write_warning(uint32_t level, std::string_view sentence) noexcept {
  const KeepErrno keep;
  if (level > current_verbosity() || !takes_a_line()) return;
  TextBuffer<kSentenceBytes + 24> line;
  line.text("rollcall: ").text(part_of(sentence, 0, kSentenceBytes)).character('\n');
  // stderr may be a pipe that nobody reads any more.
  const ring::QuietSignals quiet;
  const ssize_t written = write(STDERR_FILENO, line.view().data(), line.bytes());
  static_cast<void>(written);  // there is nobody left to tell
}

}  // namespace rollcall::capture
