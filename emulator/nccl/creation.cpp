#include "emulator/nccl/creation.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/device/device.h"
#include "emulator/nccl/log.h"
#include "emulator/nccl/profiler_plugin.h"
#include "emulator/nccl/settings.h"

extern "C" int cuDeviceGetPCIBusId(char* text, int bytes, int device);

namespace emu_nccl {
namespace {

constexpr char kIdMagic[8] = {'R', 'C', 'E', 'M', 'U', 'I', 'D', '1'};

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 33);
}

uint64_t hash_text(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Equal for equal GPUs of one host. NCCL_HOSTID replaces the host's name, as in NCCL.
uint64_t gpu_identity(int device) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  const char* const host_id = std::getenv("NCCL_HOSTID");
  char bus[32] = "";
  if (cuDeviceGetPCIBusId(bus, sizeof(bus), device) != 0) bus[0] = static_cast<char>('0' + device);
  return mix(hash_text(host_id != nullptr ? host_id : host), hash_text(bus));
}

bool flag_variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr && std::atoi(text) != 0;
}

int job_rank(int fallback) {
  const char* const text = std::getenv("RANK");
  return text != nullptr && *text != '\0' ? std::atoi(text) : fallback;
}

// Sleeps until `condition`; longer and longer, as a whole machine of ranks may wait here for a slow
// one. False when the communicator was aborted instead.
template <typename Condition>
bool wait_until(const Communicator& communicator, Condition condition) {
  long pause_ns = 50'000;
  while (!condition()) {
    if (communicator.aborted.load()) return false;
    const timespec pause = {0, pause_ns};
    nanosleep(&pause, nullptr);
    pause_ns = std::min(pause_ns * 5 / 4, 2'000'000L);
  }
  return true;
}

ncclResult_t check_gpus(Communicator& communicator) {
  if (settings().shared_gpu != 0 || flag_variable("NCCL_MULTI_RANK_GPU_ENABLE")) return ncclSuccess;
  for (int a = 0; a < communicator.ranks; ++a) {
    for (int b = a + 1; b < communicator.ranks; ++b) {
      if (communicator.region->slot(a).gpu != communicator.region->slot(b).gpu) continue;
      warn(
          "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to "
          "allow "
          "it (rank %d and rank %d, CUDA device %d)",
          a, b, communicator.region->slot(a).device);
      return ncclInvalidUsage;
    }
  }
  return ncclSuccess;
}

void learn_neighbours(Communicator& communicator) {
  const int per_node = std::max(1, emu_gpus_per_node());
  const int own_node = communicator.job_rank / per_node;
  for (int rank = 0; rank < communicator.ranks; ++rank) {
    const RankSlot& slot = communicator.region->slot(rank);
    if (slot.job_rank / per_node != own_node) communicator.between_nodes = true;
    if (rank != communicator.rank && slot.pid == getpid()) communicator.several_here = true;
  }
}

// Takes place `rank` in a mapped region and waits for the others.
ncclResult_t take_place(const CommunicatorPointer& communicator, const char* function) {
  Region& region = *communicator->region;
  RankSlot& slot = region.slot(communicator->rank);
  uint32_t free_place = 0;
  if (!slot.joined.compare_exchange_strong(free_place, 1)) {
    warn("Bootstrap Root : rank %d of %d ranks has already checked in", communicator->rank,
         communicator->ranks);
    wait_until(*communicator, [] { return false; });
    return ncclInternalError;
  }
  slot.pid = getpid();
  slot.process_started = process_started(slot.pid);
  slot.device = communicator->device;
  slot.job_rank = communicator->job_rank;
  slot.gpu = gpu_identity(communicator->device);
  slot.mapped.store(1, std::memory_order_release);
  slot.joined.store(2, std::memory_order_release);
  int present = 0;
  const bool all_there = wait_until(*communicator, [&] {
    while (present < communicator->ranks &&
           region.slot(present).joined.load(std::memory_order_acquire) == 2) {
      ++present;
    }
    return present == communicator->ranks;
  });
  if (!all_there) return ncclInternalError;
  Region::sweep();
  const size_t ranks = static_cast<size_t>(communicator->ranks);
  communicator->sends_begun.assign(ranks, 0);
  communicator->sends_over.assign(ranks, 0);
  communicator->receives_begun.assign(ranks, 0);
  communicator->receives_over.assign(ranks, 0);
  learn_neighbours(*communicator);
  if (const ncclResult_t result = check_gpus(*communicator); result != ncclSuccess) return result;
  info(kLogInit,
       "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %x commId 0x%llx - Init COMPLETE",
       function, static_cast<void*>(communicator.get()), communicator->rank, communicator->ranks,
       communicator->device, communicator->device, (0x10 + communicator->device) << 12,
       static_cast<unsigned long long>(communicator->hash));
  return ncclSuccess;
}

