// ROLLCALL_* variables: what is understood, and what is said of the rest.
#include "core/base/config.h"

#include <stdlib.h>

#include <string>
#include <vector>

#include "tests/catch.h"

namespace rollcall {
namespace {

std::vector<std::string> warnings;
void collect(std::string_view sentence) { warnings.emplace_back(sentence); }

Config read_with(const char* name, const char* value) {
  warnings.clear();
  setenv(name, value, 1);
  const Config config = read_config(collect);
  unsetenv(name);
  return config;
}

TEST_CASE("without variables the defaults hold and nothing is said") {
  warnings.clear();
  const Config config = read_config(collect);
  CHECK(warnings.empty());
  CHECK(config.enable);
  CHECK(config.history);
  CHECK(config.ring_slots == kRingSlotsDefault);
  CHECK(config.max_history_bytes == kHistoryBytesDefault);
}

TEST_CASE("ring sizes are rounded up to a power of two and held to their bounds") {
  CHECK(read_with("ROLLCALL_RING_SLOTS", "1000").ring_slots == 1024);
  CHECK(warnings.empty());
  CHECK(read_with("ROLLCALL_RING_SLOTS", "1").ring_slots == kRingSlotsMin);
  CHECK(warnings.size() == 1);
  CHECK(read_with("ROLLCALL_RING_SLOTS", "99999999").ring_slots == kRingSlotsMax);
  CHECK(warnings.size() == 1);
}

TEST_CASE("a value that is not understood costs one line that names variable, value and default") {
  for (const char* value : {"lots", "-1", "12x", "0x10", "99999999999999999999999"}) {
    CHECK(read_with("ROLLCALL_RING_SLOTS", value).ring_slots == kRingSlotsDefault);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("ROLLCALL_RING_SLOTS=" + std::string(value)) != std::string::npos);
    CHECK(warnings[0].find("using 65536") != std::string::npos);
  }
  CHECK(read_with("ROLLCALL_ENABLE", "maybe").enable);
  REQUIRE(warnings.size() == 1);
  CHECK(read_with("ROLLCALL_GPU_TIMING", "stopwatch").gpu_timing == GpuTiming::events);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("is not off, events, progress or cupti; using events") !=
        std::string::npos);
}

TEST_CASE("every way of timing the GPU is understood, and a library for one of them") {
  CHECK(read_with("ROLLCALL_GPU_TIMING", "off").gpu_timing == GpuTiming::off);
  CHECK(read_with("ROLLCALL_GPU_TIMING", "events").gpu_timing == GpuTiming::events);
  CHECK(read_with("ROLLCALL_GPU_TIMING", "progress").gpu_timing == GpuTiming::progress);
  CHECK(read_with("ROLLCALL_GPU_TIMING", "cupti").gpu_timing == GpuTiming::cupti);
  CHECK(warnings.empty());
  CHECK(read_with("ROLLCALL_CUPTI", "/a/libcupti.so").cupti != nullptr);
  CHECK(read_with("ROLLCALL_CUPTI", "").cupti == nullptr);
}

TEST_CASE("sizes take the suffixes k, m and g and refuse what overflows") {
  CHECK(read_with("ROLLCALL_MAX_HISTORY", "64m").max_history_bytes == 64ull << 20);
  CHECK(read_with("ROLLCALL_MAX_HISTORY", "2G").max_history_bytes == 2ull << 30);
  CHECK(read_with("ROLLCALL_MAX_HISTORY", "4096").max_history_bytes == 4096);
  CHECK(warnings.empty());
  CHECK(read_with("ROLLCALL_MAX_HISTORY", "99999999999999999g").max_history_bytes ==
        kHistoryBytesDefault);
  CHECK(warnings.size() == 1);
}

TEST_CASE("a flag is understood in each of its spellings") {
  CHECK(read_with("ROLLCALL_CHROME_TRACE", "on").chrome_trace);
  CHECK(read_with("ROLLCALL_CHROME_TRACE", "true").chrome_trace);
  CHECK(read_with("ROLLCALL_CHROME_TRACE", "Yes").chrome_trace);
  CHECK_FALSE(read_with("ROLLCALL_HISTORY", "off").history);
  CHECK_FALSE(read_with("ROLLCALL_ENABLE", "OFF").enable);
  CHECK(warnings.empty());
  CHECK_FALSE(read_with("ROLLCALL_CHROME_TRACE", "sometimes").chrome_trace);
  CHECK(warnings.size() == 1);
}

TEST_CASE("lines of Python are recorded within the budget, always or never") {
  CHECK(read_config(collect).python_frames == PythonFrames::within_budget);
  CHECK(read_with("ROLLCALL_PYTHON_FRAMES", "Auto").python_frames == PythonFrames::within_budget);
  CHECK(read_with("ROLLCALL_PYTHON_FRAMES", "on").python_frames == PythonFrames::always);
  CHECK(read_with("ROLLCALL_PYTHON_FRAMES", "0").python_frames == PythonFrames::off);
  CHECK(warnings.empty());
  CHECK(read_with("ROLLCALL_PYTHON_FRAMES", "sometimes").python_frames ==
        PythonFrames::within_budget);
  CHECK(warnings.size() == 1);
}

TEST_CASE("a run id is hex as it is, or the hash of any other text, and never 0") {
  CHECK(parse_run_id("1f") == 0x1f);
  CHECK(parse_run_id("0") == 1);
  CHECK(parse_run_id("my run") != 0);
  CHECK(parse_run_id("my run") != parse_run_id("my run 2"));
  CHECK(parse_run_id("") == 0);
}

}  // namespace
}  // namespace rollcall
