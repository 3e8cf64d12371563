// The whole public interface of NCCL, 2.3 to 2.32: what is intercepted and what is left alone.
//
// One table. The exported functions (interposers.cpp), the names `dlsym` is watched for
// (symbol_hook.cpp), the ABI test and `make check-api` derive from it, so a function is added here
// and nowhere else. Lists are by the minor version a function appeared in, so that the ABI test can
// leave out what an older header lacks; a third number is a point release.
//
// X(class, name, (parameters), (arguments)); every intercepted function returns nccl::Result.
//   operation  enqueues work on a stream: an OpRecord
//   event      creates, ends or changes something: an EventRecord
//   group      group calls: thread-local nesting; GroupEnd is an OpRecord too
#pragma once

#include "shim/nccl_abi.h"

// clang-format off
#define ROLLCALL_NCCL_2_3(X) \
  X(event, ncclCommDestroy, (nccl::Comm comm), (comm)) \
  X(event, ncclCommInitAll, (nccl::Comm* comm, int ndev, const int* devices), (comm, ndev, \
      devices)) \
  X(event, ncclCommInitRank, (nccl::Comm* comm, int nranks, nccl::UniqueId id, int rank), \
      (comm, nranks, id, rank)) \
  X(event, ncclGetUniqueId, (nccl::UniqueId* id), (id)) \
  X(group, ncclGroupEnd, (), ()) \
  X(group, ncclGroupStart, (), ()) \
  X(operation, ncclAllGather, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, nccl::Comm comm, nccl::Stream stream), (send, recv, count, datatype, comm, \
      stream)) \
  X(operation, ncclAllReduce, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, nccl::RedOp op, nccl::Comm comm, nccl::Stream stream), (send, recv, count, \
      datatype, op, comm, stream)) \
  X(operation, ncclBcast, (void* buffer, size_t count, nccl::DataType datatype, int root, \
      nccl::Comm comm, nccl::Stream stream), (buffer, count, datatype, root, comm, stream)) \
  X(operation, ncclBroadcast, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, int root, nccl::Comm comm, nccl::Stream stream), (send, recv, count, datatype, \
      root, comm, stream)) \
  X(operation, ncclReduce, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, nccl::RedOp op, int root, nccl::Comm comm, nccl::Stream stream), (send, recv, \
      count, datatype, op, root, comm, stream)) \
  X(operation, ncclReduceScatter, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, nccl::RedOp op, nccl::Comm comm, nccl::Stream stream), (send, recv, count, \
      datatype, op, comm, stream))

#define ROLLCALL_NCCL_2_4(X) \
  X(event, ncclCommAbort, (nccl::Comm comm), (comm)) \
  X(event, ncclCommGetAsyncError, (nccl::Comm comm, nccl::Result* async_error), (comm, \
      async_error))

#define ROLLCALL_NCCL_2_7(X) \
  X(operation, ncclRecv, (void* recv, size_t count, nccl::DataType datatype, int peer, \
      nccl::Comm comm, nccl::Stream stream), (recv, count, datatype, peer, comm, stream)) \
  X(operation, ncclSend, (const void* send, size_t count, nccl::DataType datatype, int peer, \
      nccl::Comm comm, nccl::Stream stream), (send, count, datatype, peer, comm, stream))

#define ROLLCALL_NCCL_2_11(X) \
  X(event, ncclRedOpCreatePreMulSum, (nccl::RedOp* op, void* scalar, nccl::DataType datatype, \
      nccl::ScalarResidence residence, nccl::Comm comm), (op, scalar, datatype, residence, \
      comm)) \
  X(event, ncclRedOpDestroy, (nccl::RedOp op, nccl::Comm comm), (op, comm))

#define ROLLCALL_NCCL_2_14(X) \
  X(event, ncclCommFinalize, (nccl::Comm comm), (comm)) \
  X(event, ncclCommInitRankConfig, (nccl::Comm* comm, int nranks, nccl::UniqueId id, int rank, \
      nccl::Config* config), (comm, nranks, id, rank, config))

#define ROLLCALL_NCCL_2_18(X) \
  X(event, ncclCommSplit, (nccl::Comm comm, int colour, int key, nccl::Comm* new_comm, \
      nccl::Config* config), (comm, colour, key, new_comm, config))

#define ROLLCALL_NCCL_2_19(X) \
  X(event, ncclCommDeregister, (const nccl::Comm comm, void* handle), (comm, handle)) \
  X(event, ncclCommRegister, (const nccl::Comm comm, void* buffer, size_t size, void** \
      handle), (comm, buffer, size, handle)) \
  X(event, ncclMemAlloc, (void** pointer, size_t size), (pointer, size)) \
  X(event, ncclMemFree, (void* pointer), (pointer))

#define ROLLCALL_NCCL_2_22(X) \
  X(group, ncclGroupSimulateEnd, (nccl::SimInfo* sim_info), (sim_info))

#define ROLLCALL_NCCL_2_23(X) \
  X(event, ncclCommInitRankScalable, (nccl::Comm* new_comm, int nranks, int rank, int \
      id_count, nccl::UniqueId* ids, nccl::Config* config), (new_comm, nranks, rank, id_count, \
      ids, config))

