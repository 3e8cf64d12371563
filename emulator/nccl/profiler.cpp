#include "emulator/nccl/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "emulator/nccl/profiler_plugin.h"

namespace emu_nccl {
namespace {

constexpr uint8_t kChannels = 2;
// The GPU's clock is not the host's.
constexpr uint64_t kGpuClockAheadNs = 7'000'000'000'000;

// Emission: an event comes when one of these is wanted, so parents come with their children.
constexpr uint32_t kChildren =
    kProfileProxyOp | kProfileProxyStep | kProfileKernelCh | kProfileNetPlugin;
constexpr uint32_t kOfCopies = kProfileCeColl | kProfileCeSync | kProfileCeBatch;
constexpr uint32_t kOfColl = kProfileColl | kChildren;
constexpr uint32_t kOfP2p = kProfileP2p | kChildren;
constexpr uint32_t kOfGroup = kProfileGroup | kOfColl | kOfP2p;
// Up to 2.25 one condition lets all operations through, and it does not look for P2p.
constexpr uint32_t kOfFirstOperations = kProfileColl | kProfileProxyOp | kProfileProxyStep;
constexpr uint32_t kOfCollApi = kProfileCollApi | kOfColl | kOfCopies;
constexpr uint32_t kOfP2pApi = kProfileP2pApi | kOfP2p;
constexpr uint32_t kOfGroupApi =
    kProfileGroupApi | kProfileKernelLaunch | kProfileGroup | kOfCollApi | kOfP2pApi;
constexpr uint32_t kOfProxyOp = kProfileProxyOp | kProfileProxyStep | kProfileNetPlugin;

bool has_calls() { return profiler_release() >= 5; }
uint64_t gpu_now_ns() { return now_ns() + kGpuClockAheadNs; }

uint32_t emitting_group() {
  return profiler_release() <= 2 ? kOfFirstOperations | kProfileP2p : kOfGroup;
}
uint32_t emitting_operation(bool transfer) {
  if (profiler_release() <= 2) return kOfFirstOperations;
  return transfer ? kOfP2p : kOfColl;
}

bool is_transfer(Kind kind) { return kind == Kind::kSend || kind == Kind::kReceive; }

const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "ncclInt8";
    case ncclInt32:
      return "ncclInt32";
    case ncclUint32:
      return "ncclUint32";
    case ncclInt64:
      return "ncclInt64";
    case ncclUint64:
      return "ncclUint64";
    case ncclFloat16:
      return "ncclFloat16";
    case ncclFloat32:
      return "ncclFloat32";
    case ncclFloat64:
      return "ncclFloat64";
    case ncclBfloat16:
      return "ncclBfloat16";
    case ncclFloat8e4m3:
      return "ncclFloat8e4m3";
    case ncclFloat8e5m2:
      return "ncclFloat8e5m2";
    default:
      return "Unknown";  // ncclUint8, too: NCCL's table lacks it
  }
}

// A Broadcast that NCCL turns into another kernel, and tells nothing of.
bool becomes_all_gather_v(Kind kind) {
  if (kind != Kind::kBroadcast || profiler_release() < 6) return false;
  const char* const text = std::getenv("NCCL_ALLGATHERV_ENABLE");
  return text == nullptr || std::atoi(text) != 0;
}

// What the release has for it: before, the same data went another way.
Method method_of(const Operation& operation) {
  const unsigned since = operation.method == Method::kCopies            ? 5
                         : operation.method == Method::kSymmetricKernel ? 4
                                                                        : 1;
  return profiler_release() >= since ? operation.method : Method::kKernel;
}

// Releases that run it and keep silent about it.
bool is_secret(Method method) {
  return (method == Method::kCopies && profiler_release() == 5) ||
         (method == Method::kSymmetricKernel && profiler_release() == 4);
}

