// Which process of a job this is, as its launcher says in the environment.
#pragma once

#include <string>

namespace examples {

// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT as torchrun sets them, or what Open MPI
// and Slurm set; one rank when nothing is set.
struct Launch {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
};

// Throws std::invalid_argument with a sentence for the user.
Launch launch_from_environment();

}  // namespace examples
