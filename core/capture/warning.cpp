#include "core/capture/warning.h"

#include <unistd.h>

#include <atomic>

#include "core/base/text.h"
#include "core/ring/quiet_signals.h"

namespace rollcall::capture {

namespace {
constinit std::atomic<uint32_t> verbosity{1};
}

void set_verbosity(uint32_t level) noexcept { verbosity.store(level, std::memory_order_relaxed); }

void write_warning(uint32_t level, std::string_view sentence) noexcept {
  if (level > verbosity.load(std::memory_order_relaxed)) return;
  TextBuffer<1024> line;
  line.text("rollcall: ").text(part_of(sentence, 0, 1000)).character('\n');
  // stderr may be a pipe that nobody reads any more.
  const ring::QuietSignals quiet;
  const ssize_t written = write(STDERR_FILENO, line.view().data(), line.bytes());
  static_cast<void>(written);  // there is nobody left to tell
}

}  // namespace rollcall::capture
