#include "emulator/device/settings.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "emulator/device/device.h"

namespace emu {
namespace {

void read_variable(const char* variable, uint64_t* value) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == 0) return;
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &end, 10);
  if (errno != 0 || *end != 0 || *text == '-') {
    std::fprintf(stderr, "rollcall emulator: %s=%s is not a number; using %llu\n", variable, text,
                 static_cast<unsigned long long>(*value));
    return;
  }
  *value = number;
}

void read_variable(const char* variable, std::string* value) {
  const char* text = std::getenv(variable);
  if (text != nullptr && *text != 0) *value = text;
}

Settings read_settings() {
  Settings result;
#define EMU_READ(kind, field, variable, fallback, meaning) read_variable(variable, &result.field);
  EMU_SETTINGS(EMU_READ)
#undef EMU_READ
  constexpr uint64_t kGpusMax = 64;
  if (result.gpus > kGpusMax) {
    std::fprintf(
        stderr, "rollcall emulator: ROLLCALL_EMULATE_GPUS=%llu is more than %llu; using %llu\n",
        static_cast<unsigned long long>(result.gpus), static_cast<unsigned long long>(kGpusMax),
        static_cast<unsigned long long>(kGpusMax));
    result.gpus = kGpusMax;
  }
  if (result.gpus_per_node == 0) result.gpus_per_node = 1;
  if (result.session.empty()) result.session = "p" + std::to_string(getppid());
  return result;
}

}  // namespace

const Settings& settings() {
  // Never destroyed: worker threads may still ask while the process exits.
  static const Settings* const read = new Settings(read_settings());
  return *read;
}

}  // namespace emu

extern "C" {

int emu_gpu_count(void) { return static_cast<int>(emu::settings().gpus); }
int emu_gpus_per_node(void) { return static_cast<int>(emu::settings().gpus_per_node); }
const char* emu_session(void) { return emu::settings().session.c_str(); }

int emu_quiet(void) { return emu::settings().quiet != 0 ? 1 : 0; }

uint64_t emu_transfer_ns(size_t bytes, int between_nodes) {
  const emu::Settings& set = emu::settings();
  const uint64_t latency_ns = between_nodes != 0 ? set.node_latency_ns : set.latency_ns;
  uint64_t bandwidth_gbps = between_nodes != 0 ? set.node_bandwidth_gbps : set.bandwidth_gbps;
  if (bandwidth_gbps == 0) bandwidth_gbps = 1;
  return latency_ns + bytes / bandwidth_gbps;  // 1 GB/s is 1 byte per nanosecond
}

}  // extern "C"