ProfiledTask task_of(const Operation& operation, uint32_t mask) {
  ProfiledTask task;
  task.kind = operation.kind;
  task.count = operation.count;
  task.bytes = operation.bytes;
  task.type = operation.type;
  task.send = operation.send;
  task.receive = operation.receive;
  task.root = operation.root;
  task.method = method_of(operation);
  task.user_tag = profiler_release() >= 7 ? operation.user_tag : 0;
  task.mask = mask;
  return task;
}

// An AlltoAll, Gather or Scatter: what is sent to and received from each peer.
std::vector<ProfiledTask> split(const ProfiledTask& whole, int rank, int ranks) {
  if (whole.kind < Kind::kAlltoAll || is_transfer(whole.kind)) return {whole};
  if (whole.method == Method::kCopies) return {whole};
  const bool to_all = whole.kind == Kind::kAlltoAll;
  std::vector<ProfiledTask> parts;
  const auto add = [&](Kind kind, int peer, int block) {
    const size_t offset = static_cast<size_t>(block) * whole.bytes;
    ProfiledTask part = whole;
    part.kind = kind;
    part.root = peer;
    const bool sends = kind == Kind::kSend;
    part.send = sends ? static_cast<const char*>(whole.send) + offset : nullptr;
    part.receive = sends ? nullptr : static_cast<char*>(whole.receive) + offset;
    parts.push_back(part);
  };
  const bool root = rank == whole.root;
  for (int peer = 0; peer < ranks; ++peer) {
    if (to_all || (whole.kind == Kind::kScatter && root)) add(Kind::kSend, peer, peer);
    if (to_all || (whole.kind == Kind::kGather && root)) add(Kind::kReceive, peer, peer);
  }
  if (whole.kind == Kind::kGather) add(Kind::kSend, whole.root, 0);
  if (whole.kind == Kind::kScatter) add(Kind::kReceive, whole.root, 0);
  return parts;
}

// NCCL's order of launching.
void schedule(std::vector<ProfiledTask>& tasks, int rank, int ranks) {
  const auto place = [&](const ProfiledTask& task) {
    const int distance = task.kind == Kind::kSend ? task.root - rank : rank - task.root;
    return 2 * ((distance + ranks) % ranks) + (task.kind == Kind::kSend ? 1 : 0);
  };
  std::stable_sort(tasks.begin(), tasks.end(), [&](const ProfiledTask& a, const ProfiledTask& b) {
    if (is_transfer(a.kind) != is_transfer(b.kind)) return is_transfer(b.kind);
    return is_transfer(a.kind) ? place(a) < place(b) : a.bytes > b.bytes;
  });
}

}  // namespace

// --- a communicator -----------------------------------------------------------------------------

ProfiledCommunicator::ProfiledCommunicator() : proxy_([this](bool idle) { tell_idle(idle); }) {}

bool ProfiledCommunicator::begins_early() { return profiler_release() <= 3; }

void ProfiledCommunicator::learn(const Communicator& communicator) {
  hash_ = communicator.hash;
  name_ = communicator.name;
  rank_ = communicator.rank;
  ranks_ = communicator.ranks;
  uses_network_ = communicator.between_nodes;
  neighbour_.learn(communicator);
}

std::shared_ptr<ProfiledCommunicator> ProfiledCommunicator::create(
    const Communicator& communicator) {
  if (!acquire_profiler()) return nullptr;
  std::shared_ptr<ProfiledCommunicator> made(new ProfiledCommunicator);
  made->learn(communicator);
  const auto init = [&] {
    made->context_ =
        init_profiler({communicator.hash, communicator.name, 1, made->ranks_, made->rank_});
  };
  // Up to 2.27 every creation is a job of its own thread.
  if (has_calls()) {
    init();
  } else {
    std::thread(init).join();
  }
  return made;
}

