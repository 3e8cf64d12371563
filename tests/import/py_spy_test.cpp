// Stacks of py-spy.
#include <filesystem>
#include <map>

#include "tests/catch.h"
#include "trace/import/importer.h"

namespace rollcall::trace {
namespace {

std::map<std::string, std::string> said_of(const std::string& sample) {
  std::map<std::string, std::string> said;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ROLLCALL_SAMPLES) + "/py_spy/" + sample)) {
    std::vector<Process> processes;
    std::vector<Issue> issues;
    CHECK(import_file(entry.path(), processes, issues).is_known);
    CHECK(processes.empty());
    REQUIRE(issues.size() == 1);
    said[entry.path().stem()] = issues[0].text;
  }
  return said;
}

TEST_CASE("processes that stand alike are said to in the same words, and the odd one is not") {
  for (const char* sample :
       {"hang_rank2_in_dataloader", "hang_rank2_in_dataloader_native", "hang_rank2_text"}) {
    CAPTURE(sample);
    auto said = said_of(sample);
    REQUIRE(said.size() == 4);
    CHECK(said["pyspy_rank0"] == said["pyspy_rank1"]);
    CHECK(said["pyspy_rank0"] == said["pyspy_rank3"]);
    CHECK(said["pyspy_rank0"] != said["pyspy_rank2"]);
    CHECK(said["pyspy_rank0"].find("train.py:") != std::string::npos);
    CHECK(said["pyspy_rank2"].find("dataloader.py:") != std::string::npos);
  }
}

TEST_CASE("a dump of py-spy that was cut says that it tells nothing") {
  const std::string text = R"([{"pid": 1, "os_thread_id": 1, "frames": [{"name": "wait")";
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_bytes("pyspy.json", {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
               processes, issues);
  REQUIRE(issues.size() == 1);
  CHECK(issues[0].unusable);
  CHECK(issues[0].text.find("cut off") != std::string::npos);
}

}  // namespace
}  // namespace rollcall::trace
