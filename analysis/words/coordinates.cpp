#include "analysis/words/coordinates.h"

#include <algorithm>
#include <string_view>

namespace rollcall::analysis {
namespace {

struct KnownGroup {
  std::string_view name;
  std::string_view dimension;
};

// As megatron/core/parallel_state.py describes its groups.
constexpr KnownGroup kMegatronGroups[] = {{"TENSOR_MODEL_PARALLEL_GROUP", "tp"},
                                          {"PIPELINE_MODEL_PARALLEL_GROUP", "pp"},
                                          {"DATA_PARALLEL_GROUP", "dp"},
                                          {"CONTEXT_PARALLEL_GROUP", "cp"},
                                          {"EXPERT_MODEL_PARALLEL_GROUP", "ep"}};

// Empty: of no mesh.
std::string_view dimension_of(std::string_view comm_name) {
  constexpr std::string_view kMesh = "mesh_";
  constexpr std::string_view kWholeMesh = "mesh_default";
  const std::string_view group = comm_name.substr(0, comm_name.find(':'));
  if (group.starts_with(kMesh)) {
    return group == kWholeMesh ? std::string_view() : group.substr(kMesh.size());
  }
  for (const KnownGroup& known : kMegatronGroups) {
    if (group == known.name) return known.dimension;
  }
  return {};
}

}  // namespace

std::vector<Coordinate> coordinates_of(const trace::Process& process) {
  std::vector<Coordinate> coordinates;
  std::vector<std::string_view> disputed;
  for (const trace::Comm& comm : process.comms) {
    const std::string_view dimension = dimension_of(comm.name);
    if (dimension.empty() || comm.rank < 0) continue;
    const auto known = std::ranges::find(coordinates, dimension, &Coordinate::dimension);
    if (known == coordinates.end()) {
      coordinates.push_back({.dimension = std::string(dimension), .index = comm.rank});
    } else if (known->index != comm.rank) {
      disputed.push_back(dimension);
    }
  }
  std::erase_if(coordinates, [&](const Coordinate& coordinate) {
    return std::ranges::find(disputed, coordinate.dimension) != disputed.end();
  });
  return coordinates;
}

void name_coordinates(const trace::Run& run, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    for (Culprit& culprit : finding.culprits) {
      if (culprit.process >= run.processes.size()) continue;
      culprit.coordinates = coordinates_of(run.processes[culprit.process]);
    }
  }
}

}  // namespace rollcall::analysis