void ProfiledCommunicator::finalize() {
  if (finalized_.exchange(true)) return;
  if (neighbour_.is_there()) proxy_.post([this] { neighbour_.serve(); });
  proxy_.stop(true);
  // The profiler thread of 2.31 drops what it has not told yet.
  kernels_.stop(false);
  // Destroying is a job of its own thread, too.
  std::thread([this] { finalize_profiler(context_); }).join();
  release_profiler();
}

// Up to 2.30 the proxy thread tells of kernels.
ProfilerThread& ProfiledCommunicator::kernel_thread() {
  return profiler_release() >= 7 ? kernels_ : proxy_;
}

void ProfiledCommunicator::tell_idle(bool idle) {
  if (idle) {
    if ((profiler_mask() & kProfileProxyCtrl) == 0) return;
    control_ = start_event(context_, {.type = kProfileProxyCtrl});
    record_state(control_, kControlSleep, 0);
    return;
  }
  record_state(control_, kControlWakeup, 0);
  stop_event(control_);
  control_ = nullptr;
}

// --- a group ------------------------------------------------------------------------------------

void* ProfiledGroup::call_task(ProfiledCommunicator& communicator, const ProfiledTask& task,
                               void* stream, bool captured) const {
  const bool transfer = is_transfer(task.kind);
  if ((task.mask & (transfer ? kOfP2pApi : kOfCollApi)) == 0) return nullptr;
  const uint32_t type = transfer ? kProfileP2pApi : kProfileCollApi;
  void* const handle = start_event(communicator.context(), {.type = type,
                                                            .parent = handle_,
                                                            .function = kind_name(task.kind),
                                                            .data_type = name_of(task.type),
                                                            .stream = stream,
                                                            .count = task.count,
                                                            .user_tag = task.user_tag,
                                                            .root = task.root,
                                                            .captured = captured});
  stop_event(handle);
  return handle;
}

void ProfiledGroup::call(ProfiledCommunicator& communicator, const Operation& operation,
                         void* stream, bool captured, int depth, std::vector<ProfiledTask>& tasks) {
  if (communicator.ranks() == 1) return;
  if (is_secret(method_of(operation))) return;
  const uint32_t mask = profiler_mask();
  if (has_calls() && handle_ == nullptr && (mask & kOfGroupApi) != 0) {
    handle_ = start_event(communicator.context(),
                          {.type = kProfileGroupApi, .depth = depth, .captured = captured});
    record_state(handle_, kGroupStartOver);
  }
  for (ProfiledTask& task :
       split(task_of(operation, mask), communicator.rank(), communicator.ranks())) {
    if (has_calls()) task.call = call_task(communicator, task, stream, captured);
    const bool has_kernel_events = task.method == Method::kKernel || profiler_release() >= 7;
    if (becomes_all_gather_v(task.kind) || !has_kernel_events) task.mask = 0;
    tasks.push_back(task);
  }
}

void ProfiledGroup::end_begins() { record_state(handle_, kGroupEndBegun); }
void ProfiledGroup::end_is_over() { stop_event(handle_); }

// --- a plan -------------------------------------------------------------------------------------

ProfiledPlan::ProfiledPlan(std::shared_ptr<ProfiledCommunicator> communicator,
                           std::vector<ProfiledTask> tasks)
    : communicator_(std::move(communicator)), tasks_(std::move(tasks)) {
  schedule(tasks_, communicator_->rank(), communicator_->ranks());
}

bool ProfiledPlan::wants(uint32_t types) const {
  return std::any_of(tasks_.begin(), tasks_.end(),
                     [&](const ProfiledTask& task) { return (task.mask & types) != 0; });
}

ncclResult_t ProfiledPlan::launch(void* group, void* stream, bool captured,
                                  const std::function<ncclResult_t()>& launch) {
  for (ProfiledTask& task : tasks_) {
    if (task.method != Method::kCopies) continue;
    tell_copies(task, stream);
    task.mask = 0;
  }
  void* kernel = nullptr;
  if (has_calls() && wants(kProfileKernelLaunch)) {
    kernel = start_event(communicator_->context(),
                         {.type = kProfileKernelLaunch, .parent = group, .stream = stream});
  }
  const ncclResult_t result = launch();
  stop_event(kernel);
  // A graph with work for the proxies tells of its operations when it is replayed.
  if (result == ncclSuccess && !(captured && is_told_at_replay())) tell_operations();
  return result;
}

