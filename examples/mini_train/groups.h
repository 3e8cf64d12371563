// The communicators of a job: the world, and its splits for tensor, data and pipeline parallelism.
// A world rank is ((stage * dp) + replica) * tp + shard: neighbours share a tensor-parallel group.
#pragma once

#include <memory>
#include <vector>

#include "communicator.h"
#include "options.h"

namespace mini_train {

class Groups {
 public:
  // Creates them all. A group of one rank gets no communicator.
  Groups(const Options& options, const Launch& launch, CallLog* log);

  Communicator& world() { return *world_; }
  Communicator* tensor() { return tensor_.get(); }
  Communicator* data() { return data_.get(); }
  Communicator* pipeline() { return pipeline_.get(); }
  // The ranks that hold parts of one copy of the model, or what comes closest to it.
  Communicator& model();
  // Every communicator, the world last: the order in which to end them.
  std::vector<Communicator*> all();

  int stage() const { return stage_; }
  int stages() const { return stages_; }

 private:
  std::unique_ptr<Communicator> split(const char* name, int colour,
                                      const std::vector<int>& members);

  CallLog* log_;
  int rank_;
  int stage_;
  int stages_;
  bool is_non_blocking_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> tensor_;
  std::unique_ptr<Communicator> data_;
  std::unique_ptr<Communicator> pipeline_;
};

}  // namespace mini_train
