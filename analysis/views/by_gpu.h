// A process that drives several GPUs, as JAX's do and those of ncclCommInitAll, is several ranks:
// each GPU has its communicators and its streams, and often a thread of its own, and waits by
// itself. The analysis knows processes that are one rank; so such a process is taken apart into one
// for each of its GPUs.
//
// Which communicators belong to one GPU: those of one device, where the file tells the devices of
// all; one without a device yet goes to the GPU of its parent, or to the next one that has none of
// its key. Where that gives a GPU two ranks of one communicator the process stays whole, and so
// does one with more than 64 GPUs.
//
// The records of a process that belong to no communicator (the end of a group, the launch of a
// graph, its exit) belong to all GPUs that take part in them. Whether its files are complete holds
// for each; what was counted (`statistics`) is on each, and summed up over the first only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

struct Parts {
  // A process for each GPU, in the order of the processes and devices. `job_rank` is the rank in
  // the communicator that all of them are in, the oldest one of several; where there is none, they
  // are numbered on.
  trace::Run run;
  std::vector<uint32_t> origin;  // by process: index into the run that was taken apart
  std::string numbering;         // what the ranks are then, for who reads of them
};

// Nothing where no process drives several GPUs, as far as the files tell. Linear in records, which
// it copies.
std::optional<Parts> take_apart(const trace::Run& run);

// Lets what was found in the parts speak of the processes of the whole run.
void put_together(const Parts& parts, Report& report);

}  // namespace rollcall::analysis
