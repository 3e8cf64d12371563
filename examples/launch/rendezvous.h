// How the ranks get the one ncclUniqueId: rank 0 hands it out over TCP and closes the port. Nothing
// is left behind, whichever rank dies.
#pragma once

#include <nccl.h>

#include "examples/launch/launch.h"

namespace examples {

// Blocks until every rank has asked (rank 0) or rank 0 has answered; throws std::runtime_error
// after a minute.
ncclUniqueId exchange_unique_id(const Launch& launch);

}  // namespace examples
