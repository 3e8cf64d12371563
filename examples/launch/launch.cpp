#include "examples/launch/launch.h"

#include <cstdlib>
#include <initializer_list>
#include <stdexcept>

#include "examples/launch/number.h"

namespace examples {
namespace {

const char* first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) return value;
  }
  return nullptr;
}

int number_from(std::initializer_list<const char*> names, int fallback) {
  const char* text = first_set(names);
  return text ? parse_number<int>(text, *names.begin(), 0) : fallback;
}

}  // namespace

Launch launch_from_environment() {
  Launch launch;
  launch.rank = number_from({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}, 0);
  launch.world_size = number_from({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 1);
  launch.local_rank =
      number_from({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, launch.rank);
  if (const char* address = std::getenv("MASTER_ADDR")) launch.master_address = address;
  launch.master_port = number_from({"MASTER_PORT"}, launch.master_port);
  if (launch.rank >= launch.world_size) {
    throw std::invalid_argument("RANK " + std::to_string(launch.rank) +
                                " does not fit WORLD_SIZE " + std::to_string(launch.world_size));
  }
  return launch;
}

}  // namespace examples
