// The ROLLCALL_* variables as the recorder uses them, from the environment and from configuration
// files (core/base/setting_files.h). Parsed once per process, when the recorder
// starts; a bad value costs one line on stderr and the default is used. `rollcall config` asks the
// same parser. The profiler plugin's own variables are in profiler_plugin/settings.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/limits.h"

namespace rollcall {

enum class GpuTiming : uint8_t { off, events, progress, cupti };
// Which operations get the lines of Python that issued them.
enum class PythonFrames : uint8_t { off, within_budget, always };

struct Config {
  bool enable = true;
  const char* directory =
      "rollcall-runs";  // may point into the environment: copy before it changes
  // Where the ring lives while the run directory is on no local file system; like `directory`.
  const char* local_directory = "/dev/shm";
  uint32_t ring_slots = kRingSlotsDefault;
  bool history = true;
  uint64_t max_history_bytes = kHistoryBytesDefault;
  bool has_max_history = false;  // somebody asked for that number
  bool chrome_trace = false;
  // Only the shim looks at it.
  PythonFrames python_frames = PythonFrames::within_budget;
  GpuTiming gpu_timing = GpuTiming::events;
  bool graph_marks = true;
  uint32_t gpu_poll_ms = kGpuPollPeriodMs;
  uint32_t overhead_budget_percent = 1;
  const char* cupti = nullptr;  // a library's path, or null; like `directory`
  uint32_t verbose = 1;
  uint64_t run_id = 0;
};

// Reads them. `warn` gets one sentence for every value that is not understood, and for every file.
using ConfigWarning = void (*)(std::string_view sentence);
Config read_config(ConfigWarning warn) noexcept;

// The parsers of the table's types; false when the text is none.
bool parse_flag(std::string_view text, bool& value) noexcept;
// "auto", or a flag.
bool parse_python_frames(std::string_view text, PythonFrames& value) noexcept;
bool parse_size(std::string_view text, uint64_t& bytes) noexcept;
// Up to 16 hex digits as they are; any other text by its hash. Never 0 for a non-empty text.
uint64_t parse_run_id(std::string_view text) noexcept;

}  // namespace rollcall
