#include "groups.h"

#include <unistd.h>

#include <numeric>

#include "checks.h"
#include "examples/launch/rendezvous.h"

namespace mini_train {
namespace {

struct Dimension {
  const char* name;
  int size;    // ranks of a group
  int stride;  // distance in the world between neighbours of a group
  std::unique_ptr<Communicator>* communicator;
};

[[noreturn]] void sleep_for_ever() {
  while (true) ::pause();
}

}  // namespace

Groups::Groups(const Options& options, const Launch& launch, CallLog* log)
    : log_(log),
      rank_(launch.rank),
      stages_(options.pipeline_parallel),
      is_non_blocking_(options.non_blocking) {
  const int tensor = options.tensor_parallel;
  const int data = options.data_parallel;
  stage_ = rank_ / (tensor * data);
  const Fault& fault = options.fault;

  const ncclUniqueId id = examples::exchange_unique_id(launch);
  if (fault.hits(FaultKind::init_missing, rank_, fault.step)) {
    log_->fault(fault, nullptr, "ncclCommInitRank", -1, 0);
    sleep_for_ever();
  }
  std::vector<int> everyone(static_cast<size_t>(launch.world_size));
  std::iota(everyone.begin(), everyone.end(), 0);
  ncclComm_t handle = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (is_non_blocking_) config.blocking = 0;
  const ncclResult_t result =
      is_non_blocking_ ? ncclCommInitRankConfig(&handle, launch.world_size, id, rank_, &config)
                       : ncclCommInitRank(&handle, launch.world_size, id, rank_);
  check_settled(handle, result, "ncclCommInitRank");
  world_ = std::make_unique<Communicator>(log_, "world", handle, everyone, rank_, is_non_blocking_);

  std::vector<Dimension> dimensions;
  if (tensor > 1) dimensions.push_back({"tp", tensor, 1, &tensor_});
  if (data > 1) dimensions.push_back({"dp", data, tensor, &data_});
  if (stages_ > 1) dimensions.push_back({"pp", stages_, tensor * data, &pipeline_});
  for (const Dimension& dimension : dimensions) {
    const int index = rank_ / dimension.stride % dimension.size;
    const int first = rank_ - index * dimension.stride;
    std::vector<int> members;
    for (int i = 0; i < dimension.size; ++i) members.push_back(first + i * dimension.stride);
    const bool last = &dimension == &dimensions.back();
    if (last && fault.hits(FaultKind::split_mismatch, rank_, fault.step)) {
      log_->fault(fault, nullptr, "ncclCommSplit", -1, 0);
      continue;
    }
    *dimension.communicator = split(dimension.name, first, members);
  }
}

std::unique_ptr<Communicator> Groups::split(const char* name, int colour,
                                            const std::vector<int>& members) {
  ncclComm_t handle = nullptr;
  // It blocks where the world does. Where not, there is a handle when the world is through with it.
  check_started(ncclCommSplit(world_->handle(), colour, rank_, &handle, nullptr), "ncclCommSplit");
  if (is_non_blocking_) {
    check_settled(world_->handle(), ncclInProgress, "ncclCommSplit");
    check_settled(handle, ncclInProgress, "ncclCommSplit");
  }
  int rank = -1;
  check(ncclCommUserRank(handle, &rank), "ncclCommUserRank");
  return std::make_unique<Communicator>(log_, name, handle, members, rank, is_non_blocking_);
}

Communicator& Groups::model() {
  if (tensor_) return *tensor_;
  if (pipeline_) return *pipeline_;
  if (data_) return *data_;
  return *world_;
}

std::vector<Communicator*> Groups::all() {
  std::vector<Communicator*> list;
  for (Communicator* one : {pipeline_.get(), data_.get(), tensor_.get(), world_.get()}) {
    if (one) list.push_back(one);
  }
  return list;
}

}  // namespace mini_train
