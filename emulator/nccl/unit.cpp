#include "emulator/nccl/unit.h"

#include <sched.h>
#include <time.h>

#include <cstring>

#include "emulator/device/device.h"
#include "emulator/nccl/log.h"
#include "emulator/nccl/one_rank.h"
#include "emulator/nccl/profiler.h"
#include "emulator/nccl/settings.h"

namespace emu_nccl {
namespace {

constexpr int kCudaErrorIllegalAddress = 700;
// How long one poll may work before other streams of the process get their turn.
constexpr uint64_t kPollBudgetNs = 4'000'000;
// While data moves, the next step of the peers is awaited this long before the poll returns, giving
// the processor to the peers: a poll that returned is repeated much later.
constexpr uint64_t kPatienceNs = 400'000;
// When nothing has moved for this long a peer is gone or stopped, and waiting for it costs more
// than it gains.
constexpr uint64_t kQuietNs = 50'000'000;
constexpr int kDevicesMax = 64;  // as in emulator/device/engine.h

// A null buffer where data is needed: what the GPU would fault on.
bool faults(const Operation& operation, const Communicator& communicator) {
  const bool root = communicator.rank == operation.root;
  switch (operation.kind) {
    case Kind::kSend:
      return operation.send == nullptr;
    case Kind::kReceive:
      return operation.receive == nullptr;
    case Kind::kBroadcast:
      return operation.receive == nullptr || (root && operation.send == nullptr);
    case Kind::kReduce:
    case Kind::kGather:
      return operation.send == nullptr || (root && operation.receive == nullptr);
    case Kind::kScatter:
      return operation.receive == nullptr || (root && operation.send == nullptr);
    default:
      return operation.send == nullptr || operation.receive == nullptr;
  }
}

const std::byte* block(const void* base, int rank, size_t bytes) {
  return static_cast<const std::byte*>(base) + static_cast<size_t>(rank) * bytes;
}
std::byte* block(void* base, int rank, size_t bytes) {
  return static_cast<std::byte*>(base) + static_cast<size_t>(rank) * bytes;
}

void add_transfers(const Operation& operation, const Communicator& communicator,
                   std::vector<Transfer>* transfers) {
  const size_t bytes = operation.bytes;
  const bool root = communicator.rank == operation.root;
  switch (operation.kind) {
    case Kind::kSend:
      transfers->emplace_back(true, operation.root, operation.send, nullptr, bytes);
      break;
    case Kind::kReceive:
      transfers->emplace_back(false, operation.root, nullptr, operation.receive, bytes);
      break;
    case Kind::kAlltoAll:
      for (int peer = 0; peer < communicator.ranks; ++peer) {
        transfers->emplace_back(true, peer, block(operation.send, peer, bytes), nullptr, bytes);
        transfers->emplace_back(false, peer, nullptr, block(operation.receive, peer, bytes), bytes);
      }
      break;
    case Kind::kGather:
      transfers->emplace_back(true, operation.root, operation.send, nullptr, bytes);
      for (int peer = 0; root && peer < communicator.ranks; ++peer) {
        transfers->emplace_back(false, peer, nullptr, block(operation.receive, peer, bytes), bytes);
      }
      break;
    case Kind::kScatter:
      for (int peer = 0; root && peer < communicator.ranks; ++peer) {
        transfers->emplace_back(true, peer, block(operation.send, peer, bytes), nullptr, bytes);
      }
      transfers->emplace_back(false, operation.root, nullptr, operation.receive, bytes);
      break;
    default:
      break;
  }
}

bool is_collective(Kind kind) { return kind <= Kind::kReduceScatter; }

// Symbols of NCCL's kernels, as a profiler gets them.
#define EMU_SYMBOL(characters, name) "_Z" #characters name "24ncclDevKernelArgsStorageILm4096EE"
constexpr const char* kSendRecv = EMU_SYMBOL(22, "ncclDevKernel_SendRecv");

constexpr const char* kOneRankReduce =
    "_ZN12_GLOBAL__N_113oneRankReduceI13FuncPreMulSumIfEEEvPvS3_mmb";

// Null: it has none.
const char* kernel_of(const Operation& operation) {
  if (operation.method == Method::kCopies) return nullptr;
  if (!is_collective(operation.kind)) return kSendRecv;
  if (operation.bytes == 0) return nullptr;
  switch (operation.kind) {
    case Kind::kAllReduce:
      return EMU_SYMBOL(39, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    case Kind::kBroadcast:
      return EMU_SYMBOL(31, "ncclDevKernel_Broadcast_RING_LL");
    case Kind::kReduce:
      return EMU_SYMBOL(36, "ncclDevKernel_Reduce_Sum_f32_RING_LL");
    case Kind::kAllGather:
      return EMU_SYMBOL(31, "ncclDevKernel_AllGather_RING_LL");
    default:
      return EMU_SYMBOL(43, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL");
  }
}
#undef EMU_SYMBOL

// A unit is one kernel, of the first of its operations that has one.
const char* kernel_of(const Communicator& communicator, const std::vector<Operation>& operations) {
  if (is_alone(communicator, operations[0])) return kOneRankReduce;
  for (const Operation& operation : operations) {
    if (const char* kernel = kernel_of(operation)) return kernel;
  }
  return nullptr;
}

// Units that run on each GPU, of this process.
std::atomic<uint64_t> running_on[kDevicesMax];

// What a further stream of a unit holds until the unit is over.
struct Joined {
  std::shared_ptr<Unit> unit;
  bool arrived = false;
};

}  // namespace

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

bool is_untouched(const void* address, size_t bytes) {
  return bytes > 0 && emu_memory_is_untouched(address, bytes) != 0;
}

void make_zero(void* address, size_t bytes) {
  if (emu_memory_is_untouched(address, bytes) != 0) return;
  if (emu_memory_is_device(address) != 0) {
    emu_memory_drop(address, bytes);
  } else {
    std::memset(address, 0, bytes);
  }
}

Unit::Unit(CommunicatorPointer communicator, const std::vector<Operation>& operations,
           uint32_t slow_factor, std::shared_ptr<ProfiledPlan> plan)
    : communicator_(std::move(communicator)),
      operations_(operations),
      slow_factor_(slow_factor),
      plan_(std::move(plan)) {
  for (const Operation& operation : operations_) {
    if (is_collective(operation.kind)) {
      collectives_.emplace_back(operation);
    } else {
      add_transfers(operation, *communicator_, &transfers_);
    }
  }
}

Unit::~Unit() {
  if (has_turn_) communicator_->units.remove(turn_);
  if (is_captured_) communicator_->captured.remove(hold_);
}

void Unit::take_turn() {
  turn_ = communicator_->units.add();
  has_turn_ = true;
}

bool Unit::take_room() {
  const uint64_t kernels_max = settings().kernels;
  if (kernels_max == 0) return true;
  std::atomic<uint64_t>& running = running_on[communicator_->device];
  has_room_ = running.fetch_add(1) < kernels_max;
  if (!has_room_) running.fetch_sub(1);
  return has_room_;
}

ncclResult_t Unit::launch(const std::shared_ptr<Unit>& unit, const std::vector<void*>& streams) {
  uint64_t graph = 0;
  const bool capturing = emu_stream_capturing(streams[0], &graph) != 0;
  // Each replay of a captured unit is a unit of its own and takes its turn then.
  if (capturing) {
    unit->is_captured_ = true;
    unit->hold_ = unit->communicator_->captured.add();
  } else {
    unit->take_turn();
  }
  const size_t others = capturing ? 0 : streams.size() - 1;
  unit->streams_missing_.store(static_cast<int>(others));
  emu_work work = {};
  work.poll = poll;
  work.release = release;
  work.argument = new std::shared_ptr<Unit>(unit);
  work.name = "nccl";
  work.error = kCudaErrorIllegalAddress;
  work.kernel = kernel_of(*unit->communicator_, unit->operations_);
  if (emu_stream_enqueue(streams[0], &work, clone) != 0) {
    release(work.argument);
    unit->end(false);
    warn("the stream does not accept work: a CUDA error of this device, or not a stream");
    return ncclUnhandledCudaError;
  }
  for (size_t i = 1; i <= others; ++i) {
    emu_work join = {};
    join.poll = poll_joined;
    join.release = release_joined;
    join.argument = new Joined{unit};
    join.name = "nccl (joined)";
    if (emu_stream_enqueue(streams[i], &join, nullptr) != 0) {
      release_joined(join.argument);
      warn("one of the streams of the group does not accept work");
      return ncclUnhandledCudaError;
    }
  }
  return ncclSuccess;
}

void* Unit::clone(void* argument) {
  const Unit& original = **static_cast<std::shared_ptr<Unit>*>(argument);
  auto copy =
      std::make_shared<Unit>(original.communicator_, original.operations_, original.slow_factor_,
                             original.plan_ ? original.plan_->replay() : nullptr);
  copy->take_turn();
  return new std::shared_ptr<Unit>(std::move(copy));
}

void Unit::release(void* argument) {
  auto* const held = static_cast<std::shared_ptr<Unit>*>(argument);
  // Also when the work is dropped unfinished: whatever waits for this unit must not wait for ever.
  if ((*held)->has_turn_) (*held)->end(false);
  delete held;
}

int Unit::poll(void* argument) { return (*static_cast<std::shared_ptr<Unit>*>(argument))->run(); }

int Unit::poll_joined(void* argument) {
  Joined& joined = *static_cast<Joined*>(argument);
  if (!joined.arrived) {
    joined.arrived = true;
    if (joined.unit->streams_missing_.fetch_sub(1) == 1) emu_wake();
  }
  return joined.unit->over_.load() ? 1 : 0;
}

void Unit::release_joined(void* argument) {
  auto* const joined = static_cast<Joined*>(argument);
  if (!joined->arrived) joined->unit->streams_missing_.fetch_sub(1);
  delete joined;
}

void Unit::end(bool complete) {
  if (over_.exchange(true)) return;
  if (plan_) plan_->end(complete, collectives_.empty() ? 0 : collectives_[0].met_ns());
  if (has_turn_) communicator_->units.remove(turn_);
  if (has_room_) {
    running_on[communicator_->device].fetch_sub(1);
    emu_wake();
  }
}

bool Unit::finished() const {
  if (current_ < collectives_.size()) return false;
  for (const Transfer& transfer : transfers_) {
    if (!transfer.done()) return false;
  }
  return true;
}

bool Unit::advance() {
  bool advanced = false;
  if (current_ < collectives_.size()) {
    advanced = collectives_[current_].advance(*communicator_);
    if (collectives_[current_].done()) ++current_;
  }
  for (Transfer& transfer : transfers_) {
    if (!transfer.done()) advanced = transfer.advance(*communicator_) || advanced;
  }
  return advanced;
}

// One poll: 0 not done, 1 done, 2 the GPU faulted.
int Unit::run() {
  Communicator& communicator = *communicator_;
  const uint64_t entered_ns = now_ns();
  if (communicator.stopped()) {
    end(false);
    emu_wake();
    return 1;
  }
  if (!begun_) {
    if (streams_missing_.load() > 0 || !communicator.units.is_first(turn_)) return 0;
    if (!take_room()) return 0;
    begun_ = true;
    begun_ns_ = entered_ns;
    progress_ns_ = entered_ns;
    for (const Operation& operation : operations_) {
      if (faults(operation, communicator)) {
        end(false);
        return 2;
      }
    }
    if (plan_) plan_->begin();
    for (Transfer& transfer : transfers_) transfer.begin(communicator);
  }
  uint64_t time_ns = entered_ns;
  uint64_t last_ns = entered_ns;  // of the last progress in this poll
  bool advanced_at_all = false;
  while (!finished()) {
    const bool advanced = advance();
    time_ns = now_ns();
    if (advanced) {
      advanced_at_all = true;
      last_ns = progress_ns_ = time_ns;
    } else {
      bool moving = current_ < collectives_.size() && collectives_[current_].moving();
      for (const Transfer& transfer : transfers_) moving = moving || transfer.moving();
      if (!moving || time_ns - last_ns > kPatienceNs || time_ns - progress_ns_ > kQuietNs) break;
      sched_yield();
    }
    if (communicator.stopped() || time_ns - entered_ns > kPollBudgetNs) break;
  }
  if (!finished()) {
    if (advanced_at_all && communicator.several_here) emu_wake();
    return 0;
  }
  if (finished_ns_ == 0) finished_ns_ = time_ns;
  // A slow rank's operations take a multiple of their time.
  if (slow_factor_ > 1 && time_ns < begun_ns_ + (finished_ns_ - begun_ns_) * slow_factor_) return 0;
  end(true);
  if (communicator.several_here || !communicator.units.empty()) emu_wake();
  return 1;
}

}  // namespace emu_nccl
