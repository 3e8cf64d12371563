// What the command line and the launcher's environment say.
#pragma once

#include <cstddef>
#include <string>

#include "fault.h"

namespace mini_train {

struct Options {
  int data_parallel = 0;  // 0: what is left of the world
  int tensor_parallel = 1;
  int pipeline_parallel = 1;
  int steps = 10;
  int microbatches = 2;
  int layers = 2;
  int buckets = 3;
  size_t bucket_elements = 4096;
  bool non_blocking = false;  // communicators on which calls may come back before they are done
  bool graphs = false;        // the gradients' operations are captured once and replayed
  int step_ms = 0;            // simulated compute of a step, on the GPU's stream
  double hang_timeout_s = 0;  // 0: hangs for as long as NCCL does
  std::string log_prefix;     // empty: no log
  Fault fault;
  bool verify = true;  // of every result, every step
  bool list_faults = false;
  bool help = false;
};

// Who this process is: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT as torchrun sets
// them, or what Open MPI and Slurm set; one rank when nothing is set.
struct Launch {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
};

// Both throw std::invalid_argument with a sentence for the user.
Options parse_options(int argc, char** argv);
Launch launch_from_environment();
// Fills in data_parallel and refuses combinations that cannot run.
void complete(Options* options, const Launch& launch);

std::string usage();

}  // namespace mini_train
