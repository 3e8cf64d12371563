// Life cycle of communicators, queries, errors.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "emulator/device/device.h"
#include "emulator/nccl/api.h"
#include "emulator/nccl/creation.h"
#include "emulator/nccl/group.h"
#include "emulator/nccl/log.h"
#include "emulator/nccl/profiler.h"

struct ncclEncryptionConfig_t;

namespace emu_nccl {

ncclResult_t require(const void* pointer, const char* function, const char* argument) {
  if (pointer != nullptr) return ncclSuccess;
  warn("%s : %s argument is NULL", function, argument);
  return ncclInvalidArgument;
}

ncclResult_t not_emulated(const char* function) {
  emu_not_emulated(function, "ncclInvalidUsage");
  warn("%s : the emulator does not have this; it needs a real GPU and NCCL", function);
  return ncclInvalidUsage;
}

CommunicatorPointer usable(ncclComm_t handle, const char* function, ncclResult_t* result) {
  *result = require(handle, function, "comm");
  if (*result != ncclSuccess) return nullptr;
  CommunicatorPointer communicator = find_communicator(handle);
  if (!communicator) {
    warn("%s : comm %p is not a live communicator (destroyed, aborted or corrupted)", function,
         static_cast<void*>(handle));
    *result = ncclInvalidArgument;
  }
  return communicator;
}

CommunicatorPointer ready(ncclComm_t handle, const char* function, ncclResult_t* result) {
  CommunicatorPointer communicator = usable(handle, function, result);
  if (!communicator) return nullptr;
  if (communicator->state.load() == Communicator::kInitialising ||
      communicator->in_progress.load() > 0) {
    warn("Attempt to use communicator before the previous operation returned ncclSuccess");
    *result = ncclInvalidArgument;
    return nullptr;
  }
  if (communicator->state.load() == Communicator::kFailed) {
    *result = communicator->error.load();
    return nullptr;
  }
  if (communicator->revoked.load() || communicator->finalized.load()) {
    warn("%s : communicator was %s", function,
         communicator->revoked.load() ? "revoked" : "finalized");
    *result = ncclInvalidUsage;
    return nullptr;
  }
  return communicator;
}

namespace {

// Registers the new communicator, gives the caller its handle, and creates it now or at the end of
// the group.
ncclResult_t start(const CommunicatorPointer& communicator, ncclComm_t* out,
                   std::function<ncclResult_t()> run) {
  print_version();
  if (out != nullptr) *out = register_communicator(communicator);
  group_start();
  add_creation({communicator, out, std::move(run), nullptr});
  return group_end();
}

// The same of one that is made of another. NCCL 2.28 says that it succeeded where the parent does
// not block, with no handle yet.
ncclResult_t start_child(const CommunicatorPointer& child, const CommunicatorPointer& parent,
                         ncclComm_t* out, std::function<ncclResult_t()> run) {
  if (parent->blocking && out != nullptr) *out = register_communicator(child);
  group_start();
  add_creation({child, out, std::move(run), parent});
  const ncclResult_t ended = group_end();
  return ended == ncclInProgress ? ncclSuccess : ended;
}

ncclResult_t init_rank(ncclComm_t* out, int ranks, const ncclUniqueId* id, int rank,
                       const ncclConfig_t* config, const char* function) {
  if (const ncclResult_t result = require(out, function, "comm"); result != ncclSuccess) {
    return note_error(result);
  }
  if (ranks < 1 || ranks > kRanksMax || rank < 0 || rank >= ranks) {
    warn("Invalid rank requested : %d/%d%s", rank, ranks,
         ranks > kRanksMax ? " (the emulator carries 64 ranks)" : "");
    return note_error(ncclInvalidArgument);
  }
  UniqueIdContent content;
  std::memcpy(&content, id->internal, sizeof(content));
  if (std::memcmp(content.magic, "RCEMUID1", sizeof(content.magic)) != 0) {
    warn("%s : commId was not made by ncclGetUniqueId of the emulator (or not transferred whole)",
         function);
    return note_error(ncclInvalidArgument);
  }
  const CommunicatorPointer communicator = new_communicator(config, nullptr);
  if (!communicator) return note_error(ncclInvalidArgument);
  communicator->rank = rank;
  communicator->ranks = ranks;
  return start(communicator, out, [=, address = content.address] {
    return join(communicator, address, ranks, rank, function);
  });
}

// Ends what is under way, so that streams are released; what other ranks see is up to them.
void stop_work(const CommunicatorPointer& communicator, std::atomic<bool>* flag) {
  flag->store(true);
  emu_wake();
  // Units that their stream has not reached cannot be waited for: it may be blocked by another
  // communicator.
  for (int i = 0; i < 200 && !communicator->units.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Calls that another thread carries out.
void wait_for_calls(const Communicator& communicator) {
  while (communicator.in_progress.load() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// As NCCL, whose communicators outlive the graphs that replay their kernels: nothing ends this but
// the end of the graphs, an abort neither.
void wait_for_graphs(const CommunicatorPointer& communicator) {
  const std::atomic<bool> never{false};
  communicator->captured.wait_empty(never);
}

void log_end(const Communicator& communicator, const char* what) {
  info(kLogDestroy, "comm %p rank %d nranks %d cudaDev %d busId %x - %s COMPLETE",
       static_cast<const void*>(&communicator), communicator.rank, communicator.ranks,
       communicator.device, (0x10 + communicator.device) << 12, what);
}

// A query that needs no more than an initialised communicator.
template <typename Value>
ncclResult_t query(ncclComm_t comm, const char* function, Value* out, Value Communicator::*field) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = usable(comm, function, &result);
  if (!communicator) return result;
  if (result = require(out, function, "result"); result != ncclSuccess) return result;
  if (communicator->state.load() == Communicator::kInitialising) {
    warn("Attempt to use communicator before the previous operation returned ncclSuccess");
    return ncclInvalidArgument;
  }
  *out = (*communicator).*field;
  return ncclSuccess;
}

}  // namespace
}  // namespace emu_nccl

using namespace emu_nccl;

EMU_NCCL_API(ncclResult_t, GetVersion, (int* version)) {
  if (const ncclResult_t result = require(version, "ncclGetVersion", "version")) return result;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, GetUniqueId, (ncclUniqueId * uniqueId)) {
  if (const ncclResult_t result = require(uniqueId, "ncclGetUniqueId", "out")) return result;
  return make_unique_id(uniqueId);
}

EMU_NCCL_API(ncclResult_t, CommInitRank,
             (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank)) {
  return init_rank(comm, nranks, &commId, rank, nullptr, "ncclCommInitRank");
}

EMU_NCCL_API(ncclResult_t, CommInitRankConfig,
             (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  return init_rank(comm, nranks, &commId, rank, config, "ncclCommInitRankConfig");
}

EMU_NCCL_API(ncclResult_t, CommInitRankScalable,
             (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
              ncclConfig_t* config)) {
  if (const ncclResult_t result = require(commIds, "ncclCommInitRankScalable", "commIds")) {
    return note_error(result);
  }
  if (nId < 1 || nId > nranks) {
    warn("Invalid number of unique ids : %d", nId);
    return note_error(ncclInvalidArgument);
  }
  return init_rank(newcomm, nranks, &commIds[0], myrank, config, "ncclCommInitRankScalable");
}

EMU_NCCL_API(ncclResult_t, CommInitAll, (ncclComm_t * comms, int ndev, const int* devlist)) {
  if (const ncclResult_t result = require(comms, "ncclCommInitAll", "comms")) return result;
  if (ndev < 1 || ndev > kRanksMax) {
    warn("Invalid device count requested : %d", ndev);
    return ncclInvalidArgument;
  }
  for (int i = 0; i < ndev; ++i) {
    const int device = devlist != nullptr ? devlist[i] : i;
    if (device >= 0 && device < emu_gpu_count()) continue;
    warn("Invalid device %d requested : this process has %d", device, emu_gpu_count());
    return ncclUnhandledCudaError;
  }
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id)) return result;
  group_start();
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < ndev && result == ncclSuccess; ++i) {
    const DeviceScope device(devlist != nullptr ? devlist[i] : i);
    result = init_rank(&comms[i], ndev, &id, i, nullptr, "ncclCommInitAll");
  }
  const ncclResult_t ended = group_end();
  return result != ncclSuccess ? result : ended;
}

EMU_NCCL_API(ncclResult_t, CommSplit,
             (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer parent = ready(comm, "ncclCommSplit", &result);
  if (!parent) return note_error(result);
  if (result = require(newcomm, "ncclCommSplit", "newcomm"); result != ncclSuccess) {
    return note_error(result);
  }
  if (color < NCCL_SPLIT_NOCOLOR) {
    warn("ncclCommSplit : invalid color %d", color);
    return note_error(ncclInvalidArgument);
  }
  *newcomm = nullptr;
  const CommunicatorPointer child = new_communicator(config, parent.get());
  if (!child) return note_error(ncclInvalidArgument);
  const uint64_t number = parent->children[kSplit]++;
  const bool member = color != NCCL_SPLIT_NOCOLOR;
  return start_child(child, parent, member ? newcomm : nullptr,
                     [=] { return create_split(child, parent, number, color, key); });
}

EMU_NCCL_API(ncclResult_t, CommShrink,
             (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
              ncclConfig_t* config, int shrinkFlags)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer parent = usable(comm, "ncclCommShrink", &result);
  if (!parent) return note_error(result);
  if (result = require(newcomm, "ncclCommShrink", "newcomm"); result != ncclSuccess) {
    return note_error(result);
  }
  *newcomm = nullptr;
  if (excludeRanksList == nullptr || excludeRanksCount <= 0 || excludeRanksCount >= parent->ranks ||
      (shrinkFlags & ~NCCL_SHRINK_ABORT) != 0) {
    warn("ncclCommShrink : invalid list of %d ranks to exclude, or flags %d", excludeRanksCount,
         shrinkFlags);
    return note_error(ncclInvalidArgument);
  }
  std::sort(excludeRanksList, excludeRanksList + excludeRanksCount);  // in place, as NCCL
  const std::vector<int> excluded(excludeRanksList, excludeRanksList + excludeRanksCount);
  for (const int rank : excluded) {
    if (rank >= 0 && rank < parent->ranks && rank != parent->rank) continue;
    warn("ncclCommShrink : rank %d cannot be excluded here", rank);
    return note_error(ncclInvalidArgument);
  }
  const CommunicatorPointer child = new_communicator(config, parent.get());
  if (!child) return note_error(ncclInvalidArgument);
  if ((shrinkFlags & NCCL_SHRINK_ABORT) != 0) stop_work(parent, &parent->revoked);
  const uint64_t number = parent->children[kShrink]++;
  return start_child(child, parent, newcomm,
                     [=] { return create_shrunk(child, parent, number, excluded); });
}

EMU_NCCL_API(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = ready(comm, "ncclCommGetUniqueId", &result);
  if (!communicator) return result;
  if (result = require(uniqueId, "ncclCommGetUniqueId", "uniqueId"); result != ncclSuccess) {
    return result;
  }
  return make_unique_id(uniqueId);
}

EMU_NCCL_API(ncclResult_t, CommGrow,
             (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
              ncclComm_t* newcomm, ncclConfig_t* config)) {
  if (comm == nullptr) {
    if (const ncclResult_t result = require(uniqueId, "ncclCommGrow", "uniqueId")) {
      return note_error(result);
    }
    return init_rank(newcomm, nRanks, uniqueId, rank, config, "ncclCommGrow");
  }
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer parent = ready(comm, "ncclCommGrow", &result);
  if (!parent) return note_error(result);
  if (result = require(newcomm, "ncclCommGrow", "newcomm"); result != ncclSuccess) {
    return note_error(result);
  }
  if (rank != -1 || nRanks <= parent->ranks || nRanks > kRanksMax) {
    warn(
        "ncclCommGrow : a rank of the parent passes rank -1 (not %d) and more ranks than the "
        "parent's %d",
        rank, parent->ranks);
    return note_error(ncclInvalidArgument);
  }
  *newcomm = nullptr;
  const CommunicatorPointer child = new_communicator(config, parent.get());
  if (!child) return note_error(ncclInvalidArgument);
  RegionAddress made = {};
  if (uniqueId != nullptr) {
    UniqueIdContent content;
    std::memcpy(&content, uniqueId->internal, sizeof(content));
    made = content.address;
  }
  const uint64_t number = parent->children[kGrow]++;
  const bool coordinator = uniqueId != nullptr;
  return start_child(child, parent, newcomm, [=] {
    return create_grown(child, parent, number, nRanks, coordinator, made);
  });
}

EMU_NCCL_API(ncclResult_t, CommFinalize, (ncclComm_t comm)) {
  if (comm == nullptr) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = usable(comm, "ncclCommFinalize", &result);
  if (!communicator) return result;
  if (communicator->state.load() != Communicator::kReady ||
      communicator->finalized.exchange(true)) {
    warn("ncclCommFinalize : comm %p is not ready or was finalized before",
         static_cast<void*>(comm));
    return ncclInvalidArgument;
  }
  if (communicator->blocking) {
    communicator->units.wait_empty(communicator->aborted);
    wait_for_graphs(communicator);
    return ncclSuccess;
  }
  communicator->in_progress.fetch_add(1);
  std::thread([communicator] {
    communicator->units.wait_empty(communicator->aborted);
    wait_for_graphs(communicator);
    communicator->in_progress.fetch_sub(1);
  }).detach();
  return ncclInProgress;
}

EMU_NCCL_API(ncclResult_t, CommDestroy, (ncclComm_t comm)) {
  if (comm == nullptr) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = usable(comm, "ncclCommDestroy", &result);
  if (!communicator) return result;
  if (communicator->state.load() == Communicator::kInitialising) {
    communicator->aborted.store(true);  // as NCCL: a creation under way is given up
  }
  wait_for_calls(*communicator);
  if (!communicator->revoked.load()) communicator->units.wait_empty(communicator->aborted);
  wait_for_graphs(communicator);
  log_end(*communicator, "Destroy");
  forget_communicator(comm);
  if (communicator->profiled) communicator->profiled->finalize();
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommAbort, (ncclComm_t comm)) {
  if (comm == nullptr) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = usable(comm, "ncclCommAbort", &result);
  if (!communicator) return result;
  if (communicator->state.load() == Communicator::kReady) communicator->self().aborted.store(1);
  stop_work(communicator, &communicator->aborted);
  wait_for_calls(*communicator);
  wait_for_graphs(communicator);
  log_end(*communicator, "Abort");
  forget_communicator(comm);
  if (communicator->profiled) communicator->profiled->finalize();
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommRevoke, (ncclComm_t comm, int revokeFlags)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = ready(comm, "ncclCommRevoke", &result);
  if (!communicator) return result;
  if (revokeFlags != NCCL_REVOKE_DEFAULT) {
    warn("ncclCommRevoke : flags %d are unknown", revokeFlags);
    return ncclInvalidArgument;
  }
  stop_work(communicator, &communicator->revoked);
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommSuspend, (ncclComm_t comm, int flags)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = ready(comm, "ncclCommSuspend", &result);
  if (!communicator) return result;
  if ((flags & ~NCCL_SUSPEND_MEM) != 0) {
    warn("ncclCommSuspend : flags %d are unknown", flags);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommResume, (ncclComm_t comm)) {
  ncclResult_t result = ncclSuccess;
  ready(comm, "ncclCommResume", &result);
  return result;
}

EMU_NCCL_API(const char*, GetErrorString, (ncclResult_t code)) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclTimeout:
      return "operation timed out";
    default:
      return "unknown result code";
  }
}

EMU_NCCL_API(const char*, GetLastError, (ncclComm_t)) { return last_error(); }

EMU_NCCL_API(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = usable(comm, "ncclCommGetAsyncError", &result);
  if (!communicator) return result;
  if (result = require(asyncError, "ncclCommGetAsyncError", "asyncError"); result != ncclSuccess) {
    return result;
  }
  *asyncError = communicator->asynchronous_error();
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommCount, (const ncclComm_t comm, int* count)) {
  return query(comm, "ncclCommCount", count, &Communicator::ranks);
}

EMU_NCCL_API(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int* device)) {
  return query(comm, "ncclCommCuDevice", device, &Communicator::device);
}

