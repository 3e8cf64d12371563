// Collectives, sends, receives, groups and reduction operations.
#include <cinttypes>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "emulator/device/device.h"
#include "emulator/nccl/api.h"
#include "emulator/nccl/arithmetic.h"
#include "emulator/nccl/faults.h"
#include "emulator/nccl/group.h"
#include "emulator/nccl/log.h"
#include "emulator/nccl/one_rank.h"
#include "emulator/nccl/unit.h"

// Of NCCL 2.31 and 2.32; our own header is that of 2.30. Of the settings of a call only the user's
// tag means something to the emulator.
struct ncclCollConfig_t {
  size_t size;
  unsigned int magic;
  unsigned int version;
  void* extension;
  int min_ctas, max_ctas, nvls_ctas, cluster_size;
  const char* algorithm;
  int force_algorithm;
  int cta_policy;
  uint64_t user_tag;
};
static_assert(sizeof(ncclCollConfig_t) == 64 && offsetof(ncclCollConfig_t, user_tag) == 56);
struct ncclEncryptionConfig_t;

namespace emu_nccl {
namespace {

struct Call {
  Kind kind;
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  int op;
  int root;
  ncclComm_t comm;
  cudaStream_t stream;
  const ncclCollConfig_t* config = nullptr;
};

ncclResult_t find_reduction(Communicator& communicator, const Call& call, Reduction* reduction) {
  if (call.op < ncclNumOps && call.op >= 0) {
    reduction->op = static_cast<ncclRedOp_t>(call.op);
    return ncclSuccess;
  }
  std::lock_guard<std::mutex> lock(communicator.reductions_mutex);
  const auto found = communicator.reductions.find(call.op);
  if (found == communicator.reductions.end()) {
    warn("%s : invalid reduction operation %d, or made for another communicator",
         kind_name(call.kind), call.op);
    return ncclInvalidArgument;
  }
  if (found->second.second != call.type) {
    warn(
        "%s : data type supplied to user-created ncclRedOp_t does not match type given to "
        "reduction",
        kind_name(call.kind));
    return ncclInvalidArgument;
  }
  *reduction = found->second.first;
  return ncclSuccess;
}

void log_call(const Call& call, const Communicator& communicator) {
  if (!info_wanted(kLogColl)) return;
  const bool transfer = call.kind == Kind::kSend || call.kind == Kind::kReceive;
  const void* const receive = call.kind == Kind::kSend ? call.send : call.receive;
  info(kLogColl,
       "%s: opCount %x sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p "
       "[nranks=%d] "
       "stream %p",
       kind_name(call.kind), 0u, transfer ? nullptr : call.send, receive, call.count,
       static_cast<int>(call.type), call.op, call.root, static_cast<const void*>(&communicator),
       communicator.ranks, static_cast<void*>(call.stream));
}

// As NCCL chooses on one node: buffers in windows of all ranks are reached directly.
Method method_of(Communicator& communicator, const Operation& operation) {
  const Kind kind = operation.kind;
  if (communicator.between_nodes || !communicator.windows.hold(operation.send) ||
      !communicator.windows.hold(operation.receive)) {
    return Method::kKernel;
  }
  if (communicator.avoids_kernels && (kind == Kind::kAllGather || kind == Kind::kAlltoAll)) {
    return Method::kCopies;
  }
  const bool has_kernel =
      kind == Kind::kAllReduce || kind == Kind::kAllGather || kind == Kind::kReduceScatter;
  return has_kernel ? Method::kSymmetricKernel : Method::kKernel;
}

// False for settings that were not made by NCCL's initializer.
bool read_config(const ncclCollConfig_t* config, uint64_t* user_tag) {
  if (config == nullptr) return true;
  if (config->magic != NCCL_API_MAGIC) {
    warn("ncclCollConfig_t argument not initialized via NCCL_COLLCONFIG_INITIALIZER");
    return false;
  }
  if (config->size >= sizeof(*config)) *user_tag = config->user_tag;
  return true;
}

ncclResult_t record(const Call& call) {
  const char* const name = kind_name(call.kind);
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = ready(call.comm, name, &result);
  if (!communicator) return result;
  if (call.root < 0 || call.root >= communicator->ranks) {
    warn("%s : invalid root %d (root should be in the 0..%d range)", name, call.root,
         communicator->ranks - 1);
    return ncclInvalidArgument;
  }
  const size_t element = element_bytes(call.type);
  if (element == 0) {
    warn("%s : invalid type %d", name, static_cast<int>(call.type));
    return ncclInvalidArgument;
  }
  Operation operation;
  if (result = find_reduction(*communicator, call, &operation.reduction); result != ncclSuccess) {
    return result;
  }
  if (call.count > SIZE_MAX / element / static_cast<size_t>(communicator->ranks)) {
    warn("%s : count %zu is more than the address space holds", name, call.count);
    return ncclInvalidArgument;
  }
  if (!read_config(call.config, &operation.user_tag)) return ncclInvalidArgument;
  log_call(call, *communicator);
  operation.kind = call.kind;
  operation.send = call.send;
  operation.receive = call.receive;
  operation.count = call.count;
  operation.type = call.type;
  operation.root = call.root;
  operation.method = method_of(*communicator, operation);
  const FaultEffect fault = apply_faults(communicator->job_rank, &operation.count);
  if (fault.has_faulty_memory) {
    warn("Cuda failure 214 'uncorrectable ECC error encountered'");
    return ncclUnhandledCudaError;
  }
  if (fault.skip || operation.count == 0) return ncclSuccess;  // NCCL discards empty operations
  operation.bytes = operation.count * element;
  if (is_alone(*communicator, operation)) return launch_alone(communicator, call.stream, operation);
  add_operation(communicator, call.stream, operation, fault.slow_factor);
  return ncclSuccess;
}

// A call by itself is a group of one.
ncclResult_t submit(const Call& call) {
  group_start();
  const ncclResult_t result = note_error(record(call));
  const ncclResult_t ended = group_end();
  if (result != ncclSuccess) return result;
  // It may be through already.
  return ended == ncclInProgress ? find_communicator(call.comm)->asynchronous_error() : ended;
}

}  // namespace
}  // namespace emu_nccl

