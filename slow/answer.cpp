#include "slow/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/views/by_gpu.h"
#include "slow/change.h"
#include "slow/evidence.h"
#include "slow/robust.h"

namespace rollcall::slow {
namespace {

class Answerer {
 public:
  Answerer(const trace::Run& run, const std::vector<uint32_t>* origin, const Question& question)
      : run_(run), question_(question), origin_(origin), timeline_(make_timeline(run)) {}

  Answer answer() {
    describe();
    const Steps steps = find_steps(timeline_, question_.first_step, question_.last_step);
    describe(steps);
    if (!steps.why_not.empty()) return std::move(answer_);
    if (steps.usable.size() < kStepsMin) {
      answer_.why_not.push_back(fmt::format(
          "{} steps could be compared, and fewer than {} prove nothing: record more of them",
          steps.usable.size(), kStepsMin));
      return std::move(answer_);
    }
    Evidence evidence(timeline_, steps);
    if (!evidence.replay().is_consistent()) {
      answer_.why_not.push_back(
          "the records contradict each other: calls wait for each other in a circle");
      return std::move(answer_);
    }
    measure(evidence);
    if (answer_.is_compared) answer_.exposed = measure_exposed(run_, timeline_, steps);
    charge(evidence);
    compare(evidence);
    look_over_time(evidence);
    ask(evidence);
    return std::move(answer_);
  }

 private:
  void describe() {
    for (const Gpu& gpu : timeline_.gpus) {
      GpuRow row;
      row.process = origin_ == nullptr ? gpu.process : (*origin_)[gpu.process];
      row.rank = gpu.rank;
      answer_.gpus.push_back(row);
    }
    answer_.job_gpus = timeline_.job_gpus;
    for (const TimedComm& comm : timeline_.comms) {
      answer_.comms.push_back({.name = comm.name, .nranks = comm.nranks, .key = comm.key});
    }
  }

  void describe(const Steps& steps) {
    if (!steps.why_not.empty()) answer_.why_not.push_back(steps.why_not);
    answer_.steps = steps.count;
    answer_.compared = static_cast<uint32_t>(steps.usable.size());
    answer_.special = steps.special;
    answer_.inner = steps.inner;
    answer_.sizes_vary = steps.sizes_vary;
    if (!steps.roles.empty()) answer_.units = steps.roles.front().length;
    if (!steps.usable.empty()) {
      answer_.first_step = steps.usable.front();
      answer_.last_step = steps.usable.back();
    }
  }

  void measure(const Evidence& evidence) {
    const double step_ns = evidence.median_step_ns();
    answer_.step_ns = step_ns;
    if (step_ns <= 0) {
      answer_.why_not.push_back("the steps take no time: the record's times are damaged");
      return;
    }
    answer_.is_compared = true;
    const std::vector<double>& spans = evidence.step_ns();
    answer_.variation = (quantile(spans, 0.95) - quantile(spans, 0.05)) / 2 / step_ns;
    answer_.floor = floor_of(spans, step_ns);
  }

  void charge(const Evidence& evidence) {
    const Charges& charges = evidence.charges();
    const std::vector<double>& spans = evidence.step_ns();
    const double recorded_ns = std::accumulate(spans.begin(), spans.end(), 0.0);
    if (recorded_ns <= 0) return;
    const auto share = [recorded_ns](int64_t span_ns) {
      return static_cast<double>(span_ns) / recorded_ns;
    };
    for (uint32_t g = 0; g < answer_.gpus.size(); ++g) {
      answer_.gpus[g].launch = share(charges.launch_ns[g]);
      answer_.gpus[g].charged = share(charges.launch_ns[g] + charges.own_ns[g]);
    }
    for (uint32_t c = 0; c < answer_.comms.size(); ++c) {
      answer_.comms[c].charged = share(charges.transfer_ns[c]);
    }
    answer_.unrecorded = share(charges.unrecorded_ns);
    answer_.unexplained = evidence.unexplained();
  }

  void compare(const Evidence& evidence) {
    for (const Role& role : evidence.steps().roles) {
      std::vector<double> medians;
      for (const uint32_t gpu : role.gpus) medians.push_back(median(evidence.own_ns(gpu)));
      for (size_t i = 0; i < role.gpus.size(); ++i) {
        GpuRow& row = answer_.gpus[role.gpus[i]];
        row.role = timeline_.gpus[role.gpus[i]].role;
        row.peers = static_cast<uint32_t>(role.gpus.size() - 1);
        row.own_ns = medians[i];
        std::vector<double> others = medians;
        others.erase(others.begin() + static_cast<ptrdiff_t>(i));
        if (others.empty()) continue;
        row.excess_ns = medians[i] - median(others);
        row.z = robust_z(medians[i], others);
      }
    }
  }

  void look_over_time(const Evidence& evidence) {
    answer_.smallest_shift = smallest_change(evidence.step_ns());
    answer_.shifts = find_shifts(evidence);
    for (Shift& shift : answer_.shifts) {
      if (shift.place.unit != kNone) name_place(shift.place);
    }
  }

  void ask(Evidence& evidence) {
    if (evidence.median_step_ns() <= 0) return;
    for (const auto rule : {find_slow_transfer, find_straggler, find_imbalance, find_jitter}) {
      answer_.finding = rule(evidence, answer_.why_not);
      if (answer_.finding) {
        answer_.why_not.clear();
        for (Place& place : answer_.finding->places) name_place(place);
        return;
      }
    }
  }

  // The record that the unit stands for.
  void name_place(Place& place) const {
    const Unit& unit = timeline_.units[place.unit];
    const trace::Process& process = run_.processes[timeline_.gpus[unit.gpu].process];
    place.op = process.ops[unit.op];
    if (place.op.comm < process.comms.size()) place.comm = process.comms[place.op.comm].name;
  }

  const trace::Run& run_;
  const Question& question_;
  const std::vector<uint32_t>* origin_;
  Timeline timeline_;
  Answer answer_;
};

}  // namespace

Answer answer(const trace::Run& run, const Question& question) {
  const std::optional<analysis::Parts> parts = analysis::take_apart(run);
  if (parts) return Answerer(parts->run, &parts->origin, question).answer();
  return Answerer(run, nullptr, question).answer();
}

}  // namespace rollcall::slow
