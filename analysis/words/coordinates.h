// Where a rank stands in the meshes of its job, as users know it: "dp 3, tp 1".
//
// No record holds a mesh. What tells it is how communicators are called: one of PyTorch's device
// mesh is "mesh_<dimension>" behind which a colon and more may come, those of Megatron-Core have
// fixed names. The rank in such a communicator is the coordinate. A dimension that no call was made
// in, or that only one rank is in, has no communicator, and is not told; nor is one of which
// communicators disagree, as where a job has two meshes.
//
// Threads: plain functions.
#pragma once

#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// In the order in which the communicators were made.
std::vector<Coordinate> coordinates_of(const trace::Process& process);

// Of every culprit that left a file. `findings` name processes of `run`.
void name_coordinates(const trace::Run& run, std::vector<Finding>& findings);

}  // namespace rollcall::analysis