using namespace emu_nccl;

EMU_NCCL_API(ncclResult_t, AllReduce,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  return submit({Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream});
}

EMU_NCCL_API(ncclResult_t, Broadcast,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
              ncclComm_t comm, cudaStream_t stream)) {
  return submit({Kind::kBroadcast, sendbuff, recvbuff, count, datatype, 0, root, comm, stream});
}

EMU_NCCL_API(ncclResult_t, Bcast,
             (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
              cudaStream_t stream)) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

EMU_NCCL_API(ncclResult_t, Reduce,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)) {
  return submit({Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream});
}

EMU_NCCL_API(ncclResult_t, AllGather,
             (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
              ncclComm_t comm, cudaStream_t stream)) {
  return submit({Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype, 0, 0, comm, stream});
}

EMU_NCCL_API(ncclResult_t, ReduceScatter,
             (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  return submit(
      {Kind::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream});
}

EMU_NCCL_API(ncclResult_t, AlltoAll,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclComm_t comm, cudaStream_t stream)) {
  return submit({Kind::kAlltoAll, sendbuff, recvbuff, count, datatype, 0, 0, comm, stream});
}

EMU_NCCL_API(ncclResult_t, Gather,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
              ncclComm_t comm, cudaStream_t stream)) {
  return submit({Kind::kGather, sendbuff, recvbuff, count, datatype, 0, root, comm, stream});
}

EMU_NCCL_API(ncclResult_t, Scatter,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
              ncclComm_t comm, cudaStream_t stream)) {
  return submit({Kind::kScatter, sendbuff, recvbuff, count, datatype, 0, root, comm, stream});
}

EMU_NCCL_API(ncclResult_t, Send,
             (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
              ncclComm_t comm, cudaStream_t stream)) {
  return submit({Kind::kSend, sendbuff, nullptr, count, datatype, 0, peer, comm, stream});
}

EMU_NCCL_API(ncclResult_t, Recv,
             (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
              cudaStream_t stream)) {
  return submit({Kind::kReceive, nullptr, recvbuff, count, datatype, 0, peer, comm, stream});
}

// NCCL 2.31: the same with settings per call. They do not call the plain ones.

EMU_NCCL_API(ncclResult_t, AllReduceConfig,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
              const ncclCollConfig_t* config)) {
  return submit(
      {Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream, config});
}

EMU_NCCL_API(ncclResult_t, BroadcastConfig,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return submit(
      {Kind::kBroadcast, sendbuff, recvbuff, count, datatype, 0, root, comm, stream, config});
}

