// A unit of work: what one call, or one group of calls, gives one communicator to do on a stream.
// NCCL's equivalent is a kernel launch: a unit waits in its stream until the units of its
// communicator before it are over, then until its GPU has room for it
// (ROLLCALL_EMULATE_NCCL_KERNELS), and keeps that room until it is over. Collectives of a unit run
// in order; sends and receives progress together, beside them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/nccl/communicator.h"

namespace emu_nccl {

class ProfiledPlan;

enum class Kind : uint32_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  // Made of sends and receives, as in NCCL:
  kAlltoAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
};
const char* kind_name(Kind kind);

// How NCCL would move the data. The emulator moves it alike; a profiler plugin is told.
enum class Method : uint8_t {
  kKernel,
  kSymmetricKernel,  // both buffers in windows of all ranks
  kCopies,           // so too, and the user has asked for no kernels: copy engines
};

// One call, after its arguments were checked.
struct Operation {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // as in the call
  ncclDataType_t type = ncclInt8;
  Reduction reduction;
  int root = 0;      // or the peer
  size_t bytes = 0;  // count in bytes
  Method method = Method::kKernel;
  uint64_t user_tag = 0;  // of a call with settings (NCCL 2.31)
};

// A collective on its way. All ranks go through the same steps; each step moves at most one window
// of every rank.
class Collective {
 public:
  explicit Collective(const Operation& operation) : operation_(operation) {}
  // Goes as far as it can without waiting. True when it got further.
  bool advance(Communicator& communicator);
  bool done() const { return phase_ == kDone; }
  bool moving() const { return phase_ > kMeet; }
  uint64_t met_ns() const { return met_ns_; }  // when the last rank arrived; 0: not yet

 private:
  enum Phase { kAnnounce, kMeet, kStage, kReduce, kConsume, kLinger, kStuck, kDone };

  void announce(Communicator& communicator);
  bool meet(Communicator& communicator);
  bool stage(Communicator& communicator);
  bool reduce_slice(Communicator& communicator);
  bool consume(Communicator& communicator);
  void alone(Communicator& communicator);
  void finish_step(Communicator& communicator);
  void copy_in(std::byte* target, size_t offset, size_t bytes);
  size_t step_bytes(const Communicator& communicator) const;
  bool reduces() const;
  bool two_phases(const Communicator& communicator) const;
  size_t output_bytes(const Communicator& communicator) const;
  void* output(const Communicator& communicator) const;
  bool contributes(const Communicator& communicator) const;

  Operation operation_;
  Phase phase_ = kAnnounce;
  int looked_at_ = 0;     // ranks already seen to be there
  size_t offset_ = 0;     // bytes of earlier steps
  uint64_t over_ns_ = 0;  // the cost model's end
  uint64_t met_ns_ = 0;
};

// One send or receive on its way.
class Transfer {
 public:
  Transfer(bool sends, int peer, const void* source, void* target, size_t bytes)
      : sends_(sends),
        peer_(peer),
        source_(static_cast<const std::byte*>(source)),
        target_(static_cast<std::byte*>(target)),
        bytes_(bytes) {}
  // Takes its number in the sequence of messages with the peer; called once, in the order of the
  // calls.
  void begin(Communicator& communicator);
  bool advance(Communicator& communicator);
  bool done() const { return phase_ == kDone; }
  bool moving() const { return phase_ == kMove; }

 private:
  enum Phase { kWaitTurn, kMeet, kMove, kConfirm, kLinger, kStuck, kDone };

  bool advance_send(Communicator& communicator, Channel& channel);
  bool advance_receive(Communicator& communicator, Channel& channel);
  bool push(Communicator& communicator, Channel& channel);
  bool pull(Communicator& communicator, Channel& channel);
  void moved(Communicator& communicator);

  bool sends_;
  int peer_;
  const std::byte* source_;
  std::byte* target_;
  size_t bytes_;
  Phase phase_ = kWaitTurn;
  bool untouched_ = false;
  bool eager_ = false;
  uint64_t number_ = 0;
  size_t offset_ = 0;
  uint64_t base_ = 0;  // the ring's counter at the message's first byte
  uint64_t over_ns_ = 0;
};

class Unit {
 public:
  // `plan`: for a profiler plugin; may be null.
  Unit(CommunicatorPointer communicator, const std::vector<Operation>& operations,
       uint32_t slow_factor, std::shared_ptr<ProfiledPlan> plan);
  ~Unit();

  // Puts the unit on the first stream; the others wait for it and it for them. Returns an NCCL
  // result.
  static ncclResult_t launch(const std::shared_ptr<Unit>& unit, const std::vector<void*>& streams);

 private:
  static int poll(void* argument);
  static void release(void* argument);
  static void* clone(void* argument);
  static int poll_joined(void* argument);
  static void release_joined(void* argument);

  void take_turn();
  bool take_room();
  int run();
  bool advance();
  bool finished() const;
  void end(bool complete);

  CommunicatorPointer communicator_;
  std::vector<Operation> operations_;
  uint32_t slow_factor_;
  std::shared_ptr<ProfiledPlan> plan_;
  std::vector<Collective> collectives_;
  std::vector<Transfer> transfers_;
  size_t current_ = 0;
  bool has_turn_ = false;
  uint64_t turn_ = 0;
  bool is_captured_ = false;  // belongs to CUDA graphs, which run copies of it
  uint64_t hold_ = 0;         // its number in Communicator::captured
  bool has_room_ = false;     // on the GPU: counted among the kernels that run there
  bool begun_ = false;
  uint64_t begun_ns_ = 0;
  uint64_t progress_ns_ = 0;
  uint64_t finished_ns_ = 0;
  std::atomic<int> streams_missing_{0};
  std::atomic<bool> over_{false};
};

uint64_t now_ns();
// True when nothing of it was ever written; the peers need not be sent zeros.
bool is_untouched(const void* address, size_t bytes);
// Makes it zero, cheaply where it can.
void make_zero(void* address, size_t bytes);

}  // namespace emu_nccl
