// What the command line says.
#pragma once

#include <cstddef>
#include <string>

#include "examples/launch/launch.h"
#include "fault.h"

namespace mini_train {

using examples::Launch;

struct Options {
  int data_parallel = 0;  // 0: what is left of the world
  int tensor_parallel = 1;
  int pipeline_parallel = 1;
  int steps = 10;
  int microbatches = 2;
  int layers = 2;
  int buckets = 3;
  int straggler_delay_ms = 50;
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

// Throws std::invalid_argument with a sentence for the user.
Options parse_options(int argc, char** argv);
// Fills in data_parallel and refuses combinations that cannot run.
void complete(Options* options, const Launch& launch);

std::string usage();

}  // namespace mini_train
