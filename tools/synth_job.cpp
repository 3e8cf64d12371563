#include "tools/synth_job.h"

#include <fmt/format.h>

#include <algorithm>

namespace rollcall::tools {
namespace {

constexpr uint8_t kInt32 = 2;
constexpr uint8_t kFloat32 = 7;
constexpr uint8_t kFloat64 = 8;
constexpr uint8_t kBfloat16 = 9;
constexpr uint8_t kSum = 0;
constexpr uint8_t kMax = 2;
constexpr uint32_t kMicrobatches = 2;
constexpr uint32_t kLayers = 2;
constexpr uint32_t kBuckets = 3;
// More than NCCL buffers: an activation's send waits for its receive.
constexpr uint64_t kActivationElements = 1 << 20;
constexpr uint64_t kBucketElements = 1 << 22;

constexpr SynthFaultTraits kTraits[] = {
#define ROLLCALL_X(id, name, verdict, what) {name, verdict, what},
    ROLLCALL_SYNTH_FAULTS(ROLLCALL_X)
#undef ROLLCALL_X
};

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t hash = (a ^ b) * 0x9e3779b97f4a7c15;
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93;
  return hash ^ hash >> 32;
}

CommKey child_key(const CommKey& parent, uint32_t child_number, int32_t colour) {
  const uint64_t which = uint64_t{child_number} << 32 | static_cast<uint32_t>(colour);
  return {mix(parent.high, which), mix(parent.low, which + 1)};
}

bool is_p2p_fault(SynthFault fault) {
  return fault == SynthFault::p2p_unmatched || fault == SynthFault::p2p_cycle ||
         fault == SynthFault::p2p_count;
}

size_t find_call(const std::vector<SynthCall>& calls, OpKind kind, uint32_t comm) {
  const auto found = std::find_if(calls.begin(), calls.end(), [&](const SynthCall& call) {
    return call.kind == kind && call.comm == comm;
  });
  return static_cast<size_t>(found - calls.begin());
}

}  // namespace

const SynthFaultTraits& traits_of(SynthFault fault) { return kTraits[static_cast<size_t>(fault)]; }

SynthJob::SynthJob(const SynthOptions& options, std::string& error) : options_(options) {
  const uint64_t model = uint64_t{options.tensor_parallel} * options.pipeline_parallel;
  if (model == 0 || options.ranks == 0 || options.ranks % model != 0) {
    error = fmt::format("{} ranks cannot be divided into tp={} x pp={}", options.ranks,
                        options.tensor_parallel, options.pipeline_parallel);
    return;
  }
  data_parallel_ = static_cast<uint32_t>(options.ranks / model);
  uint32_t next = 1;
  if (options.tensor_parallel > 1) tensor_comm_ = next++;
  if (options.pipeline_parallel > 1) pipeline_comm_ = next++;
  if (data_parallel_ > 1) data_comm_ = next++;
  // A middle stage is the busiest; with two stages both are alike.
  const uint32_t busiest =
      options.pipeline_parallel > 2 ? options.tensor_parallel * data_parallel_ : 0;
  const uint64_t step_calls = step_of(busiest).size();
  steps_ = std::max<uint64_t>(options.ops / step_calls, 1);
  setup_calls_ = options.ops > steps_ * step_calls ? options.ops - steps_ * step_calls : 0;
  if (options_.fault_step == UINT64_MAX) options_.fault_step = steps_ - 1;
  error = check();
}

std::string SynthJob::check() const {
  if (options_.fault == SynthFault::none) return "";
  const std::string_view name = traits_of(options_.fault).name;
  if (options_.fault_rank >= options_.ranks) {
    return fmt::format("the fault is planted at rank {}, but the last rank is {}",
                       options_.fault_rank, options_.ranks - 1);
  }
  if (options_.fault_step >= steps_) {
    return fmt::format("the fault is planted at step {}, but the last step of {} calls is {}",
                       options_.fault_step, options_.ops, steps_ - 1);
  }
  if (options_.ranks < 2) return fmt::format("the fault {} needs two ranks", name);
  const bool is_last_stage =
      place_of(options_.fault_rank).pipeline + 1 == options_.pipeline_parallel;
  if (is_p2p_fault(options_.fault) && is_last_stage) {
    return fmt::format(
        "the fault {} needs a rank with a next pipeline stage; give --layout pp=2 and a rank of "
        "the first stage",
        name);
  }
  if (options_.fault == SynthFault::comm_order && data_comm_ == UINT32_MAX) {
    return "the fault comm-order needs a data group of two ranks; make tp or pp smaller";
  }
  return "";
}