// The host hands the copies to the engines, between two meetings of the ranks.
void ProfiledPlan::tell_copies(const ProfiledTask& task, void* stream) {
  const uint32_t mask = profiler_mask();
  if ((mask & kOfCopies) == 0) return;
  void* const context = communicator_->context();
  const int ranks = communicator_->ranks();
  void* const handle = start_event(context, {.type = kProfileCeColl,
                                             .rank = communicator_->rank(),
                                             .parent = task.call,
                                             .sequence = communicator_->next_copies(),
                                             .function = kind_name(task.kind),
                                             .data_type = name_of(task.type),
                                             .send = task.send,
                                             .receive = task.receive,
                                             .stream = stream,
                                             .count = task.count,
                                             .user_tag = task.user_tag,
                                             .root = task.root});
  if (handle == nullptr) return;
  const auto meet = [&](bool is_over) {
    if ((mask & kProfileCeSync) == 0) return;
    stop_event(start_event(context, {.type = kProfileCeSync,
                                     .rank = communicator_->rank(),
                                     .parent = handle,
                                     .depth = ranks,
                                     .is_over = is_over}));
  };
  meet(false);
  if ((mask & kProfileCeBatch) != 0) {
    stop_event(start_event(context, {.type = kProfileCeBatch,
                                     .rank = communicator_->rank(),
                                     .parent = handle,
                                     .bytes = task.bytes * static_cast<uint64_t>(ranks),
                                     .depth = ranks}));
  }
  meet(true);
  stop_event(handle);
}

// Group, and every Coll and P2p in it.
void ProfiledPlan::tell_operations() {
  void* group = nullptr;
  if (wants(emitting_group())) {
    group = start_event(communicator_->context(), {.type = kProfileGroup});
  }
  // Up to 2.27 a plugin that wants no group gets none of its operations.
  suppressed_ = !has_calls() && group == nullptr;
  for (ProfiledTask& task : tasks_) {
    const bool transfer = is_transfer(task.kind);
    if (suppressed_ || (task.mask & emitting_operation(transfer)) == 0) continue;
    // NCCL tells of AllGather and Broadcast in bytes.
    const bool in_bytes = task.kind == Kind::kAllGather || task.kind == Kind::kBroadcast;
    const bool is_symmetric = task.method == Method::kSymmetricKernel;
    const uint64_t sequence = transfer ? 0 : communicator_->next_sequence(task.kind);
    task.handle = start_event(communicator_->context(),
                              {.type = transfer ? kProfileP2p : kProfileColl,
                               .rank = communicator_->rank(),
                               .parent = has_calls() ? task.call : group,
                               .parent_group = group,
                               .communicator = communicator_->name(),
                               .hash = communicator_->hash(),
                               .sequence = sequence,
                               .function = kind_name(task.kind),
                               .data_type = in_bytes ? "ncclInt8" : name_of(task.type),
                               .algorithm = "RING",
                               .protocol = task.bytes < 65536 ? "LL" : "SIMPLE",
                               .kernel_variant = is_symmetric ? "ST" : nullptr,
                               .send = task.send,
                               .receive = task.receive,
                               .count = in_bytes ? task.bytes : task.count,
                               .user_tag = task.user_tag,
                               .root = task.root,
                               .channels = kChannels});
    // Up to 2.25 NCCL does not look whether there is one.
    profiler_release() <= 2 ? stop_event_even_null(task.handle) : stop_event(task.handle);
  }
  stop_event(group);
  const std::lock_guard<std::mutex> lock(mutex_);
  told_ = true;
  changed_.notify_all();
}