// One rank of the parent makes the child's memory and says where it is; the others fetch it.
ncclResult_t join_child(const CommunicatorPointer& communicator, Communicator& parent,
                        ChildKind kind, uint64_t number, const std::vector<int>& members,
                        const char* function) {
  const auto self = std::find(members.begin(), members.end(), parent.rank);
  communicator->rank = static_cast<int>(self - members.begin());
  communicator->ranks = static_cast<int>(members.size());
  communicator->job_rank = parent.job_rank;
  info(kLogInit,
       "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %x parent %p childCount %d color "
       "%d key %d- Init START",
       function, static_cast<void*>(communicator.get()), communicator->rank, communicator->ranks,
       communicator->device, communicator->device, (0x10 + communicator->device) << 12,
       static_cast<void*>(&parent), static_cast<int>(number + 1),
       parent.self().children[kind].request[number % 2].color,
       parent.self().children[kind].request[number % 2].key);
  ChildExchange& leader = parent.region->slot(members[0]).children[kind];
  if (communicator->rank == 0) {
    communicator->region = Region::create(communicator->ranks);
    if (!communicator->region) {
      warn("no memory for a communicator: %s", std::strerror(errno));
      return ncclSystemError;
    }
    Region::publish(communicator->region);
    leader.request[number % 2].child = communicator->region->address();
    leader.made.set(number + 1);
  } else {
    if (!wait_until(*communicator,
                    [&] { return parent.aborted.load() || leader.made.get() > number; }) ||
        parent.aborted.load()) {
      return ncclInternalError;
    }
    bool agreed = false;
    communicator->region =
        Region::attach(leader.request[number % 2].child, communicator->ranks, &agreed);
    if (!communicator->region) {
      warn("rank %d of the parent, which made the communicator's memory, is gone", members[0]);
      return ncclRemoteError;
    }
  }
  return take_place(communicator, function);
}

// Says what this rank asks for and waits until all `members` have asked.
bool ask(const Communicator& communicator, Communicator& parent, ChildKind kind, uint64_t number,
         int color, int key, const std::vector<int>& members) {
  ChildExchange& mine = parent.self().children[kind];
  mine.request[number % 2].color = color;
  mine.request[number % 2].key = key;
  mine.asked.set(number + 1);
  size_t present = 0;
  return wait_until(
             communicator,
             [&] {
               if (parent.aborted.load()) return true;
               while (present < members.size() &&
                      parent.region->slot(members[present]).children[kind].asked.get() > number) {
                 ++present;
               }
               return present == members.size();
             }) &&
         !parent.aborted.load();
}

std::vector<int> all_ranks(const Communicator& parent) {
  std::vector<int> ranks(static_cast<size_t>(parent.ranks));
  for (int rank = 0; rank < parent.ranks; ++rank) ranks[static_cast<size_t>(rank)] = rank;
  return ranks;
}

}  // namespace

ncclResult_t make_unique_id(ncclUniqueId* id) {
  const std::shared_ptr<Region> region = Region::create(0);
  if (!region) {
    warn("no memory for a communicator: %s", std::strerror(errno));
    return ncclSystemError;
  }
  Region::publish(region);
  UniqueIdContent content = {};
  std::memcpy(content.magic, kIdMagic, sizeof(kIdMagic));
  content.address = region->address();
  const char* const session = emu_session();
  content.session = hash_text(session != nullptr ? session : "");
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &content, sizeof(content));
  return ncclSuccess;
}

