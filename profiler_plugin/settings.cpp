#include "profiler_plugin/settings.h"

#include <pthread.h>
#include <strings.h>

#include "core/base/setting_files.h"
#include "core/base/text.h"
#include "core/capture/warning.h"
#include "profiler_plugin/event_types.h"

namespace rollcall::profiler {
namespace {

// KernelCh is not among them: it costs a callback per channel and, up to NCCL 2.30, a proxy
// operation per collective. ProxyOp and ProxyStep come per network step.
constexpr uint32_t kDefaultEvents =
    kGroupApi | kCollApi | kP2pApi | kKernelLaunch | kGroup | kColl | kP2p | kCeColl;

struct EventName {
  std::string_view name;
  uint32_t mask;
};
constexpr EventName kEventNames[] = {{"default", kDefaultEvents},
                                     {"proxy", kDefaultEvents | kProxyOp | kProxyStep},
                                     {"kernelch", kDefaultEvents | kKernelCh},
                                     // NCCL's own ProxyCtrl and NetPlugin events say nothing that
                                     // is kept; KernelPhase changes the kernels, so it is a set
                                     // of its own.
                                     {"all", kDefaultEvents | kProxyOp | kProxyStep | kKernelCh},
                                     {"phases", kDefaultEvents | kKernelCh | kKernelPhase},
#define ROLLCALL_X(name, bit, version) {#name, k##name},
                                     ROLLCALL_PROFILER_EVENTS(ROLLCALL_X)
#undef ROLLCALL_X
};

constinit pthread_once_t is_read = PTHREAD_ONCE_INIT;
constinit char chain[4096]{};

bool same_letters(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

bool parse_hexadecimal(std::string_view text, uint64_t& value) {
  if (text.empty() || text.size() > 8) return false;
  value = 0;
  for (const char c : text) {
    const char lower = static_cast<char>(c | 0x20);
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (lower < 'a' || lower > 'f')) return false;
    value = value << 4 | static_cast<uint64_t>(digit ? c - '0' : lower - 'a' + 10);
  }
  return true;
}

bool parse_number(std::string_view word, uint64_t& value) {
  const bool is_hexadecimal = word.size() > 2 && word[0] == '0' && (word[1] | 0x20) == 'x';
  return is_hexadecimal ? parse_hexadecimal(part_of(word, 2), value) : parse_decimal(word, value);
}

bool parse_word(std::string_view word, uint32_t& mask) {
  for (const EventName& known : kEventNames) {
    if (same_letters(word, known.name)) {
      mask |= known.mask;
      return true;
    }
  }
  uint64_t number = 0;
  if (!parse_number(word, number) || number > kAllEvents) return false;
  mask |= static_cast<uint32_t>(number);
  return true;
}

void read_variables() noexcept {
  if (const char* path = setting("ROLLCALL_PLUGIN_CHAIN"); path != nullptr) {
    copy_padded(std::span<char>(chain, sizeof(chain) - 1), path);
  }
  const char* text = setting("ROLLCALL_PLUGIN_EVENTS");
  if (text == nullptr || *text == '\0') return;
  uint32_t mask = 0;
  if (!parse_events(text, mask)) {
    TextBuffer<512> sentence;
    sentence.text("ROLLCALL_PLUGIN_EVENTS=").text(part_of(text, 0, 128));
    sentence.text(" is not a list of default, proxy, kernelch, all, phases, names of NCCL's");
    sentence.text(" events, or a mask below 0x10000; what is not understood is left out");
    capture::write_warning(1, sentence.view());
    if (mask == 0) mask = kDefaultEvents;
  }
  // So does NCCL: a phase is a part of a KernelCh.
  if ((mask & kKernelPhase) != 0) mask |= kKernelCh;
  settings_detail::wanted.store(mask, std::memory_order_relaxed);
}

}  // namespace

namespace settings_detail {
constinit std::atomic<uint32_t> wanted{kDefaultEvents};
}  // namespace settings_detail

bool parse_events(std::string_view text, uint32_t& mask) noexcept {
  mask = 0;
  bool all_known = true;
  while (!text.empty()) {
    size_t length = 0;
    while (length < text.size() && text[length] != ',') ++length;
    const std::string_view word = part_of(text, 0, length);
    if (!word.empty() && !parse_word(word, mask)) all_known = false;
    text = part_of(text, length + 1);
  }
  return all_known;
}

uint32_t default_events() noexcept { return kDefaultEvents; }
const char* chained_path() noexcept { return chain[0] != '\0' ? chain : nullptr; }

void read_settings() noexcept { pthread_once(&is_read, read_variables); }

}  // namespace rollcall::profiler
