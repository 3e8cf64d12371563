#include "emulator/nccl/one_rank.h"

#include "emulator/device/device.h"
#include "emulator/nccl/log.h"

extern "C" int cuMemcpyAsync(unsigned long long destination, unsigned long long source,
                             size_t bytes, void* stream);

namespace emu_nccl {
namespace {

unsigned long long device_address(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer);
}

}  // namespace

bool is_alone(const Communicator& communicator, const Operation& operation) {
  return communicator.ranks == 1 && operation.kind != Kind::kSend &&
         operation.kind != Kind::kReceive;
}

ncclResult_t launch_alone(const CommunicatorPointer& communicator, void* stream,
                          const Operation& operation) {
  // Only a factor takes a kernel.
  if (operation.reduction.premultiply) {
    return Unit::launch(std::make_shared<Unit>(communicator, std::vector<Operation>{operation},
                                               /*slow_factor=*/1, /*plan=*/nullptr),
                        {stream});
  }
  if (operation.send == operation.receive) return ncclSuccess;
  const int failed = cuMemcpyAsync(device_address(operation.receive),
                                   device_address(operation.send), operation.bytes, stream);
  if (failed == 0) return ncclSuccess;
  warn("the copy of a communicator of one rank failed: CUDA error %d", failed);
  return ncclUnhandledCudaError;
}

}  // namespace emu_nccl
