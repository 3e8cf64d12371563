#include "trainer.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace mini_train {
namespace {

constexpr size_t kNormElements = 4;
constexpr size_t kBarrierElements = 2;
// The one is longer than the other by more than a rank is late.
constexpr std::chrono::milliseconds kShortKernel{100};
constexpr std::chrono::milliseconds kLongKernel{600};

// Stands for the kernels of a step: the stream is busy, the host is not.
void compute_for(void* milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<const int*>(milliseconds)));
}

void sleep_long(void*) { std::this_thread::sleep_for(kLongKernel); }
void sleep_shortly(void*) { std::this_thread::sleep_for(kShortKernel); }

void never_end(void*) {
  while (true) ::pause();
}

void check_status(cudaError_t error, const char* call) { check(error, call); }

}  // namespace

Trainer::Trainer(const Options& options, const Launch& launch, Groups* groups, CallLog* log)
    : options_(options),
      launch_(launch),
      groups_(*groups),
      log_(*log),
      flag_(100, 1, 1),
      loss_(101, 1, 1),
      barrier_(102, kBarrierElements, kBarrierElements) {
  check(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaStreamCreateWithFlags(&reduce_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  for (cudaEvent_t* event : {&backward_done_, &reduce_done_}) {
    check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  const size_t elements = options.bucket_elements;
  const auto microbatches = static_cast<size_t>(options.microbatches);
  const size_t layers = microbatches * static_cast<size_t>(options.layers);
  const auto replicas = static_cast<size_t>(options.data_parallel);
  if (groups_.tensor()) {
    add_exchanges(&layers_forward_, layers, elements, elements);
    add_exchanges(&layers_backward_, layers, elements, elements);
  }
  if (groups_.pipeline()) {
    add_exchanges(&activations_, microbatches, elements, elements);
    add_exchanges(&gradients_, microbatches, elements, elements);
  }
  if (groups_.data()) {
    add_exchanges(&buckets_, static_cast<size_t>(options.buckets), elements, elements);
    add_exchanges(&scatters_, 1, elements * replicas, elements);
    add_exchanges(&gathers_, 1, elements, elements * replicas);
  }
  add_exchanges(&norms_, 1, kNormElements, kNormElements);
}

Trainer::~Trainer() {
  release_graph();
  cudaEventDestroy(backward_done_);
  cudaEventDestroy(reduce_done_);
  cudaStreamDestroy(compute_);
  cudaStreamDestroy(reduce_);
}

void Trainer::release_graph() {
  if (replay_) cudaGraphExecDestroy(replay_);
  replay_ = nullptr;
}

void Trainer::end() {
  const int planned_step = options_.fault.step;
  if (replay_ && plants(FaultKind::graph_kept, planned_step, *groups_.data(), "CommDestroy"))
    return;
  release_graph();
}

void Trainer::add_exchanges(std::vector<Floats>* list, size_t number, size_t in_count,
                            size_t out_count) {
  for (size_t i = 0; i < number; ++i) list->emplace_back(next_tag_++, in_count, out_count);
}

bool Trainer::plants(FaultKind kind, int step, const Communicator& comm, const char* op) const {
  if (!options_.fault.hits(kind, launch_.rank, step)) return false;
  log_.fault(options_.fault, comm.name().c_str(), op, -1, comm.next_seq());
  return true;
}

bool Trainer::plants_send(FaultKind kind, int step, int peer) const {
  if (!options_.fault.hits(kind, launch_.rank, step)) return false;
  Communicator& pipeline = *groups_.pipeline();
  log_.fault(options_.fault, pipeline.name().c_str(), "Send", peer, pipeline.next_send(peer));
  return true;
}

void Trainer::step(int step) {
  const auto start = std::chrono::steady_clock::now();
  load(step);
  if (options_.step_ms > 0) {
    check_status(cudaLaunchHostFunc(compute_, compute_for, const_cast<int*>(&options_.step_ms)),
                 "cudaLaunchHostFunc");
  }
  broadcast_flag(step);
  forward(step);
  backward(step);
  reduce_gradients(step);
  finish(step);
  wait_for(reduce_, start);
  wait_for(compute_, start);
  if (options_.verify) verify(step);
  print_loss(step);
  const Fault& fault = options_.fault;
  if (fault.kind == FaultKind::wait_outside && fault.step == step) {
    plants(FaultKind::wait_outside, step, groups_.world(), "AllReduce");
    never_end(nullptr);
  }
}

void Trainer::load(int step) {
  const auto fill = [&](std::vector<Floats>& list) {
    for (Floats& one : list) one.in.fill(one.tag, launch_.rank, step);
  };
  for (auto* list : {&layers_forward_, &layers_backward_, &activations_, &gradients_, &buckets_,
                     &scatters_, &gathers_, &norms_}) {
    fill(*list);
  }
  flag_.in.fill(flag_.tag, launch_.rank, step);
  loss_.in.fill(loss_.tag, launch_.rank, step);
  barrier_.in.fill(barrier_.tag, launch_.rank, step);
}

void Trainer::broadcast_flag(int step) {
  Communicator& world = groups_.world();
  const int root = plants(FaultKind::root, step, world, "Broadcast") ? 1 : 0;
  world.broadcast(flag_.in.data(), flag_.out.data(), 1, ncclInt32, root, compute_);
}

void Trainer::forward(int step) {
  Communicator* pipeline = groups_.pipeline();
  const bool first = groups_.stage() == 0;
  const bool last = groups_.stage() == groups_.stages() - 1;
  for (int microbatch = 0; microbatch < options_.microbatches; ++microbatch) {
    const auto index = static_cast<size_t>(microbatch);
    if (pipeline && !first) {
      Tensor<float>& received = activations_[index].out;
      pipeline->receive(received.data(), received.count(), ncclFloat32, groups_.stage() - 1,
                        compute_);
    }
    for (int layer = 0; groups_.tensor() && layer < options_.layers; ++layer) {
      Floats& sum = layers_forward_[layer_index(microbatch, layer)];
      groups_.tensor()->all_reduce(sum.in.data(), sum.out.data(), sum.in.count(), ncclFloat32,
                                   ncclSum, compute_);
    }
    if (pipeline && !last) send_activation(step, microbatch);
  }
}

void Trainer::send_activation(int step, int microbatch) {
  Communicator& pipeline = *groups_.pipeline();
  const int next = groups_.stage() + 1;
  const Tensor<float>& sent = activations_[static_cast<size_t>(microbatch)].in;
  size_t count = sent.count();
  if (microbatch == options_.microbatches - 1) {
    if (plants_send(FaultKind::p2p_unmatched, step, next)) return;
    if (plants_send(FaultKind::p2p_count, step, next)) ++count;
    if (plants_send(FaultKind::p2p_cycle, step, next)) {
      Tensor<float>& gradient = gradients_.front().out;
      pipeline.receive(gradient.data(), gradient.count(), ncclFloat32, next, compute_);
      gradient_received_early_ = true;
    }
  }
  pipeline.send(sent.data(), count, ncclFloat32, next, compute_);
}

void Trainer::backward(int step) {
  Communicator* pipeline = groups_.pipeline();
  const bool first = groups_.stage() == 0;
  const bool last = groups_.stage() == groups_.stages() - 1;
  const auto receive_gradient = [&](int microbatch) {
    Tensor<float>& received = gradients_[static_cast<size_t>(microbatch)].out;
    pipeline->receive(received.data(), received.count(), ncclFloat32, groups_.stage() + 1,
                      compute_);
  };
  if (pipeline && !last && !gradient_received_early_) receive_gradient(0);
  for (int microbatch = 0; microbatch < options_.microbatches; ++microbatch) {
    for (int layer = 0; groups_.tensor() && layer < options_.layers; ++layer) {
      Floats& sum = layers_backward_[layer_index(microbatch, layer)];
      groups_.tensor()->all_reduce(sum.in.data(), sum.out.data(), sum.in.count(), ncclFloat32,
                                   ncclSum, compute_);
    }
    if (!pipeline) continue;
    // One group: what goes to the stage before and what comes from the stage behind overlap.
    check(ncclGroupStart(), "ncclGroupStart");
    if (!first) send_gradient(step, microbatch);
    if (!last && microbatch + 1 < options_.microbatches) receive_gradient(microbatch + 1);
    check_settled(pipeline->handle(), ncclGroupEnd(), "ncclGroupEnd");
  }
}

void Trainer::send_gradient(int step, int microbatch) {
  const int previous = groups_.stage() - 1;
  const Tensor<float>& sent = gradients_[static_cast<size_t>(microbatch)].in;
  size_t count = sent.count();
  // The last stage sends nothing forwards; its faults of sending happen here.
  if (groups_.stage() == groups_.stages() - 1 && microbatch == options_.microbatches - 1) {
    if (plants_send(FaultKind::p2p_unmatched, step, previous)) return;
    if (plants_send(FaultKind::p2p_count, step, previous)) ++count;
  }
  groups_.pipeline()->send(sent.data(), count, ncclFloat32, previous, compute_);
}

// The first step is never captured: a communicator connects its ranks with its first operations.
void Trainer::reduce_gradients(int step) {
  check(cudaEventRecord(backward_done_, compute_), "cudaEventRecord");
  check(cudaStreamWaitEvent(reduce_, backward_done_, 0), "cudaStreamWaitEvent");
  if (plants(FaultKind::stream_order, step, groups_.world(), "Reduce")) {
    check(cudaLaunchHostFunc(reduce_, sleep_long, nullptr), "cudaLaunchHostFunc");
  }
  const Fault& fault = options_.fault;
  const int first = fault.kind == FaultKind::graph_capture ? fault.step : 1;
  if (!options_.graphs || step < first) {
    if (groups_.data()) call_gradients(true);
  } else {
    if (!replay_) capture_gradients(step);
    if (!plants(FaultKind::graph_replay, step, *groups_.data(), "AllReduce")) {
      check(cudaGraphLaunch(replay_, reduce_), "cudaGraphLaunch");
    }
  }
  check(cudaEventRecord(reduce_done_, reduce_), "cudaEventRecord");
}

// `all`: the AllGather, which is the last of them, too.
void Trainer::call_gradients(bool all) {
  Communicator& data = *groups_.data();
  for (Floats& bucket : buckets_) {
    data.all_reduce(bucket.in.data(), bucket.out.data(), bucket.in.count(), ncclFloat32, ncclSum,
                    reduce_);
  }
  Floats& scatter = scatters_.front();
  data.reduce_scatter(scatter.in.data(), scatter.out.data(), scatter.out.count(), ncclFloat32,
                      ncclSum, reduce_);
  if (!all && plants(FaultKind::graph_capture, options_.fault.step, data, "AllGather")) return;
  Floats& gather = gathers_.front();
  data.all_gather(gather.in.data(), gather.out.data(), gather.in.count(), ncclFloat32, reduce_);
}

// In the mode that forbids most, as PyTorch does it.
void Trainer::capture_gradients(int step) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(reduce_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  call_gradients(!options_.fault.hits(FaultKind::graph_capture, launch_.rank, step));
  check(cudaStreamEndCapture(reduce_, &graph), "cudaStreamEndCapture");
  // cudaGraphInstantiate has other parameters in CUDA 11.
  check(cudaGraphInstantiateWithFlags(&replay_, graph, 0), "cudaGraphInstantiateWithFlags");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

void Trainer::finish(int step) {
  if (options_.fault.kind == FaultKind::stream_order && options_.fault.step == step) {
    if (options_.fault.rank != launch_.rank) {
      check(cudaLaunchHostFunc(compute_, sleep_shortly, nullptr), "cudaLaunchHostFunc");
    }
  } else {
    check(cudaStreamWaitEvent(compute_, reduce_done_, 0), "cudaStreamWaitEvent");
  }
  Communicator& world = groups_.world();
  Communicator& model = groups_.model();
  Floats& norm = norms_.front();
  const auto reduce_norm = [&] {
    model.all_reduce(norm.in.data(), norm.out.data(), norm.in.count(), ncclFloat32, ncclSum,
                     compute_);
  };
  const bool late_norm = plants(FaultKind::comm_order, step, world, "Reduce");
  if (!late_norm) reduce_norm();
  commit_process_fault(step);
  if (plants(FaultKind::extra_call, step, world, "AllReduce")) {
    world.all_reduce(flag_.out.data(), flag_.out.data(), 1, ncclInt32, ncclSum, compute_);
  }
  const bool swapped = plants(FaultKind::order, step, world, "AllReduce");
  if (swapped) pass_barrier(step);
  add_up_loss(step);
  if (!swapped) pass_barrier(step);
  if (late_norm) reduce_norm();
}

void Trainer::add_up_loss(int step) {
  Communicator& world = groups_.world();
  if (plants(FaultKind::missing_call, step, world, "Reduce")) return;
  if (plants(FaultKind::op, step, world, "AllReduce")) {
    world.all_reduce(loss_.in.data(), loss_.out.data(), 1, ncclFloat64, ncclSum, compute_);
    return;
  }
  const bool other_type = plants(FaultKind::dtype, step, world, "Reduce");
  const bool other_op = plants(FaultKind::redop, step, world, "Reduce");
  world.reduce(loss_.in.data(), loss_.out.data(), 1, other_type ? ncclFloat32 : ncclFloat64,
               other_op ? ncclMax : ncclSum, 0, compute_);
}

void Trainer::pass_barrier(int step) {
  Communicator& world = groups_.world();
  const size_t more = plants(FaultKind::count, step, world, "AllReduce") ? 1 : 0;
  world.all_reduce(barrier_.in.data(), barrier_.out.data(), kBarrierElements + more, ncclInt32,
                   ncclSum, compute_);
}

// The faults that strike the process and not a call.
void Trainer::commit_process_fault(int step) {
  const Communicator& world = groups_.world();
  if (plants(FaultKind::kill, step, world, "Reduce")) ::kill(::getpid(), SIGKILL);
  if (plants(FaultKind::stop, step, world, "Reduce")) ::kill(::getpid(), SIGSTOP);
  if (plants(FaultKind::exit, step, world, "Reduce")) std::exit(3);
  if (plants(FaultKind::host_stuck, step, world, "Reduce")) never_end(nullptr);
  if (plants(FaultKind::abort, step, world, "Reduce")) abort_on_purpose();
  if (plants(FaultKind::stream_block, step, world, "Reduce")) {
    check(cudaLaunchHostFunc(compute_, never_end, nullptr), "cudaLaunchHostFunc");
  }
  const Fault& fault = options_.fault;
  if (fault.kind == FaultKind::straggler && fault.rank == launch_.rank && step >= fault.step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.straggler_delay_ms));
  }
}

void Trainer::abort_on_purpose() {
  release_graph();
  for (Communicator* comm : groups_.all()) comm->abort();
  log_.end(5);
  std::exit(5);
}

// As PyTorch's watchdog does: polls the stream, and asks NCCL whether a peer has failed. The longer
// it waits, the less often: a hung job leaves the processors to others.
void Trainer::wait_for(cudaStream_t stream, std::chrono::steady_clock::time_point start) {
  using Duration = std::chrono::duration<double>;
  constexpr Duration kPauseMin{100e-6};
  constexpr Duration kPauseMax{5e-3};
  while (true) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check(state, "cudaStreamQuery");
    for (const Communicator* comm : groups_.all()) comm->check_async_error();
    const Duration spent = std::chrono::steady_clock::now() - start;
    if (options_.hang_timeout_s > 0 && spent.count() > options_.hang_timeout_s) {
      throw Hang("the step took longer than --hang-timeout");
    }
    std::this_thread::sleep_for(std::clamp(spent / 8, kPauseMin, kPauseMax));
  }
}

}  // namespace mini_train