CommunicatorPointer new_communicator(const ncclConfig_t* config, const Communicator* parent) {
  auto communicator = std::make_shared<Communicator>();
  communicator->device = parent != nullptr ? parent->device : emu_current_device();
  if (parent != nullptr) communicator->blocking = parent->blocking;
  if (config != nullptr) {
    communicator->blocking = true;
    // Fields behind the caller's size do not exist.
    ncclConfig_t copy = NCCL_CONFIG_INITIALIZER;
    std::memcpy(&copy, config, std::min(config->size, sizeof(copy)));
    if (copy.magic != NCCL_API_MAGIC) {
      warn("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
      return nullptr;
    }
    if (copy.version >= NCCL_VERSION(2, 14, 0) && copy.blocking != NCCL_CONFIG_UNDEF_INT) {
      if (copy.blocking != 0 && copy.blocking != 1) {
        warn("Invalid config blocking attribute value %d", copy.blocking);
        return nullptr;
      }
      communicator->blocking = copy.blocking != 0;
    }
    if (config->size > offsetof(ncclConfig_t, commName) && copy.commName != nullptr) {
      communicator->name = copy.commName;
    }
    communicator->avoids_kernels = config->size > offsetof(ncclConfig_t, CTAPolicy) &&
                                   copy.CTAPolicy != NCCL_CONFIG_UNDEF_INT &&
                                   (copy.CTAPolicy & NCCL_CTA_POLICY_ZERO) != 0;
  }
  if (const char* const forced = std::getenv("NCCL_COMM_BLOCKING")) {
    communicator->blocking = std::atoi(forced) != 0;
  }
  if (const char* const forced = std::getenv("NCCL_CTA_POLICY")) {
    communicator->avoids_kernels = (std::atoi(forced) & NCCL_CTA_POLICY_ZERO) != 0;
  }
  return communicator;
}

ncclResult_t join(const CommunicatorPointer& communicator, const RegionAddress& address, int ranks,
                  int rank, const char* function) {
  communicator->rank = rank;
  communicator->ranks = ranks;
  communicator->job_rank = job_rank(rank);
  communicator->hash = mix(address.token[0], address.token[1]);
  info(kLogInit,
       "[Rank %d] %s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %x commId 0x%llx - Init "
       "START",
       rank, function, static_cast<void*>(communicator.get()), rank, ranks, communicator->device,
       communicator->device, (0x10 + communicator->device) << 12,
       static_cast<unsigned long long>(communicator->hash));
  bool agreed = false;
  communicator->region = Region::attach(address, ranks, &agreed);
  if (!communicator->region) {
    warn("the process that made the unique id (pid %d) is gone or on another machine", address.pid);
    return ncclSystemError;
  }
  if (!agreed) {
    // NCCL's root gives up here and the ranks wait for its answer.
    warn("Bootstrap Root : mismatch in rank count from procs %d : %d",
         communicator->region->header().ranks.load(), ranks);
    wait_until(*communicator, [] { return false; });
    return ncclInternalError;
  }
  return take_place(communicator, function);
}

ncclResult_t create_split(const CommunicatorPointer& communicator,
                          const CommunicatorPointer& parent, uint64_t number, int color, int key) {
  if (!ask(*communicator, *parent, kSplit, number, color, key, all_ranks(*parent))) {
    return ncclInternalError;
  }
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  std::vector<std::pair<int, int>> order;  // key, rank
  for (int rank = 0; rank < parent->ranks; ++rank) {
    const ChildRequest& request = parent->region->slot(rank).children[kSplit].request[number % 2];
    if (request.color == color) order.emplace_back(request.key, rank);
  }
  std::sort(order.begin(), order.end());
  std::vector<int> members;
  for (const auto& [each_key, rank] : order) members.push_back(rank);
  // NCCL 2.23 does not count its splits: those of one colour have one identifier.
  const uint64_t of_parent = profiler_release() == 1 ? parent->hash : mix(parent->hash, number + 1);
  communicator->hash = mix(of_parent, static_cast<uint64_t>(color));
  return join_child(communicator, *parent, kSplit, number, members, "ncclCommSplit");
}

ncclResult_t create_shrunk(const CommunicatorPointer& communicator,
                           const CommunicatorPointer& parent, uint64_t number,
                           const std::vector<int>& excluded) {
  std::vector<int> members = all_ranks(*parent);
  std::erase_if(members, [&](int rank) {
    return std::find(excluded.begin(), excluded.end(), rank) != excluded.end();
  });
  if (!ask(*communicator, *parent, kShrink, number, 0, parent->rank, members)) {
    return ncclInternalError;
  }
  communicator->hash = mix(mix(parent->hash, number + 1), 0x736872696e6bu);
  return join_child(communicator, *parent, kShrink, number, members, "ncclCommShrink");
}

ncclResult_t create_grown(const CommunicatorPointer& communicator,
                          const CommunicatorPointer& parent, uint64_t number, int ranks,
                          bool coordinator, RegionAddress address) {
  ChildExchange& mine = parent->self().children[kGrow];
  if (coordinator) {
    mine.request[number % 2].child = address;
    mine.made.set(number + 1);
  } else {
    const bool found = wait_until(*communicator, [&] {
      for (int rank = 0; rank < parent->ranks; ++rank) {
        const ChildExchange& other = parent->region->slot(rank).children[kGrow];
        if (other.made.get() <= number) continue;
        address = other.request[number % 2].child;
        return true;
      }
      return parent->aborted.load();
    });
    if (!found || parent->aborted.load()) return ncclInternalError;
  }
  return join(communicator, address, ranks, parent->rank, "ncclCommGrow");
}

}  // namespace emu_nccl
