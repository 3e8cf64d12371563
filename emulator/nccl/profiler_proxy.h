// What a plugin hears of network operations: ProxyOp and ProxyStep, on a proxy's thread.
//
// A rank's own proxy tells of them. With PXN (ROLLCALL_EMULATE_PXN=1) the proxy of the next rank of
// its node, in another process, tells of a rank's sends: pid, context and parent are then those of
// the rank's own process and mean nothing where they are told. NCCL hands them over in shared
// memory, and so is done here.
#pragma once

#include <memory>

#include "emulator/nccl/region.h"

namespace emu_nccl {

class Communicator;

// The events of one operation in progress.
struct ProxyEvents {
  void* operation;
  void* step;  // the first
};
ProxyEvents begin_proxy(const ProxyWork& work);
// All of its steps, and its end.
void end_proxy(const ProxyWork& work, const ProxyEvents& events);

// One rank's end of PXN. Used on the proxy's thread, but for learn().
class ProxyNeighbour {
 public:
  // The ranks have met.
  void learn(const Communicator& communicator);
  // False: there is nobody for it, or no room; to be carried out here.
  bool hand_over(const ProxyWork& work);
  // Carries out what was handed over to this rank.
  void serve();
  bool is_there() const { return region_ != nullptr; }

 private:
  std::shared_ptr<Region> region_;  // null: no PXN
  int rank_ = 0;
  int server_ = 0;
  bool has_server_ = false;  // and it is in another process
};

}  // namespace emu_nccl
