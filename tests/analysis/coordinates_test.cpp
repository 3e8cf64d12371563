// Where ranks stand in the meshes of their job.
#include "analysis/words/coordinates.h"

#include <string>
#include <utility>
#include <vector>

#include "analysis/record/index.h"
#include "tests/catch.h"

namespace rollcall::analysis {
namespace coordinates_test {

trace::Process process_in(const std::vector<std::pair<std::string, int32_t>>& comms) {
  trace::Process process;
  for (const auto& [name, rank] : comms) {
    trace::Comm comm;
    comm.name = name;
    comm.rank = rank;
    process.comms.push_back(comm);
  }
  return process;
}

std::string text_of(const trace::Process& process) {
  std::string text;
  for (const Coordinate& at : coordinates_of(process)) {
    text += at.dimension + " " + std::to_string(at.index) + ";";
  }
  return text;
}

TEST_CASE("the rank in a group of a mesh is the coordinate in its dimension") {
  CHECK(text_of(process_in({{"default_pg:0", 5}, {"mesh_dp:3", 1}, {"mesh_tp:4314d7ee", 0}})) ==
        "dp 1;tp 0;");
  CHECK(text_of(process_in({{"mesh_dim_0", 2}})) == "dim_0 2;");
  CHECK(text_of(process_in({{"PIPELINE_MODEL_PARALLEL_GROUP:7", 3},
                            {"TENSOR_MODEL_PARALLEL_GROUP", 1}})) == "pp 3;tp 1;");
}

TEST_CASE("a group that is of no mesh, or whose rank is not known, is no coordinate") {
  CHECK(text_of(process_in({{"default_pg:0", 5}, {"meshes", 1}, {"my_mesh_dp", 1}, {"", 0}}))
            .empty());
  CHECK(text_of(process_in({{"mesh_default:1", 5}, {"mesh_", 1}, {"mesh_dp:1", -1}})).empty());
  CHECK(text_of(process_in({{"TENSOR_MODEL_PARALLEL_GROUPS", 1}})).empty());
}

TEST_CASE("of two meshes that disagree about a dimension neither is told") {
  CHECK(text_of(process_in({{"mesh_dp:1", 0}, {"mesh_tp:2", 1}, {"mesh_dp:9", 1}})) == "tp 1;");
  CHECK(text_of(process_in({{"mesh_dp:1", 1}, {"mesh_dp:9", 1}})) == "dp 1;");
}

TEST_CASE("culprits that left a file are told with their place in the mesh, others without") {
  trace::Run run;
  run.processes.push_back(process_in({{"mesh_dp:1", 1}}));
  Finding finding;
  finding.culprits.resize(2);
  finding.culprits[1].process = kNone;
  std::vector<Finding> findings = {finding};
  name_coordinates(run, findings);
  CHECK(findings[0].culprits[0].coordinates.size() == 1);
  CHECK(findings[0].culprits[1].coordinates.empty());
}

}  // namespace coordinates_test
}  // namespace rollcall::analysis