bool SynthJob::never_trains() const {
  return options_.fault == SynthFault::init_missing || options_.fault == SynthFault::split_mismatch;
}

bool SynthJob::hangs() const {
  return options_.fault != SynthFault::none && options_.fault != SynthFault::straggler;
}

SynthJob::Place SynthJob::place_of(uint32_t rank) const {
  const uint32_t tp = options_.tensor_parallel;
  return {.tensor = rank % tp,
          .data = rank / tp % data_parallel_,
          .pipeline = rank / tp / data_parallel_};
}

std::vector<SynthComm> SynthJob::comms_of(uint32_t rank) const {
  const Place place = place_of(rank);
  const bool is_culprit = rank == options_.fault_rank;
  std::vector<SynthComm> comms;
  const CommKey world{mix(options_.seed, 1), mix(options_.seed, 2)};
  const bool joins_late = options_.fault == SynthFault::init_missing;
  if (joins_late && is_culprit) return comms;
  comms.push_back({.key = world,
                   .nranks = static_cast<int32_t>(options_.ranks),
                   .rank = static_cast<int32_t>(rank),
                   .is_pending = joins_late});
  if (joins_late) return comms;
  const auto split = [&](uint32_t size, uint32_t mine, uint32_t colour) {
    if (size < 2) return;
    const auto number = static_cast<uint32_t>(comms.size() - 1);
    const auto sign = static_cast<int32_t>(colour);
    comms.push_back({.key = child_key(world, number, sign),
                     .parent_key = world,
                     .nranks = static_cast<int32_t>(size),
                     .rank = static_cast<int32_t>(mine),
                     .child_number = number,
                     .colour = sign,
                     .is_split = true});
  };
  const uint32_t tp = options_.tensor_parallel;
  split(tp, place.tensor, place.pipeline * data_parallel_ + place.data);
  split(options_.pipeline_parallel, place.pipeline, place.data * tp + place.tensor);
  split(data_parallel_, place.data, place.pipeline * tp + place.tensor);
  if (options_.fault == SynthFault::split_mismatch) {
    if (is_culprit) {
      comms.pop_back();
    } else {
      comms.back().is_pending = true;
    }
  }
  return comms;
}

void SynthJob::add_pipeline(const Place& place, std::vector<SynthCall>& calls) const {
  const bool has_next = place.pipeline + 1 < options_.pipeline_parallel;
  const bool has_previous = place.pipeline > 0;
  const auto next = static_cast<int32_t>(place.pipeline) + 1;
  const auto previous = static_cast<int32_t>(place.pipeline) - 1;
  const auto transfer = [&](bool wanted, OpKind kind, int32_t peer) {
    if (!wanted) return;
    calls.push_back({.kind = kind,
                     .datatype = kBfloat16,
                     .root_or_peer = peer,
                     .comm = pipeline_comm_,
                     .count = kActivationElements});
  };
  const auto compute = [&] {
    for (uint32_t layer = 0; layer < kLayers && tensor_comm_ != UINT32_MAX; ++layer) {
      calls.push_back({.datatype = kBfloat16,
                       .reduction = kSum,
                       .comm = tensor_comm_,
                       .count = kActivationElements});
    }
  };
  for (uint32_t batch = 0; batch < kMicrobatches; ++batch) {
    transfer(has_previous, OpKind::Recv, previous);
    compute();
    transfer(has_next, OpKind::Send, next);
  }
  for (uint32_t batch = 0; batch < kMicrobatches; ++batch) {
    transfer(has_next, OpKind::Recv, next);
    compute();
    transfer(has_previous, OpKind::Send, previous);
  }
}