bool ProfiledPlan::is_told_at_replay() const {
  return communicator_->uses_network() || wants(kProfileKernelCh);
}

std::shared_ptr<ProfiledPlan> ProfiledPlan::replay() const {
  if (!is_told_at_replay()) return nullptr;
  auto copy = std::make_shared<ProfiledPlan>(communicator_, tasks_);
  copy->is_replay_ = true;
  return copy;
}

// The GPU may be there before the launching thread has told what it launched.
void ProfiledPlan::wait_until_told() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return told_; });
}

void ProfiledPlan::begin() {
  // The host callback of a graph.
  if (is_replay_) tell_operations();
  begun_ = true;
  const std::shared_ptr<ProfiledPlan> self = shared_from_this();
  if (reports_kernels()) {
    communicator_->kernel_thread().post([self, gpu_ns = gpu_now_ns()] {
      self->wait_until_told();
      self->begin_kernels(gpu_ns);
    });
  }
  if (communicator_->uses_network() && wants(kOfProxyOp)) {
    communicator_->proxy_thread().post([self] {
      self->wait_until_told();
      self->begin_proxies();
    });
  }
}

void ProfiledPlan::end(bool complete, uint64_t met_ns) {
  // What is aborted is never stopped.
  if (!begun_ || !complete) return;
  const std::shared_ptr<ProfiledPlan> self = shared_from_this();
  if (reports_kernels()) {
    communicator_->kernel_thread().post(
        [self, gpu_ns = gpu_now_ns(), met_gpu_ns = met_ns + kGpuClockAheadNs] {
          self->end_kernels(gpu_ns, met_gpu_ns);
        });
  }
  if (communicator_->uses_network() && wants(kOfProxyOp)) {
    communicator_->proxy_thread().post([self] { self->end_proxies(); });
  }
}

// --- kernels: on the proxy's or the profiler's thread -------------------------------------------

// From release 7 on the GPU counts those that say nothing, too.
bool ProfiledPlan::reports_kernels() const {
  if (profiler_release() >= 7 && (profiler_mask() & kProfileKernelCh) != 0) return true;
  return wants(kProfileKernelCh) && profiler_release() >= 3;
}

void KernelReports::begin(bool is_told, uint64_t gpu_ns) {
  ++begun_;
  if (is_told) ring_[begun_ % kRing] = {begun_, gpu_ns, 0};
}

void KernelReports::end(uint64_t gpu_ns) {
  for (Times& times : ring_) {
    if (times.number != 0 && times.ended_ns == 0) times.ended_ns = gpu_ns;
  }
}

uint64_t KernelReports::next_to_read() {
  ++read_;
  return at(read_).number >= read_ ? at(read_).number : 0;
}

void ProfiledPlan::begin_kernels(uint64_t gpu_ns) {
  bool has_symmetric = false;
  for (const ProfiledTask& task : tasks_) {
    const bool is_told = !suppressed_ && (task.mask & kProfileKernelCh) != 0;
    const bool is_counted = profiler_release() >= 7 && task.method == Method::kKernel;
    if (is_counted) communicator_->kernel_reports().begin(is_told, gpu_ns);
    if (!is_told) continue;
    if (task.method == Method::kSymmetricKernel) {
      // One kernel for all of them, told with the first; in a graph it does not report.
      if (has_symmetric || is_replay_) continue;
      has_symmetric = true;
    }
    const uint64_t number = is_counted ? communicator_->kernel_reports().next_to_read() : 0;
    if (is_counted && number == 0) continue;
    const uint64_t begun_ns =
        is_counted ? communicator_->kernel_reports().at(number).begun_ns : gpu_ns;
    for (uint8_t channel = 0; channel < kChannels; ++channel) {
      void* const handle = start_event(communicator_->context(), {.type = kProfileKernelCh,
                                                                  .parent = task.handle,
                                                                  .timer_ns = begun_ns,
                                                                  .channel = channel});
      kernels_.push_back({handle, &task, channel, begun_ns, number});
    }
  }
}

