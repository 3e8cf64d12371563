#include <algorithm>
#include <cstring>

#include "emulator/device/device.h"
#include "emulator/nccl/arithmetic.h"
#include "emulator/nccl/unit.h"

namespace emu_nccl {
namespace {

// Up to here every rank reduces everything by itself: one round instead of two.
constexpr size_t kOneRoundBytes = 8 * 1024;
constexpr size_t kSliceAlignment = 64;

size_t rounds_of(int ranks) {
  size_t rounds = 1;
  while ((1 << rounds) < ranks) ++rounds;
  return rounds;
}

// Time on the wire: what a ring moves per rank, and a latency per level of a tree.
uint64_t cost_ns(const Operation& operation, const Communicator& communicator) {
  const size_t n = static_cast<size_t>(communicator.ranks);
  size_t bytes = operation.bytes;
  if (operation.kind == Kind::kAllReduce) bytes = bytes * 2 * (n - 1) / n;
  if (operation.kind == Kind::kAllGather || operation.kind == Kind::kReduceScatter) bytes *= n - 1;
  const int far = communicator.between_nodes ? 1 : 0;
  return emu_transfer_ns(bytes, far) +
         (rounds_of(communicator.ranks) - 1) * emu_transfer_ns(0, far);
}

}  // namespace

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {"AllReduce",     "Broadcast", "Reduce", "AllGather",
                                    "ReduceScatter", "AlltoAll",  "Gather", "Scatter",
                                    "Send",          "Recv"};
  return kNames[static_cast<uint32_t>(kind)];
}

bool Collective::reduces() const {
  return operation_.kind == Kind::kAllReduce || operation_.kind == Kind::kReduce ||
         operation_.kind == Kind::kReduceScatter;
}

bool Collective::two_phases(const Communicator&) const {
  return (operation_.kind == Kind::kAllReduce || operation_.kind == Kind::kReduce) &&
         operation_.bytes > kOneRoundBytes;
}

bool Collective::contributes(const Communicator& communicator) const {
  return operation_.kind != Kind::kBroadcast || communicator.rank == operation_.root;
}

size_t Collective::output_bytes(const Communicator& communicator) const {
  if (operation_.kind == Kind::kAllGather) {
    return operation_.bytes * static_cast<size_t>(communicator.ranks);
  }
  return operation_.bytes;
}

void* Collective::output(const Communicator& communicator) const {
  if (operation_.kind == Kind::kReduce && communicator.rank != operation_.root) return nullptr;
  return operation_.receive;
}

size_t Collective::step_bytes(const Communicator& communicator) const {
  size_t window = kWindowBytes;
  if (operation_.kind == Kind::kReduceScatter) {
    window = window / static_cast<size_t>(communicator.ranks) / kSliceAlignment * kSliceAlignment;
  }
  return std::min(window, operation_.bytes - offset_);
}

bool Collective::advance(Communicator& communicator) {
  switch (phase_) {
    case kAnnounce:
      announce(communicator);
      return true;
    case kMeet:
      return meet(communicator);
    case kStage:
      return stage(communicator);
    case kReduce:
      return reduce_slice(communicator);
    case kConsume:
      return consume(communicator);
    case kLinger:
      if (now_ns() < over_ns_) return false;
      phase_ = kDone;
      return true;
    case kStuck:
    case kDone:
      break;
  }
  return false;
}

void Collective::announce(Communicator& communicator) {
  if (operation_.reduction.premultiply && operation_.reduction.scalar_address != nullptr) {
    std::memcpy(&operation_.reduction.scalar, operation_.reduction.scalar_address,
                element_bytes(operation_.type));
  }
  RankSlot& self = communicator.self();
  CollectiveHeader& header = self.collective[communicator.collectives % 2];
  size_t input_bytes = operation_.bytes;
  if (operation_.kind == Kind::kReduceScatter)
    input_bytes *= static_cast<size_t>(communicator.ranks);
  header.kind = static_cast<uint32_t>(operation_.kind);
  header.root = operation_.root;
  header.bytes = operation_.bytes;
  header.started_ns = now_ns();
  header.untouched =
      !contributes(communicator) || is_untouched(operation_.send, input_bytes) ? 1 : 0;
  self.collectives_started.set(communicator.collectives + 1);
  phase_ = kMeet;
}

// Waits for all ranks, then compares what they say. A difference in kind, bytes or root is where
// NCCL hangs (or corrupts memory, which nobody can test for): this rank is stuck from here on. A
// difference in reduction, or in datatype at equal bytes, goes through, each rank computing its
// share in its own way.
bool Collective::meet(Communicator& communicator) {
  Region& region = *communicator.region;
  const uint64_t number = communicator.collectives;
  for (; looked_at_ < communicator.ranks; ++looked_at_) {
    if (region.slot(looked_at_).collectives_started.get() <= number) return false;
  }
  const CollectiveHeader& mine = communicator.self().collective[number % 2];
  bool agreed = true;
  bool untouched = true;
  uint64_t last_started_ns = 0;
  for (int rank = 0; rank < communicator.ranks; ++rank) {
    const CollectiveHeader& other = region.slot(rank).collective[number % 2];
    agreed =
        agreed && other.kind == mine.kind && other.root == mine.root && other.bytes == mine.bytes;
    untouched = untouched && other.untouched != 0;
    last_started_ns = std::max(last_started_ns, other.started_ns);
  }
  if (!agreed) {
    phase_ = kStuck;
    return false;
  }
  ++communicator.collectives;
  over_ns_ = last_started_ns + cost_ns(operation_, communicator);
  if (met_ns_ == 0) met_ns_ = last_started_ns;
  looked_at_ = 0;
  if (untouched) {
    // Every reduction of zeros is zero.
    if (output(communicator) != nullptr)
      make_zero(output(communicator), output_bytes(communicator));
    phase_ = kLinger;
  } else if (communicator.ranks == 1) {
    alone(communicator);
    phase_ = kLinger;
  } else {
    phase_ = kStage;
  }
  return true;
}