#define ROLLCALL_NCCL_2_27(X) \
  X(event, ncclCommShrink, (nccl::Comm comm, int* excluded, int excluded_count, nccl::Comm* \
      new_comm, nccl::Config* config, int flags), (comm, excluded, excluded_count, new_comm, \
      config, flags)) \
  X(event, ncclCommWindowDeregister, (nccl::Comm comm, nccl::Window window), (comm, window)) \
  X(event, ncclCommWindowRegister, (nccl::Comm comm, void* buffer, size_t size, nccl::Window* \
      window, int flags), (comm, buffer, size, window, flags))

#define ROLLCALL_NCCL_2_28(X) \
  X(operation, ncclAlltoAll, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, nccl::Comm comm, nccl::Stream stream), (send, recv, count, datatype, comm, \
      stream)) \
  X(operation, ncclGather, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, int root, nccl::Comm comm, nccl::Stream stream), (send, recv, count, datatype, \
      root, comm, stream)) \
  X(operation, ncclScatter, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, int root, nccl::Comm comm, nccl::Stream stream), (send, recv, count, datatype, \
      root, comm, stream))

#define ROLLCALL_NCCL_2_28_7(X) \
  X(event, ncclCommRevoke, (nccl::Comm comm, int flags), (comm, flags))

#define ROLLCALL_NCCL_2_29(X) \
  X(event, ncclCommGetUniqueId, (nccl::Comm comm, nccl::UniqueId* id), (comm, id)) \
  X(event, ncclCommGrow, (nccl::Comm comm, int nranks, const nccl::UniqueId* id, int rank, \
      nccl::Comm* new_comm, nccl::Config* config), (comm, nranks, id, rank, new_comm, config)) \
  X(operation, ncclPutSignal, (const void* local, size_t count, nccl::DataType datatype, int \
      peer, nccl::Window peer_window, size_t peer_offset, int signal, int context, unsigned \
      int flags, nccl::Comm comm, nccl::Stream stream), (local, count, datatype, peer, \
      peer_window, peer_offset, signal, context, flags, comm, stream)) \
  X(operation, ncclSignal, (int peer, int signal, int context, unsigned int flags, nccl::Comm \
      comm, nccl::Stream stream), (peer, signal, context, flags, comm, stream)) \
  X(operation, ncclWaitSignal, (int desc_count, nccl::WaitSignalDesc* descs, nccl::Comm comm, \
      nccl::Stream stream), (desc_count, descs, comm, stream))

#define ROLLCALL_NCCL_2_29_7(X) \
  X(event, ncclCommResume, (nccl::Comm comm), (comm)) \
  X(event, ncclCommSuspend, (nccl::Comm comm, int flags), (comm, flags))

#define ROLLCALL_NCCL_2_31(X) \
  X(operation, ncclAllGatherConfig, (const void* send, void* recv, size_t count, \
      nccl::DataType datatype, nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* \
      config), (send, recv, count, datatype, comm, stream, config)) \
  X(operation, ncclAllReduceConfig, (const void* send, void* recv, size_t count, \
      nccl::DataType datatype, nccl::RedOp op, nccl::Comm comm, nccl::Stream stream, const \
      nccl::CollConfig* config), (send, recv, count, datatype, op, comm, stream, config)) \
  X(operation, ncclAlltoAllConfig, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* config), (send, \
      recv, count, datatype, comm, stream, config)) \
  X(operation, ncclBroadcastConfig, (const void* send, void* recv, size_t count, \
      nccl::DataType datatype, int root, nccl::Comm comm, nccl::Stream stream, const \
      nccl::CollConfig* config), (send, recv, count, datatype, root, comm, stream, config)) \
  X(operation, ncclGatherConfig, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, int root, nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* \
      config), (send, recv, count, datatype, root, comm, stream, config)) \
  X(operation, ncclReduceConfig, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, nccl::RedOp op, int root, nccl::Comm comm, nccl::Stream stream, const \
      nccl::CollConfig* config), (send, recv, count, datatype, op, root, comm, stream, \
      config)) \
  X(operation, ncclReduceScatterConfig, (const void* send, void* recv, size_t count, \
      nccl::DataType datatype, nccl::RedOp op, nccl::Comm comm, nccl::Stream stream, const \
      nccl::CollConfig* config), (send, recv, count, datatype, op, comm, stream, config)) \
  X(operation, ncclScatterConfig, (const void* send, void* recv, size_t count, nccl::DataType \
      datatype, int root, nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* \
      config), (send, recv, count, datatype, root, comm, stream, config))

#define ROLLCALL_NCCL_2_32(X) \
  X(event, ncclSetEncryption, (const nccl::EncryptionConfig* config), (config))

// Declared in nccl_device.h, not in nccl.h; since 2.28.
#define ROLLCALL_NCCL_DEVICE(X) \
  X(event, ncclDevCommCreate, (nccl::Comm comm, const nccl::DevCommRequirements* requirements, \
      nccl::DevComm* dev_comm), (comm, requirements, dev_comm)) \
  X(event, ncclDevCommDestroy, (nccl::Comm comm, const nccl::DevComm* dev_comm), (comm, dev_comm))