// Symmetric kernels meet their peers first. The others begin to work at once, and what they wait
// for peers is in the work; sends and receives have no phases.
void ProfiledPlan::tell_phases(const Kernel& kernel, uint64_t end_ns, uint64_t met_gpu_ns) const {
  static const char* const kNames[] = {"initial_sync", "compute", "final_sync"};
  if (is_transfer(kernel.task->kind)) return;
  const bool is_symmetric = kernel.task->method == Method::kSymmetricKernel;
  const uint64_t met_ns =
      is_symmetric ? std::clamp(met_gpu_ns, kernel.begun_ns, end_ns) : kernel.begun_ns;
  // The last barrier's share is made up.
  const uint64_t worked_ns = end_ns - (end_ns - met_ns) / 16;
  const uint64_t bounds_ns[] = {kernel.begun_ns, met_ns, worked_ns, end_ns};
  for (uint8_t phase = 0; phase < 3; ++phase) {
    // A phase that took no time is not told.
    if (bounds_ns[phase] == bounds_ns[phase + 1]) continue;
    void* const handle = start_event(communicator_->context(), {.type = kProfileKernelPhase,
                                                                .parent = kernel.handle,
                                                                .phase_name = kNames[phase],
                                                                .timer_ns = bounds_ns[phase],
                                                                .channel = kernel.channel,
                                                                .phase = phase});
    record_state(handle, kPhaseStop, bounds_ns[phase + 1]);
    stop_event(handle);
  }
}

void ProfiledPlan::end_kernels(uint64_t gpu_ns, uint64_t met_gpu_ns) {
  const bool has_phases = profiler_release() >= 7 && wants(kProfileKernelPhase);
  communicator_->kernel_reports().end(gpu_ns);
  for (const Kernel& kernel : kernels_) {
    const uint64_t ended_ns =
        kernel.number != 0 ? communicator_->kernel_reports().at(kernel.number).ended_ns : gpu_ns;
    if (has_phases) tell_phases(kernel, ended_ns, met_gpu_ns);
    record_state(kernel.handle, kKernelStop, ended_ns);
    stop_event(kernel.handle);
  }
  kernels_.clear();
}

// --- the network: on the proxy's thread ---------------------------------------------------------

void ProfiledPlan::begin_proxies() {
  const int rank = communicator_->rank();
  const int ranks = communicator_->ranks();
  communicator_->neighbour().serve();
  for (const ProfiledTask& task : tasks_) {
    if (suppressed_ || (task.mask & kOfProxyOp) == 0) continue;
    for (uint8_t channel = 0; channel < kChannels; ++channel) {
      if (is_transfer(task.kind)) {
        if (task.root != rank) carry_out(task, channel, task.root, task.kind == Kind::kSend);
        continue;
      }
      carry_out(task, channel, (rank + 1) % ranks, true);
      carry_out(task, channel, (rank + ranks - 1) % ranks, false);
    }
  }
}

void ProfiledPlan::carry_out(const ProfiledTask& task, uint8_t channel, int peer, bool is_send) {
  const ProxyWork work = {.context = communicator_->context(),
                          .parent = task.handle,
                          .bytes = task.bytes / kChannels,
                          .pid = getpid(),
                          .rank = communicator_->rank(),
                          .peer = peer,
                          .mask = task.mask,
                          .channel = channel,
                          .is_send = is_send};
  if (!communicator_->neighbour().hand_over(work)) proxies_.push_back({work, begin_proxy(work)});
}

void ProfiledPlan::end_proxies() {
  for (const Proxy& proxy : proxies_) end_proxy(proxy.work, proxy.events);
  proxies_.clear();
  communicator_->neighbour().serve();
}

}  // namespace emu_nccl