void Collective::copy_in(std::byte* target, size_t offset, size_t bytes) {
  const std::byte* const source = static_cast<const std::byte*>(operation_.send) + offset;
  if (reduces() && operation_.reduction.premultiply) {
    multiply(operation_.type, source, &operation_.reduction.scalar, target,
             bytes / element_bytes(operation_.type));
  } else if (target != source) {
    std::memmove(target, source, bytes);
  }
}

void Collective::alone(Communicator&) {
  copy_in(static_cast<std::byte*>(operation_.receive), 0, operation_.bytes);
}

// Puts this rank's part of the step into its window. The window was last used two steps ago, so all
// must have consumed that step.
bool Collective::stage(Communicator& communicator) {
  Region& region = *communicator.region;
  const uint64_t step = communicator.steps;
  if (contributes(communicator) && step >= kWindows) {
    for (; looked_at_ < communicator.ranks; ++looked_at_) {
      if (region.slot(looked_at_).consumed.get() < step - kWindows + 1) return false;
    }
  }
  looked_at_ = 0;
  const size_t bytes = step_bytes(communicator);
  if (contributes(communicator)) {
    std::byte* const window = region.input(communicator.rank, step);
    if (operation_.kind == Kind::kReduceScatter) {
      for (int rank = 0; rank < communicator.ranks; ++rank) {
        const size_t block = static_cast<size_t>(rank);
        copy_in(window + block * bytes, block * operation_.bytes + offset_, bytes);
      }
    } else {
      copy_in(window, offset_, bytes);
    }
  }
  communicator.self().staged.set(step + 1);
  phase_ = two_phases(communicator) ? kReduce : kConsume;
  return true;
}

// Two rounds: each rank reduces one slice of the step for all.
bool Collective::reduce_slice(Communicator& communicator) {
  Region& region = *communicator.region;
  const uint64_t step = communicator.steps;
  for (; looked_at_ < communicator.ranks; ++looked_at_) {
    if (region.slot(looked_at_).staged.get() <= step) return false;
  }
  looked_at_ = 0;
  const size_t bytes = step_bytes(communicator);
  const size_t n = static_cast<size_t>(communicator.ranks);
  const size_t slice = (bytes + n * kSliceAlignment - 1) / (n * kSliceAlignment) * kSliceAlignment;
  const size_t start = std::min(bytes, slice * static_cast<size_t>(communicator.rank));
  const size_t end = std::min(bytes, start + slice);
  if (end > start) {
    const void* inputs[kRanksMax];
    for (int rank = 0; rank < communicator.ranks; ++rank) {
      inputs[rank] = region.input(rank, step) + start;
    }
    reduce(operation_.type, operation_.reduction.op, inputs, communicator.ranks,
           region.result(step) + start, (end - start) / element_bytes(operation_.type));
  }
  communicator.self().reduced.set(step + 1);
  phase_ = kConsume;
  return true;
}

bool Collective::consume(Communicator& communicator) {
  Region& region = *communicator.region;
  const uint64_t step = communicator.steps;
  const bool rooted_elsewhere =
      operation_.kind == Kind::kReduce && communicator.rank != operation_.root;
  if (!rooted_elsewhere) {
    const bool reduced = two_phases(communicator);
    for (; looked_at_ < communicator.ranks; ++looked_at_) {
      if (operation_.kind == Kind::kBroadcast && looked_at_ != operation_.root) continue;
      const RankSlot& slot = region.slot(looked_at_);
      if ((reduced ? slot.reduced : slot.staged).get() <= step) return false;
    }
  }
  looked_at_ = 0;
  const size_t bytes = step_bytes(communicator);
  const void* inputs[kRanksMax];
  std::byte* const target = static_cast<std::byte*>(operation_.receive) + offset_;
  switch (operation_.kind) {
    case Kind::kBroadcast:
      if (communicator.rank != operation_.root) {
        std::memcpy(target, region.input(operation_.root, step), bytes);
      } else if (operation_.send != operation_.receive) {
        copy_in(target, offset_, bytes);
      }
      break;
    case Kind::kAllGather:
      for (int rank = 0; rank < communicator.ranks; ++rank) {
        std::memcpy(target + static_cast<size_t>(rank) * operation_.bytes, region.input(rank, step),
                    bytes);
      }
      break;
    default: {
      if (rooted_elsewhere) break;
      if (two_phases(communicator)) {
        std::memcpy(target, region.result(step), bytes);
        break;
      }
      const size_t block = operation_.kind == Kind::kReduceScatter
                               ? static_cast<size_t>(communicator.rank) * bytes
                               : 0;
      for (int rank = 0; rank < communicator.ranks; ++rank) {
        inputs[rank] = region.input(rank, step) + block;
      }
      reduce(operation_.type, operation_.reduction.op, inputs, communicator.ranks, target,
             bytes / element_bytes(operation_.type));
    }
  }
  finish_step(communicator);
  return true;
}

void Collective::finish_step(Communicator& communicator) {
  const size_t bytes = step_bytes(communicator);
  communicator.self().consumed.set(++communicator.steps);
  offset_ += bytes;
  phase_ = offset_ < operation_.bytes ? kStage : kLinger;
}

}  // namespace emu_nccl