std::vector<SynthCall> SynthJob::step_of(uint32_t rank) const {
  std::vector<SynthCall> calls;
  add_pipeline(place_of(rank), calls);
  if (data_comm_ != UINT32_MAX) {
    const auto bucket = [&](OpKind kind, uint8_t reduction, uint64_t count) {
      calls.push_back({.kind = kind,
                       .datatype = kBfloat16,
                       .reduction = reduction,
                       .comm = data_comm_,
                       .count = count});
    };
    for (uint32_t i = 0; i < kBuckets; ++i) {
      const uint64_t count = kBucketElements + mix(options_.seed, i) % 1024 * 64;
      bucket(OpKind::ReduceScatter, kSum, count / data_parallel_ + 1);
      bucket(OpKind::AllGather, kUnknown8, count / data_parallel_ + 1);
    }
  }
  calls.push_back({.kind = OpKind::Reduce,
                   .datatype = kFloat64,
                   .reduction = kSum,
                   .root_or_peer = 0,
                   .comm = 0,
                   .count = 1});
  calls.push_back({.datatype = kFloat32, .reduction = kSum, .comm = 0, .count = 4});
  calls.push_back(
      {.kind = OpKind::Broadcast, .datatype = kInt32, .root_or_peer = 0, .comm = 0, .count = 2});
  return calls;
}

std::vector<SynthCall> SynthJob::faulty_step(uint32_t rank) const {
  std::vector<SynthCall> calls = step_of(rank);
  if (rank != options_.fault_rank) return calls;
  const size_t loss = find_call(calls, OpKind::Reduce, 0);
  const size_t norm = loss + 1;
  const auto at = [&](size_t index) { return calls.begin() + static_cast<ptrdiff_t>(index); };
  switch (options_.fault) {
    case SynthFault::missing_call:
      calls.erase(at(loss));
      break;
    case SynthFault::extra_call:
      calls.insert(at(loss), {.datatype = kFloat32, .reduction = kSum, .comm = 0, .count = 7777});
      break;
    case SynthFault::op:
      calls[loss].kind = OpKind::AllReduce;
      calls[loss].root_or_peer = -1;
      break;
    case SynthFault::count:
      calls[norm].count += 1;
      break;
    case SynthFault::dtype:
      calls[loss].datatype = kFloat32;
      break;
    case SynthFault::redop:
      calls[norm].reduction = kMax;
      break;
    case SynthFault::root:
      calls[norm + 1].root_or_peer = 1;
      break;
    case SynthFault::order:
      std::swap(calls[loss], calls[norm]);
      break;
    case SynthFault::comm_order:
      std::swap(calls[loss - 1], calls[loss]);
      break;
    case SynthFault::p2p_unmatched:
      calls.erase(at(find_call(calls, OpKind::Send, pipeline_comm_)));
      break;
    case SynthFault::p2p_count:
      ++calls[find_call(calls, OpKind::Send, pipeline_comm_)].count;
      break;
    case SynthFault::p2p_cycle: {
      // The receive of the first gradient stands behind the last activation's send.
      const auto next = static_cast<int32_t>(place_of(rank).pipeline) + 1;
      const auto gradient = std::find_if(calls.begin(), calls.end(), [&](const SynthCall& call) {
        return call.kind == OpKind::Recv && call.root_or_peer == next;
      });
      std::iter_swap(gradient - 1, gradient);
      break;
    }
    case SynthFault::kill:
    case SynthFault::stop:
    case SynthFault::exit:
    case SynthFault::host_stuck:
    case SynthFault::abort:
      calls.resize(loss);
      break;
    default:
      break;
  }
  return calls;
}

SynthRank SynthJob::rank(uint32_t number) const {
  SynthRank rank;
  rank.comms = comms_of(number);
  if (never_trains()) {
    rank.end = SynthEnd::hung;
    return rank;
  }
  const bool is_culprit = number == options_.fault_rank;
  rank.setup_calls = setup_calls_;
  rank.step = step_of(number);
  rank.steps = hangs() ? options_.fault_step : steps_;
  if (options_.fault == SynthFault::straggler && is_culprit) rank.delay_ns = 50'000'000;
  if (!hangs()) return rank;
  rank.last = faulty_step(number);
  rank.end = SynthEnd::hung;
  const SynthFault fault = options_.fault;
  if (fault == SynthFault::abort) rank.end = SynthEnd::aborted;
  rank.aborts_first = fault == SynthFault::abort && is_culprit;
  if (!is_culprit) return rank;
  if (fault == SynthFault::kill || fault == SynthFault::stop) rank.end = SynthEnd::silent;
  if (fault == SynthFault::exit) rank.end = SynthEnd::exited;
  return rank;
}

}  // namespace rollcall::tools