#define ROLLCALL_NCCL_INTERCEPTED(X) \
  ROLLCALL_NCCL_2_3(X) \
  ROLLCALL_NCCL_2_4(X) \
  ROLLCALL_NCCL_2_7(X) \
  ROLLCALL_NCCL_2_11(X) \
  ROLLCALL_NCCL_2_14(X) \
  ROLLCALL_NCCL_2_18(X) \
  ROLLCALL_NCCL_2_19(X) \
  ROLLCALL_NCCL_2_22(X) \
  ROLLCALL_NCCL_2_23(X) \
  ROLLCALL_NCCL_2_27(X) \
  ROLLCALL_NCCL_2_28(X) \
  ROLLCALL_NCCL_2_28_7(X) \
  ROLLCALL_NCCL_2_29(X) \
  ROLLCALL_NCCL_2_29_7(X) \
  ROLLCALL_NCCL_2_31(X) \
  ROLLCALL_NCCL_2_32(X) \
  ROLLCALL_NCCL_DEVICE(X)

// Not intercepted: neither exported here nor recorded, so calls go to NCCL directly.
// X(name, major, minor, reason)
//   query    reads something local, changes nothing, cannot hang; polled by some jobs
//   setting  reads or dumps NCCL's settings (they are in the recorded environment)
//   device   prepares arguments of device code: local, no communication, layouts change by version
//   debug    re-reads NCCL_DEBUG
//   internal leaked by the library of 2.30.3 and 2.30.4, not an interface
#define ROLLCALL_NCCL_PASSED_THROUGH(X) \
  X(ncclCftBarrierCreateRequirement, 2, 31, device) \
  X(ncclCommCount, 2, 3, query) \
  X(ncclCommCuDevice, 2, 3, query) \
  X(ncclCommMemStats, 2, 29, query) \
  X(ncclCommQueryProperties, 2, 29, query) \
  X(ncclCommUserRank, 2, 3, query) \
  X(ncclGetCftDeviceLeInfo, 2, 31, device) \
  X(ncclGetErrorString, 2, 3, query) \
  X(ncclGetLastError, 2, 13, query) \
  X(ncclGetLsaDevicePointer, 2, 29, device) \
  X(ncclGetLsaMultimemDevicePointer, 2, 29, device) \
  X(ncclGetMultimemDeviceLeInfo, 2, 31, device) \
  X(ncclGetMultimemDevicePointer, 2, 29, device) \
  X(ncclGetPeerDeviceLeInfo, 2, 31, device) \
  X(ncclGetPeerDevicePointer, 2, 29, device) \
  X(ncclGetVersion, 2, 3, query) \
  X(ncclGinBarrierCreateRequirement, 2, 28, device) \
  X(ncclGinInboxA2ACreateRequirement, 2, 29, device) \
  X(ncclGinOutboxCreateRequirement, 2, 29, device) \
  X(ncclLLA2ACalcSlots, 2, 28, device) \
  X(ncclLLA2ACreateRequirement, 2, 28, device) \
  X(ncclLsaBarrierCreateRequirement, 2, 28, device) \
  X(ncclParamBind, 2, 30, setting) \
  X(ncclParamDumpAll, 2, 30, setting) \
  X(ncclParamGet, 2, 30, setting) \
  X(ncclParamGetAllParameterKeys, 2, 30, setting) \
  X(ncclParamGetI16, 2, 30, setting) \
  X(ncclParamGetI32, 2, 30, setting) \
  X(ncclParamGetI64, 2, 30, setting) \
  X(ncclParamGetI8, 2, 30, setting) \
  X(ncclParamGetParameter, 2, 30, setting) \
  X(ncclParamGetStr, 2, 30, setting) \
  X(ncclParamGetU16, 2, 30, setting) \
  X(ncclParamGetU32, 2, 30, setting) \
  X(ncclParamGetU64, 2, 30, setting) \
  X(ncclParamGetU8, 2, 30, setting) \
  X(ncclResetDebugInit, 2, 24, debug) \
  X(ncclResetDebugInitInternal, 2, 28, debug) \
  X(ncclTeamCft, 2, 31, device) \
  X(ncclTeamCftMultimem, 2, 31, device) \
  X(ncclTeamLsa, 2, 28, device) \
  X(ncclTeamRail, 2, 28, device) \
  X(ncclTeamRankToLsa, 2, 28, device) \
  X(ncclTeamRankToWorld, 2, 28, device) \
  X(ncclTeamWorld, 2, 28, device) \
  X(ncclWinGetUserPtr, 2, 29, query) \
  X(ncclParamEnvPluginGet, 2, 30, internal) \
  X(ncclParamIsCacheDisabled, 2, 30, internal) \
  X(ncclParamRegistryInstance, 2, 30, internal) \
  X(ncclParamDumpAllFlag, 2, 30, internal) \
  X(ncclParamDumpAllFlagKey, 2, 30, internal) \
  X(ncclParamNoCacheStr, 2, 30, internal) \
  X(ncclParamNoCacheStrKey, 2, 30, internal)
// clang-format on
