// Healthy dumps, traces and exports of other recorders, damaged at random: whatever is lost, cut,
// doubled, torn or overwritten with nothing, none of them may accuse anybody.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "tests/catch.h"
#include "tests/import/damage.h"
#include "tests/import/nsys_file.h"
#include "trace/import/importer.h"
#include "trace/shared_identifiers.h"

using namespace rollcall;
using namespace rollcall::trace;
using analysis::Confidence;

namespace {

struct Dump {
  std::string name;
  std::string bytes;
};

std::vector<Dump> sample(const std::string& name) {
  std::vector<Dump> dumps;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ROLLCALL_SAMPLES) + "/" + name)) {
    std::stringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    dumps.push_back({entry.path().filename(), bytes.str()});
  }
  std::sort(dumps.begin(), dumps.end(),
            [](const Dump& a, const Dump& b) { return a.name < b.name; });
  REQUIRE(dumps.size() >= 2);
  return dumps;
}

// What a full disk, a killed writer, or a machine that went down makes of a file that is no text:
// its end is lost, or a piece of it was never written.
std::string damaged_bytes(std::string bytes, std::mt19937& random) {
  if (bytes.empty()) return bytes;
  constexpr size_t kBlock = 512;
  const size_t at = random() % bytes.size();
  if (random() % 2 == 0) return bytes.substr(0, at);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::min(kBlock, bytes.size() - at),
              '\0');
  return bytes;
}

analysis::Report judge(const std::vector<Dump>& dumps) {
  Run run;
  for (const Dump& dump : dumps) {
    import_bytes(dump.name,
                 {reinterpret_cast<const uint8_t*>(dump.bytes.data()), dump.bytes.size()},
                 run.processes, run.issues, &run.logs);
  }
  forget_shared_identifiers(run);
  return analysis::analyse(run);
}

void check_nobody_accused(const std::vector<Dump>& dumps, uint32_t seed) {
  const analysis::Report report = judge(dumps);
  for (const analysis::Finding& finding : report.findings) {
    INFO("seed " << seed << ": " << finding.summary);
    CHECK_FALSE((is_defect(finding) && finding.confidence != Confidence::open));
  }
}

enum class Harm : uint8_t { lines, bytes };

// One or two of the files are damaged, as lines of text or as bytes.
void check(const std::vector<Dump>& healthy, uint32_t seeds, Harm harm) {
  check_nobody_accused(healthy, 0);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    std::vector<Dump> dumps = healthy;
    std::mt19937 random(seed);
    for (uint32_t i = 0; i <= seed % 2; ++i) {
      std::string& bytes = dumps[random() % dumps.size()].bytes;
      bytes = harm == Harm::lines && !bytes.empty()
                  ? damaged(lines_of(bytes), static_cast<uint32_t>(random()), 1 + seed % 3)
                  : damaged_bytes(bytes, random);
    }
    check_nobody_accused(dumps, seed);
  }
}

}  // namespace

TEST_CASE("damaged traces of the PyTorch profiler accuse nobody") {
  for (const char* name : {"kineto/clean", "kineto/old_without_seq"}) {
    INFO(name);
    const std::vector<Dump> healthy = sample(name);
    check(healthy, 100, Harm::lines);
    check(healthy, 60, Harm::bytes);
  }
}

TEST_CASE("damaged files of NCCL Inspector accuse nobody") {
  const std::vector<Dump> healthy = sample("inspector/clean");
  check(healthy, 150, Harm::lines);
  check(healthy, 60, Harm::bytes);
}

TEST_CASE("damaged dumps of Flight Recorder accuse nobody") {
  for (const char* name :
       {"flight_recorder/clean", "flight_recorder/clean_timing", "flight_recorder/old_v2_4"}) {
    INFO(name);
    check(sample(name), 100, Harm::bytes);
  }
  check(sample("flight_recorder/json_clean"), 150, Harm::lines);
}

TEST_CASE("damaged stacks of processes that all stand alike accuse nobody") {
  for (const char* name : {"py_spy/hang_rank2_in_dataloader", "py_spy/hang_rank2_text"}) {
    std::vector<Dump> healthy = sample(name);
    REQUIRE(healthy.size() == 4);
    for (Dump& dump : healthy) dump.bytes = healthy.front().bytes;
    check(healthy, 200, Harm::lines);
    check(healthy, 100, Harm::bytes);
  }
}

TEST_CASE("damaged logs of NCCL, a file for each process, accuse nobody") {
  check(sample("nccl_debug/clean"), 200, Harm::lines);
  check(sample("nccl_debug/clean"), 100, Harm::bytes);
}

TEST_CASE("damaged reports of ncclras as JSON accuse nobody, as files of their own") {
  std::vector<Dump> healthy = sample("ras/clean");
  std::erase_if(healthy, [](const Dump& dump) { return dump.name != "status.json"; });
  REQUIRE(healthy.size() == 1);
  check(healthy, 300, Harm::lines);
  check(healthy, 300, Harm::bytes);
}

TEST_CASE("damaged exports of Nsight Systems accuse nobody") {
  NsysCapture capture;
  for (int rank = 0; rank < 3; ++rank) {
    capture.create(rank, 3);
    for (int step = 0; step < 60; ++step) {
      capture.call(rank, 100 + 10 * step, static_cast<uint64_t>(1000 + step),
                   step % 4 == 0 ? 5 : 3);
    }
  }
  NsysFile file;
  file.run(capture.sql());
  std::stringstream bytes;
  bytes << std::ifstream(file.path(), std::ios::binary).rdbuf();
  check({{"job.sqlite", bytes.str()}}, 300, Harm::bytes);
}