EMU_NCCL_API(ncclResult_t, CommUserRank, (const ncclComm_t comm, int* rank)) {
  return query(comm, "ncclCommUserRank", rank, &Communicator::rank);
}

EMU_NCCL_API(ncclResult_t, CommMemStats,
             (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value)) {
  ncclResult_t result = ncclSuccess;
  if (!ready(comm, "ncclCommMemStats", &result)) return result;
  if (value == nullptr || static_cast<int>(stat) < 0 || stat > ncclStatGpuMemTotal) {
    warn("ncclCommMemStats : no such statistic, or nowhere to put it");
    return ncclInvalidArgument;
  }
  *value = 0;  // the emulator's buffers are host memory
  return ncclSuccess;
}

EMU_NCCL_API(void, ResetDebugInit, (void)) { reset_log(); }

extern "C" void ncclResetDebugInitInternal(void);
extern "C" void ncclResetDebugInitInternal(void) { reset_log(); }

// NCCL 2.32: nothing leaves the machine here, so there is nothing to encrypt.
EMU_NCCL_API(ncclResult_t, SetEncryption, (const ncclEncryptionConfig_t*)) { return ncclSuccess; }

// Tells a stand-in from the real library.
extern "C" const int rollcall_emulated_nccl;
extern "C" const int rollcall_emulated_nccl = 1;
