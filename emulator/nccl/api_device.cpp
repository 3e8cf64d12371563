// The device API's host side (nccl_device.h). Teams and properties are answered; whatever needs
// code on a GPU says so.
#include <algorithm>
#include <cstring>

#include "emulator/device/device.h"
#include "emulator/nccl/api.h"
#include "emulator/nccl/log.h"

extern "C" {
struct ncclTeam {
  int nRanks;
  int rank;
  int stride;
};
struct ncclDevCommRequirements;
struct ncclDevComm;
struct ncclDevResourceRequirements;

// The properties up to 2.30; `version` says which of them the caller has.
struct ncclCommProperties {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  int ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
};
}

namespace emu_nccl {
namespace {

ncclTeam no_team() { return {1, 0, 1}; }

// Ranks of one node stand next to each other.
ncclTeam team(ncclComm_t comm, bool of_node) {
  const CommunicatorPointer communicator = find_communicator(comm);
  if (!communicator) return no_team();
  if (!of_node || !communicator->between_nodes) return {communicator->ranks, communicator->rank, 1};
  const int per_node = std::max(1, std::min(emu_gpus_per_node(), communicator->ranks));
  const int first = communicator->rank / per_node * per_node;
  return {std::min(per_node, communicator->ranks - first), communicator->rank % per_node, 1};
}

}  // namespace
}  // namespace emu_nccl

using namespace emu_nccl;

EMU_NCCL_API(ncclTeam, TeamWorld, (ncclComm_t comm)) { return team(comm, false); }
EMU_NCCL_API(ncclTeam, TeamLsa, (ncclComm_t comm)) { return team(comm, true); }
EMU_NCCL_API(ncclTeam, TeamRail, (ncclComm_t comm)) {
  const ncclTeam world = team(comm, false);
  const ncclTeam node = team(comm, true);
  const int size = std::max(1, node.nRanks);
  return {world.nRanks / size, world.rank / size, size};
}
EMU_NCCL_API(int, TeamRankToWorld, (ncclComm_t comm, ncclTeam team_of, int rank)) {
  return team(comm, false).rank + (rank - team_of.rank) * team_of.stride;
}
EMU_NCCL_API(int, TeamRankToLsa, (ncclComm_t comm, ncclTeam team_of, int rank)) {
  return team(comm, true).rank + (rank - team_of.rank) * team_of.stride;
}
EMU_NCCL_API(ncclTeam, TeamCft, (ncclComm_t, int)) { return no_team(); }
EMU_NCCL_API(ncclTeam, TeamCftMultimem, (ncclComm_t)) { return no_team(); }

EMU_NCCL_API(ncclResult_t, CommQueryProperties, (ncclComm_t comm, ncclCommProperties* props)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = ready(comm, "ncclCommQueryProperties", &result);
  if (!communicator) return result;
  if (result = require(props, "ncclCommQueryProperties", "props"); result != ncclSuccess) {
    return result;
  }
  if (props->magic != NCCL_API_MAGIC) {
    warn("ncclCommProperties argument not initialized via NCCL_COMM_PROPERTIES_INITIALIZER");
    return ncclInvalidArgument;
  }
  // Only what the caller's structure has; everything not named is false, none or 0.
  const size_t end = std::min(props->size, sizeof(ncclCommProperties));
  const size_t start = offsetof(ncclCommProperties, rank);
  if (end > start) std::memset(reinterpret_cast<char*>(props) + start, 0, end - start);
  if (end < offsetof(ncclCommProperties, deviceApiSupport)) return ncclSuccess;
  props->rank = communicator->rank;
  props->nRanks = communicator->ranks;
  props->cudaDev = communicator->device;
  props->nvmlDev = communicator->device;
  return ncclSuccess;
}

EMU_NCCL_API(int, LLA2ACalcSlots, (int maxElts, int maxEltSize)) {
  // Two 8-byte halves, each with its flag, per slot of 16 bytes.
  return maxElts * std::max(1, (maxEltSize + 7) / 8);
}

#define EMU_NCCL_ABSENT(name, parameters) \
  EMU_NCCL_API(ncclResult_t, name, parameters) { return not_emulated("nccl" #name); }

EMU_NCCL_ABSENT(DevCommCreate, (ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*))
EMU_NCCL_ABSENT(DevCommDestroy, (ncclComm_t, const ncclDevComm*))
EMU_NCCL_ABSENT(LLA2ACreateRequirement, (int, int, void*, ncclDevResourceRequirements*))
EMU_NCCL_ABSENT(LsaBarrierCreateRequirement, (ncclTeam, int, void*, ncclDevResourceRequirements*))
EMU_NCCL_ABSENT(GinBarrierCreateRequirement,
                (ncclComm_t, ncclTeam, int, void*, ncclDevResourceRequirements*))
EMU_NCCL_ABSENT(GinInboxA2ACreateRequirement,
                (ncclTeam, int, int, void*, ncclDevResourceRequirements*))
EMU_NCCL_ABSENT(GinOutboxCreateRequirement, (int, int, void*, ncclDevResourceRequirements*))
EMU_NCCL_ABSENT(GetLsaDevicePointer, (ncclWindow_t, size_t, int, void**))
EMU_NCCL_ABSENT(GetLsaMultimemDevicePointer, (ncclWindow_t, size_t, void**))
// The multicast handle is a pointer by value.
EMU_NCCL_ABSENT(GetMultimemDevicePointer, (ncclWindow_t, size_t, void*, void**))
EMU_NCCL_ABSENT(GetPeerDevicePointer, (ncclWindow_t, size_t, int, void**))
EMU_NCCL_ABSENT(GetMultimemDeviceLeInfo, (ncclWindow_t, size_t, void*, size_t*))
EMU_NCCL_ABSENT(GetCftDeviceLeInfo, (ncclWindow_t, size_t, int, ncclTeam, void*, size_t*))
EMU_NCCL_ABSENT(GetPeerDeviceLeInfo, (ncclWindow_t, size_t, int, void*, size_t*))