EMU_NCCL_API(ncclResult_t, ReduceConfig,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
              const ncclCollConfig_t* config)) {
  return submit(
      {Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream, config});
}

EMU_NCCL_API(ncclResult_t, AllGatherConfig,
             (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return submit(
      {Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype, 0, 0, comm, stream, config});
}

EMU_NCCL_API(ncclResult_t, ReduceScatterConfig,
             (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
              const ncclCollConfig_t* config)) {
  return submit(
      {Kind::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream, config});
}

EMU_NCCL_API(ncclResult_t, AlltoAllConfig,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return submit({Kind::kAlltoAll, sendbuff, recvbuff, count, datatype, 0, 0, comm, stream, config});
}

EMU_NCCL_API(ncclResult_t, GatherConfig,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return submit(
      {Kind::kGather, sendbuff, recvbuff, count, datatype, 0, root, comm, stream, config});
}

EMU_NCCL_API(ncclResult_t, ScatterConfig,
             (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  return submit(
      {Kind::kScatter, sendbuff, recvbuff, count, datatype, 0, root, comm, stream, config});
}

EMU_NCCL_API(ncclResult_t, PutSignal,
             (const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int,
              unsigned int, ncclComm_t, cudaStream_t)) {
  return note_error(not_emulated("ncclPutSignal"));
}

EMU_NCCL_API(ncclResult_t, Signal, (int, int, int, unsigned int, ncclComm_t, cudaStream_t)) {
  return note_error(not_emulated("ncclSignal"));
}

EMU_NCCL_API(ncclResult_t, WaitSignal, (int, ncclWaitSignalDesc_t*, ncclComm_t, cudaStream_t)) {
  return note_error(not_emulated("ncclWaitSignal"));
}

EMU_NCCL_API(ncclResult_t, GroupStart, (void)) {
  group_start();
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, GroupEnd, (void)) { return group_end(); }

EMU_NCCL_API(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * simInfo)) {
  float estimated_us = 0;
  const ncclResult_t result = group_simulate_end(&estimated_us);
  if (result != ncclSuccess || simInfo == nullptr) return result;
  constexpr unsigned int kSimInfoMagic = 0x74685283;
  if (simInfo->magic != kSimInfoMagic) {
    warn("ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
    return ncclInvalidArgument;
  }
  simInfo->estimatedTime = estimated_us;
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, RedOpCreatePreMulSum,
             (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype,
              ncclScalarResidence_t residence, ncclComm_t comm)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = ready(comm, "ncclRedOpCreatePreMulSum", &result);
  if (!communicator) return result;
  if (result = require(op, "ncclRedOpCreatePreMulSum", "op"); result != ncclSuccess) return result;
  if (result = require(scalar, "ncclRedOpCreatePreMulSum", "scalar"); result != ncclSuccess) {
    return result;
  }
  if (element_bytes(datatype) == 0) {
    warn("ncclRedOpCreatePreMulSum : invalid type %d", static_cast<int>(datatype));
    return ncclInvalidArgument;
  }
  Reduction reduction;
  reduction.premultiply = true;
  if (residence == ncclScalarDevice) {
    reduction.scalar_address = scalar;
  } else {
    std::memcpy(&reduction.scalar, scalar, element_bytes(datatype));
  }
  std::lock_guard<std::mutex> lock(communicator->reductions_mutex);
  // Like NCCL's: no small numbers, and different for each communicator, so that a mix-up is found.
  int value =
      ncclNumOps + static_cast<int>((reinterpret_cast<uintptr_t>(comm) >> 4) & 0x3fffff) * 256;
  while (communicator->reductions.count(value) != 0) ++value;
  communicator->reductions[value] = {reduction, datatype};
  *op = static_cast<ncclRedOp_t>(value);
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  if (op >= 0 && op < ncclNumOps) {
    warn("ncclRedOpDestroy : operator is a NCCL builtin.");
    return ncclInvalidArgument;
  }
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = usable(comm, "ncclRedOpDestroy", &result);
  if (!communicator) return result;
  std::lock_guard<std::mutex> lock(communicator->reductions_mutex);
  if (communicator->reductions.erase(op) == 0) {
    warn("ncclRedOpDestroy : operator unknown to this communicator.");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}
