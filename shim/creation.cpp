// Calls that create communicators.
#include "core/capture/communicators.h"
#include "core/capture/events.h"
#include "shim/comm_config.h"
#include "shim/event_call.h"
#include "shim/events.h"
#include "shim/identity.h"

namespace rollcall::shim {
namespace {

// A node's worth of GPUs, with room; a larger clique is recorded up to here.
constexpr int kInitAllRanksMax = 64;

struct InitCall {
  EventKind kind;
  int nranks;
  int rank;
  int id_count;
  const nccl::UniqueId* ids;
  const nccl::Config* config;
  nccl::Comm* where;
};

template <typename RealCall>
nccl::Result record_init(const Site& site, const InitCall& init, RealCall&& real) {
  const CommConfig config = read_config(init.config, false);
  const CommKey key = key_of_ids(init.ids, init.id_count);
  const uint32_t index = capture::open_comm({.origin = CommOrigin::init,
                                             .key = key,
                                             .nranks = init.nranks,
                                             .rank = init.rank,
                                             .non_blocking = config.non_blocking,
                                             .name = config.name});
  const capture::EventCall call{
      .kind = init.kind,
      .comm_index = index,
      .arguments = {init.nranks, init.rank, init.id_count, short_hash(key)},
      .text = config.name[0] != 0 ? config.name : nullptr,
      .caller = site.caller};
  const nccl::Result result = record_event(site, call, nullptr, real);
  creation_returned(site, index, init.where, result);
  return result;
}

// What a split, a shrink or a grow has in common: a parent, its child's number, the child.
struct Parent {
  uint32_t index = kCommUnknown;
  CommKey key{};
  uint32_t child_number = 0;
  bool non_blocking = false;
  int nranks = -1;
  int rank = -1;
};

Parent parent_of(const Site& site, EventKind kind, nccl::Comm comm) {
  Parent parent;
  parent.index = index_for(site, kind, comm);
  const CommEntry* entry = capture::comm_entry(parent.index);
  if (entry == nullptr) return parent;
  parent.key = entry->key;
  parent.non_blocking = entry->non_blocking != 0;
  parent.nranks = entry->nranks;
  parent.rank = entry->rank;
  parent.child_number = capture::next_child_number(parent.index);
  return parent;
}

capture::CommOpening opening_of(const Parent& parent, CommOrigin origin, const CommKey& key,
                                const CommConfig& config) {
  return {.origin = origin,
          .key = key,
          .parent_key = parent.key,
          .parent_index = parent.index,
          .child_number = parent.child_number,
          .non_blocking = config.non_blocking,
          .name = config.name};
}

// How many of the excluded ranks are below `rank`: the survivors close ranks.
int excluded_below(const int* excluded, int count, int rank) {
  int below = 0;
  for (int i = 0; i < count; ++i) below += excluded[i] < rank;
  return below;
}

// A table index as an event argument.
int64_t child_argument(uint32_t index) {
  return index == kCommUnknown ? -1 : static_cast<int64_t>(index);
}

}  // namespace

namespace logic {

nccl::Result ncclCommInitRank(const Site& site,
                              nccl::Result (*real)(nccl::Comm*, int, nccl::UniqueId, int),
                              nccl::Comm* comm, int nranks, nccl::UniqueId id, int rank) {
  return record_init(site, {EventKind::CommInitRank, nranks, rank, 1, &id, nullptr, comm},
                     [&] { return real(comm, nranks, id, rank); });
}

nccl::Result ncclCommInitRankConfig(
    const Site& site, nccl::Result (*real)(nccl::Comm*, int, nccl::UniqueId, int, nccl::Config*),
    nccl::Comm* comm, int nranks, nccl::UniqueId id, int rank, nccl::Config* config) {
  return record_init(site, {EventKind::CommInitRankConfig, nranks, rank, 1, &id, config, comm},
                     [&] { return real(comm, nranks, id, rank, config); });
}

nccl::Result ncclCommInitRankScalable(const Site& site,
                                      nccl::Result (*real)(nccl::Comm*, int, int, int,
                                                           nccl::UniqueId*, nccl::Config*),
                                      nccl::Comm* new_comm, int nranks, int rank, int id_count,
                                      nccl::UniqueId* ids, nccl::Config* config) {
  // More ids than ranks is the real function's to refuse; the list is not read that far.
  const int ids_readable = id_count >= 1 && id_count <= nranks ? id_count : 0;
  return record_init(
      site, {EventKind::CommInitRankScalable, nranks, rank, ids_readable, ids, config, new_comm},
      [&] { return real(new_comm, nranks, rank, id_count, ids, config); });
}

nccl::Result ncclCommInitAll(const Site& site, nccl::Result (*real)(nccl::Comm*, int, const int*),
                             nccl::Comm* comm, int ndev, const int* devices) {
  uint32_t indices[kInitAllRanksMax];
  const int ranks = comm == nullptr || ndev < 0 ? 0
                    : ndev < kInitAllRanksMax   ? ndev
                                                : kInitAllRanksMax;
  const CommKey key = key_of_init_all();
  for (int i = 0; i < ranks; ++i)
    indices[i] = capture::open_comm({.origin = CommOrigin::init_all,
                                     .key = key,
                                     .nranks = ndev,
                                     .rank = i,
                                     .device = devices != nullptr ? devices[i] : i});
  const capture::EventCall call{.kind = EventKind::CommInitAll,
                                .comm_index = ranks > 0 ? indices[0] : kCommUnknown,
                                .arguments = {ndev},
                                .caller = site.caller};
  const nccl::Result result =
      record_event(site, call, nullptr, [&] { return real(comm, ndev, devices); });
  for (int i = 0; i < ranks; ++i) creation_returned(site, indices[i], comm + i, result);
  return result;
}

nccl::Result ncclCommSplit(const Site& site,
                           nccl::Result (*real)(nccl::Comm, int, int, nccl::Comm*, nccl::Config*),
                           nccl::Comm comm, int colour, int key, nccl::Comm* new_comm,
                           nccl::Config* config) {
  const Parent parent = parent_of(site, EventKind::CommSplit, comm);
  const CommConfig read = read_config(config, parent.non_blocking);
  uint32_t child = kCommUnknown;
  if (colour != nccl::kSplitNoColor) {  // a rank without colour takes part and gets nothing
    capture::CommOpening opening = opening_of(
        parent, CommOrigin::split, key_of_split(parent.key, parent.child_number, colour), read);
    opening.colour = colour;
    opening.split_key = key;
    child = capture::open_comm(opening);
  }
  const capture::EventCall call{
      .kind = EventKind::CommSplit,
      .comm_index = parent.index,
      .arguments = {colour, key, parent.child_number, child_argument(child)},
      .text = read.name[0] != 0 ? read.name : nullptr,
      .caller = site.caller};
  const nccl::Result result =
      record_event(site, call, comm, [&] { return real(comm, colour, key, new_comm, config); });
  // A rank without colour gets none.
  if (colour != nccl::kSplitNoColor) creation_returned(site, child, new_comm, result);
  return result;
}

nccl::Result ncclCommShrink(const Site& site,
                            nccl::Result (*real)(nccl::Comm, int*, int, nccl::Comm*, nccl::Config*,
                                                 int),
                            nccl::Comm comm, int* excluded, int excluded_count,
                            nccl::Comm* new_comm, nccl::Config* config, int flags) {
  const Parent parent = parent_of(site, EventKind::CommShrink, comm);
  const CommConfig read = read_config(config, parent.non_blocking);
  const int listed =
      excluded == nullptr || excluded_count < 0 || excluded_count > static_cast<int>(kRanksMax)
          ? 0
          : excluded_count;
  const uint64_t excluded_hash = hash_of_ranks(excluded, listed);
  capture::CommOpening opening =
      opening_of(parent, CommOrigin::shrink,
                 key_of_shrink(parent.key, parent.child_number, excluded_hash), read);
  if (parent.nranks >= 0) opening.nranks = parent.nranks - listed;
  if (parent.rank >= 0) opening.rank = parent.rank - excluded_below(excluded, listed, parent.rank);
  const uint32_t child = capture::open_comm(opening);
  const capture::EventCall call{
      .kind = EventKind::CommShrink,
      .comm_index = parent.index,
      .arguments = {excluded_count, parent.child_number, child_argument(child), flags,
                    static_cast<int64_t>(excluded_hash >> 1)},
      .text = read.name[0] != 0 ? read.name : nullptr,
      .caller = site.caller};
  const nccl::Result result = record_event(site, call, comm, [&] {
    return real(comm, excluded, excluded_count, new_comm, config, flags);
  });
  creation_returned(site, child, new_comm, result);
  return result;
}

nccl::Result ncclCommGrow(const Site& site,
                          nccl::Result (*real)(nccl::Comm, int, const nccl::UniqueId*, int,
                                               nccl::Comm*, nccl::Config*),
                          nccl::Comm comm, int nranks, const nccl::UniqueId* id, int rank,
                          nccl::Comm* new_comm, nccl::Config* config) {
  const bool joins = comm == nullptr;
  const Parent parent = joins ? Parent{} : parent_of(site, EventKind::CommGrow, comm);
  const CommConfig read = read_config(config, parent.non_blocking);
  const CommKey id_key = key_of_ids(id, 1);
  capture::CommOpening opening =
      opening_of(parent, CommOrigin::grow,
                 joins ? id_key : key_of_grow(parent.key, parent.child_number, nranks), read);
  opening.nranks = nranks;
  opening.rank = joins ? rank : parent.rank;  // members keep their rank
  const uint32_t child = capture::open_comm(opening);
  const capture::EventCall call{
      .kind = EventKind::CommGrow,
      .comm_index = parent.index,
      .arguments = {nranks, rank, parent.child_number, child_argument(child), short_hash(id_key)},
      .text = read.name[0] != 0 ? read.name : nullptr,
      .caller = site.caller};
  const nccl::Result result = record_event(
      site, call, comm, [&] { return real(comm, nranks, id, rank, new_comm, config); });
  creation_returned(site, child, new_comm, result);
  return result;
}

nccl::Result ncclGetUniqueId(const Site& site, nccl::Result (*real)(nccl::UniqueId*),
                             nccl::UniqueId* id) {
  const capture::EventCall call{.kind = EventKind::GetUniqueId, .caller = site.caller};
  return record_event(site, call, nullptr, [&] { return real(id); });
}

nccl::Result ncclCommGetUniqueId(const Site& site,
                                 nccl::Result (*real)(nccl::Comm, nccl::UniqueId*), nccl::Comm comm,
                                 nccl::UniqueId* id) {
  const capture::EventCall call{.kind = EventKind::CommGetUniqueId,
                                .comm_index = index_for(site, EventKind::CommGetUniqueId, comm),
                                .caller = site.caller};
  return record_event(site, call, comm, [&] { return real(comm, id); });
}

}  // namespace logic
}  // namespace rollcall::shim
