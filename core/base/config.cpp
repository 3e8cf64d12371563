#include "core/base/config.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "core/base/setting_files.h"
#include "core/base/text.h"

namespace rollcall {

namespace {

// Reads one variable and complains about it. Holds no state beyond the call of read_config().
class Reader {
 public:
  explicit Reader(ConfigWarning warn) noexcept : warn_(warn) {}

  const char* value_of(const char* name) const noexcept { return setting(name); }

  void reject(const char* name, std::string_view value, std::string_view wanted,
              std::string_view used) const noexcept {
    TextBuffer<512> sentence;
    sentence.text(name).text("=").text(part_of(value, 0, 64)).text(" is not ").text(wanted);
    sentence.text("; using ").text(used);
    warn_(sentence.view());
  }

  void read_flag(const char* name, bool& to) const noexcept {
    const char* value = value_of(name);
    if (value != nullptr && !parse_flag(value, to)) {
      reject(name, value, "0, 1, on, off, true, false, yes or no", to ? "1" : "0");
    }
  }

  bool read_count(const char* name, uint64_t low, uint64_t high, uint64_t& to) const noexcept {
    const char* value = value_of(name);
    if (value == nullptr) return false;
    uint64_t parsed = 0;
    TextBuffer<32> used;
    if (!parse_decimal(value, parsed)) {
      reject(name, value, "a number", used.number(to).view());
      return false;
    }
    if (parsed < low || parsed > high) {
      const uint64_t nearest = parsed < low ? low : high;
      TextBuffer<64> wanted;
      wanted.text("between ").number(low).text(" and ").number(high);
      reject(name, value, wanted.view(), used.number(nearest).view());
      parsed = nearest;
    }
    to = parsed;
    return true;
  }

 private:
  ConfigWarning warn_;
};

void read_sizes(const Reader& reader, Config& config) noexcept {
  uint64_t slots = config.ring_slots;
  if (reader.read_count("ROLLCALL_RING_SLOTS", kRingSlotsMin, kRingSlotsMax, slots)) {
    config.ring_slots = std::bit_ceil(static_cast<uint32_t>(slots));
  }
  const char* size = reader.value_of("ROLLCALL_MAX_HISTORY");
  config.has_max_history = size != nullptr && parse_size(size, config.max_history_bytes);
  if (size != nullptr && !config.has_max_history) {
    TextBuffer<32> used;
    used.number(config.max_history_bytes >> 20).text("m");
    reader.reject("ROLLCALL_MAX_HISTORY", size, "a size such as 64m or 2g", used.view());
  }
  uint64_t verbose = config.verbose;
  if (reader.read_count("ROLLCALL_VERBOSE", 0, 2, verbose)) {
    config.verbose = static_cast<uint32_t>(verbose);
  }
}

void read_gpu_timing(const Reader& reader, Config& config) noexcept {
  struct Word {
    std::string_view text;
    GpuTiming meaning;
  };
  constexpr Word kWords[] = {{"off", GpuTiming::off},
                             {"events", GpuTiming::events},
                             {"progress", GpuTiming::progress},
                             {"cupti", GpuTiming::cupti}};
  const char* timing = reader.value_of("ROLLCALL_GPU_TIMING");
  if (timing != nullptr) {
    const Word* found = std::find_if(std::begin(kWords), std::end(kWords),
                                     [&](const Word& word) { return word.text == timing; });
    if (found != std::end(kWords)) {
      config.gpu_timing = found->meaning;
    } else {
      reader.reject("ROLLCALL_GPU_TIMING", timing, "off, events, progress or cupti",
                    kWords[static_cast<size_t>(config.gpu_timing)].text);
    }
  }
  config.cupti = reader.value_of("ROLLCALL_CUPTI");
  uint64_t period = config.gpu_poll_ms;
  if (reader.read_count("ROLLCALL_GPU_POLL_MS", 1, kGpuPollPeriodMsMax, period)) {
    config.gpu_poll_ms = static_cast<uint32_t>(period);
  }
  uint64_t budget = config.overhead_budget_percent;
  if (reader.read_count("ROLLCALL_OVERHEAD_BUDGET", 1, 100, budget)) {
    config.overhead_budget_percent = static_cast<uint32_t>(budget);
  }
}

// `lower`: in small letters.
bool is_same_word(std::string_view text, std::string_view lower) noexcept {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

}  // namespace

bool parse_flag(std::string_view text, bool& value) noexcept {
  for (const std::string_view yes : {"1", "on", "true", "yes"}) {
    if (is_same_word(text, yes)) return value = true, true;
  }
  for (const std::string_view no : {"0", "off", "false", "no"}) {
    if (is_same_word(text, no)) return value = false, true;
  }
  return false;
}

bool parse_python_frames(std::string_view text, PythonFrames& value) noexcept {
  if (is_same_word(text, "auto")) return value = PythonFrames::within_budget, true;
  bool is_wanted = false;
  if (!parse_flag(text, is_wanted)) return false;
  value = is_wanted ? PythonFrames::always : PythonFrames::off;
  return true;
}

bool parse_size(std::string_view text, uint64_t& bytes) noexcept {
  if (text.empty()) return false;
  unsigned shift = 0;
  switch (text.back()) {
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    default:
      break;
  }
  if (shift != 0) text.remove_suffix(1);
  uint64_t value = 0;
  if (!parse_decimal(text, value) || value > UINT64_MAX >> shift) return false;
  bytes = value << shift;
  return true;
}

uint64_t parse_run_id(std::string_view text) noexcept {
  if (text.empty()) return 0;
  uint64_t hex = 0;
  uint64_t hash = 0xcbf29ce484222325;
  bool is_hex = text.size() <= 16;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    const bool digit = c >= '0' && c <= '9';
    const bool letter = c >= 'a' && c <= 'f';
    is_hex = is_hex && (digit || letter);
    hex = hex << 4 | static_cast<uint64_t>(digit ? c - '0' : letter ? c - 'a' + 10 : 0);
  }
  const uint64_t id = is_hex ? hex : hash;
  return id != 0 ? id : 1;
}

Config read_config(ConfigWarning warn) noexcept {
  complain_about_setting_files(warn);
  const Reader reader(warn);
  Config config;
  reader.read_flag("ROLLCALL_ENABLE", config.enable);
  reader.read_flag("ROLLCALL_HISTORY", config.history);
  reader.read_flag("ROLLCALL_GRAPH_MARKS", config.graph_marks);
  reader.read_flag("ROLLCALL_CHROME_TRACE", config.chrome_trace);
  const char* frames = reader.value_of("ROLLCALL_PYTHON_FRAMES");
  if (frames != nullptr && !parse_python_frames(frames, config.python_frames)) {
    reader.reject("ROLLCALL_PYTHON_FRAMES", frames, "auto, 0 or 1", "auto");
  }
  read_sizes(reader, config);
  const char* directory = reader.value_of("ROLLCALL_DIR");
  if (directory != nullptr) config.directory = directory;
  const char* local_directory = reader.value_of("ROLLCALL_LOCAL_DIR");
  if (local_directory != nullptr) config.local_directory = local_directory;
  read_gpu_timing(reader, config);
  const char* run_id = reader.value_of("ROLLCALL_RUN_ID");
  if (run_id != nullptr) config.run_id = parse_run_id(run_id);
  return config;
}

}  // namespace rollcall
