// The training loop: what a step of data-, tensor- and pipeline-parallel training asks of NCCL,
// with made-up tensors whose every result is checked.
//
//   compute stream   flag (Broadcast, world); per micro-batch: activations in (Recv, pp), layers
//                    (AllReduce, tp), activations out (Send, pp); the same backwards with
//                    gradients, send and receive in one group; then norm (AllReduce, the model's
//                    group), loss (Reduce to rank 0, world), barrier (AllReduce, world)
//   reduce stream    gradient buckets (AllReduce, dp), sharded parameters (ReduceScatter and
//                    AllGather, dp); starts behind the backward pass, and the norm waits for it.
//                    With --graphs they are captured once, and replayed in each step
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <vector>

#include "groups.h"
#include "tensor.h"

namespace mini_train {

// A result was not what arithmetic says.
struct WrongResult : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// --hang-timeout has passed.
struct Hang : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Trainer {
 public:
  Trainer(const Options& options, const Launch& launch, Groups* groups, CallLog* log);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // One step, from its data to its checked results. Rank 0 prints the loss. Throws GpuError,
  // WrongResult or Hang.
  void step(int step);
  // Destroys the CUDA graph, if there is one. NCCL ends no communicator whose kernels a graph
  // holds: destroying and even aborting one wait until the graph is gone.
  void release_graph();
  // Behind the last step, before the communicators are destroyed.
  void end();

 private:
  // What goes into a call and what comes out.
  template <typename T>
  struct Exchange {
    Exchange(int tag_number, size_t in_count, size_t out_count)
        : tag(tag_number), in(in_count), out(out_count) {}
    int tag;
    Tensor<T> in;
    Tensor<T> out;
  };
  using Floats = Exchange<float>;

  void add_exchanges(std::vector<Floats>* list, size_t number, size_t in_count, size_t out_count);
  size_t layer_index(int microbatch, int layer) const {
    return static_cast<size_t>(microbatch) * static_cast<size_t>(options_.layers) +
           static_cast<size_t>(layer);
  }
  void load(int step);
  void broadcast_flag(int step);
  void forward(int step);
  void send_activation(int step, int microbatch);
  void backward(int step);
  void send_gradient(int step, int microbatch);
  void reduce_gradients(int step);
  void call_gradients(bool all);
  void capture_gradients(int step);
  void finish(int step);
  void add_up_loss(int step);
  void pass_barrier(int step);
  void commit_process_fault(int step);
  void abort_on_purpose();
  void wait_for(cudaStream_t stream, std::chrono::steady_clock::time_point start);
  void verify(int step);
  void verify_model_parallel(int step);
  void verify_data_parallel(int step);
  void print_loss(int step) const;

  // True when this rank is to commit `kind` now; then the log says so, with the position of the
  // call it happens at.
  bool plants(FaultKind kind, int step, const Communicator& comm, const char* op) const;
  bool plants_send(FaultKind kind, int step, int peer) const;

  template <typename T>
  void expect(const char* what, const Tensor<T>& tensor, int step,
              const std::function<double(size_t)>& expected) const;
  template <typename T>
  void expect_sum(const char* what, const Exchange<T>& exchange, const Communicator& comm,
                  int step) const;

  const Options& options_;
  const Launch& launch_;
  Groups& groups_;
  CallLog& log_;
  cudaStream_t compute_ = nullptr;
  cudaStream_t reduce_ = nullptr;
  cudaGraphExec_t replay_ = nullptr;  // of the gradients' operations; null: not captured yet
  cudaEvent_t backward_done_ = nullptr;
  cudaEvent_t reduce_done_ = nullptr;

  int next_tag_ = 1;
  std::vector<Floats> layers_forward_;  // by layer_index
  std::vector<Floats> layers_backward_;
  std::vector<Floats> activations_;  // [microbatch]; in: sent, out: received
  std::vector<Floats> gradients_;
  std::vector<Floats> buckets_;
  std::vector<Floats> scatters_;  // one; ReduceScatter
  std::vector<Floats> gathers_;   // one; AllGather
  std::vector<Floats> norms_;     // one
  Exchange<int> flag_;
  Exchange<double> loss_;
  Exchange<int> barrier_;
  bool gradient_received_early_ = false;
};

}  // namespace mini_train
