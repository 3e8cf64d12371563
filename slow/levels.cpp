#include "slow/levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "slow/robust.h"

namespace rollcall::slow {
namespace {

constexpr size_t kBlocksMax = 12;
constexpr size_t kBlockMin = 4;

double deviation(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

uint64_t mixed(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x100000001b3 + (hash >> 29);
}

// What its stream waited for when everybody had come; -1: not everybody is on file.
int64_t transfer_of(const Timeline& timeline, uint32_t unit) {
  int64_t transfer_ns = -1;
  for (const uint32_t m : timeline.meetings_of(unit)) {
    const Meeting& meeting = timeline.meetings[m];
    if (meeting.is_whole) transfer_ns = std::max(transfer_ns, meeting.transfer_ns);
  }
  return transfer_ns;
}

}  // namespace

double level_error(const std::vector<double>& values) {
  const size_t blocks = std::min(kBlocksMax, values.size() / kBlockMin);
  if (blocks < 2) return median_error(values);
  std::vector<double> medians;
  for (size_t b = 0; b < blocks; ++b) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(values.size() * b / blocks);
    const auto end = values.begin() + static_cast<ptrdiff_t>(values.size() * (b + 1) / blocks);
    medians.push_back(median({begin, end}));
  }
  return std::max(median_error(values),
                  deviation(medians) / std::sqrt(static_cast<double>(blocks)));
}

Side::Side(const trace::Run& run)
    : run_(run), parts_(analysis::take_apart(run)), timeline_(make_timeline(this->run())) {
  steps_ = find_steps(timeline_);
  why_not_ = steps_.why_not;
  if (why_not_.empty() && steps_.usable.size() < kStepsMin) {
    why_not_ = fmt::format("{} steps could be compared, and fewer than {} prove nothing",
                           steps_.usable.size(), kStepsMin);
  }
  if (!why_not_.empty()) return;
  evidence_.emplace(timeline_, steps_);
  if (!evidence_->replay().is_consistent()) {
    why_not_ = "the records contradict each other: calls wait for each other in a circle";
  } else if (evidence_->median_step_ns() <= 0) {
    why_not_ = "the steps take no time: the record's times are damaged";
  }
  if (!why_not_.empty()) return;
  number_gpus();
  levels_.resize(timeline_.gpus.size());
  for (uint32_t g = 0; g < timeline_.gpus.size(); ++g) {
    if (timeline_.gpus[g].role != kNone) measure(g);
  }
}

void Side::number_gpus() {
  std::map<int32_t, uint32_t> of_rank;
  for (uint32_t g = 0; g < timeline_.gpus.size(); ++g) {
    const int32_t rank = timeline_.gpus[g].rank;
    if (timeline_.gpus[g].role != kNone) gpus_.emplace(GpuKey{rank, of_rank[rank]++}, g);
  }
}

void Side::measure(uint32_t gpu) {
  const uint32_t length = steps_.roles[timeline_.gpus[gpu].role].length;
  levels_[gpu].resize(length);
  for (uint32_t slot = 0; slot < length; ++slot) {
    std::vector<double> own;
    std::vector<double> since;
    std::vector<double> transfer;
    for (const uint32_t step : steps_.usable) {
      const uint32_t unit = steps_.unit_at(timeline_, gpu, step, slot);
      own.push_back(static_cast<double>(evidence_->own_times().own_ns(unit)));
      since.push_back(static_cast<double>(evidence_->own_times().since_before_ns(unit)));
      const int64_t transfer_ns = transfer_of(timeline_, unit);
      if (transfer_ns >= 0) transfer.push_back(static_cast<double>(transfer_ns));
    }
    SlotLevel& level = levels_[gpu][slot];
    level.has_transfer = 2 * transfer.size() > own.size();
    if (level.has_transfer) {
      level.transfer_error_ns = level_error(transfer);
      level.transfer_ns = median(std::move(transfer));
    }
    level.own_ns = median(std::move(own));
    level.since_ns = median(std::move(since));
    level.stream = timeline_.units[unit_in_middle(gpu, slot)].stream;
  }
}

OwnParts Side::parts_of(uint32_t gpu) const {
  std::vector<double> series[4];
  const uint32_t length = steps_.roles[timeline_.gpus[gpu].role].length;
  for (const uint32_t step : steps_.usable) {
    double sums[4] = {};
    for (uint32_t slot = 0; slot < length; ++slot) {
      const uint32_t number = steps_.unit_at(timeline_, gpu, step, slot);
      const Unit& unit = timeline_.units[number];
      const auto own_ns = static_cast<double>(evidence_->own_times().own_ns(number));
      const double in_call_ns = std::min<double>(own_ns, unit.lead_ns);
      sums[0] += own_ns - in_call_ns;
      sums[unit.lead_ns <= unit.call_ns ? 1 : 2] += in_call_ns;
      sums[3] += unit.call_ns;
    }
    for (size_t i = 0; i < 4; ++i) series[i].push_back(sums[i]);
  }
  return {.host_ns = median(series[0]),
          .launch_ns = median(series[1]),
          .gpu_ns = median(series[2]),
          .calls_ns = median(series[3])};
}

std::vector<CallLook> Side::looks_of(uint32_t role) const {
  const uint32_t gpu = steps_.roles[role].gpus.front();
  const trace::Process& process = run().processes[timeline_.gpus[gpu].process];
  std::vector<CallLook> looks;
  for (uint32_t place = 0; place < steps_.roles[role].length; ++place) {
    const Unit& unit = timeline_.units[unit_in_middle(gpu, slot_of_place(role, place))];
    const trace::Op& op = process.ops[unit.op];
    uint64_t hash = mixed(0xcbf29ce484222325, static_cast<uint64_t>(op.kind));
    hash = mixed(hash, op.datatype);
    hash = mixed(hash, unit.operations);
    if (op.comm < process.comms.size()) {
      const trace::Comm& comm = process.comms[op.comm];
      hash = mixed(hash, static_cast<uint64_t>(comm.nranks));
      // By distance, since each rank has its own neighbours.
      const int64_t distance = int64_t{op.root_or_peer} - comm.rank;
      if (is_p2p(op.kind)) hash = mixed(hash, static_cast<uint64_t>(distance));
    }
    looks.push_back({.look = mixed(hash, op.count), .sizeless = hash});
  }
  return looks;
}

uint32_t Side::slot_of_place(uint32_t role, uint32_t place) const {
  const Role& of = steps_.roles[role];
  return (of.first_slot + place) % of.length;
}

uint32_t Side::place_of_slot(uint32_t role, uint32_t slot) const {
  const Role& of = steps_.roles[role];
  return (slot + of.length - of.first_slot % of.length) % of.length;
}

uint32_t Side::unit_in_middle(uint32_t gpu, uint32_t slot) const {
  return steps_.unit_at(timeline_, gpu, steps_.usable[steps_.usable.size() / 2], slot);
}

}  // namespace rollcall::slow
