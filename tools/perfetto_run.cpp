#include "tools/perfetto_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "analysis/analysis.h"
#include "analysis/views/by_gpu.h"
#include "core/base/text.h"
#include "report/perfetto/choice.h"
#include "report/terms.h"
#include "slow/steps.h"
#include "slow/timeline.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/skipped_calls.h"
#include "trace/loader.h"

namespace rollcall::tools {
namespace {

// "0-3,17": ranks, rising as they stand there. nullopt: it is something else.
std::optional<std::vector<int32_t>> read_ranks(std::string_view text) {
  constexpr uint64_t kRankMax = 1u << 24;
  std::vector<int32_t> ranks;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t dash = std::min(part.find('-'), part.size());
    uint64_t first = 0;
    if (!parse_decimal(part.substr(0, dash), first)) return std::nullopt;
    uint64_t last = first;
    if (dash < part.size() && !parse_decimal(part.substr(dash + 1), last)) return std::nullopt;
    if (last < first || last > kRankMax) return std::nullopt;
    for (uint64_t rank = first; rank <= last; ++rank) ranks.push_back(static_cast<int32_t>(rank));
  }
  if (ranks.empty()) return std::nullopt;
  return ranks;
}

// "100-200" or "7". nullopt: it is something else.
std::optional<std::pair<uint32_t, uint32_t>> read_steps(std::string_view text) {
  const size_t dash = std::min(text.find('-'), text.size());
  uint64_t first = 0;
  if (!parse_decimal(text.substr(0, dash), first)) return std::nullopt;
  uint64_t last = first;
  if (dash < text.size() && !parse_decimal(text.substr(dash + 1), last)) return std::nullopt;
  if (last < first || last >= slow::kNone) return std::nullopt;
  return std::pair(static_cast<uint32_t>(first), static_cast<uint32_t>(last));
}

// By process: from its first call of the steps until its first one of a later step, which is never
// where there is none.
std::map<uint32_t, std::pair<int64_t, int64_t>> times_of(const trace::Run& run,
                                                         const slow::Timeline& timeline,
                                                         uint32_t first, uint32_t last) {
  std::map<uint32_t, std::pair<int64_t, int64_t>> times;
  for (const slow::Gpu& gpu : timeline.gpus) {
    std::pair<int64_t, int64_t> of_gpu(INT64_MAX, INT64_MAX);
    for (uint32_t at = gpu.begin; at < gpu.end; ++at) {
      const slow::Unit& unit = timeline.units[at];
      if (unit.step == slow::kNone || unit.step < first) continue;
      int64_t& bound_ns = unit.step > last ? of_gpu.second : of_gpu.first;
      bound_ns = std::min(bound_ns, run.processes[gpu.process].ops[unit.op].called_ns);
    }
    if (of_gpu.first < INT64_MAX) times[gpu.process] = of_gpu;
  }
  return times;
}

}  // namespace

bool PerfettoRun::read(const PerfettoChoice& choice, std::string& error) {
  around_ = choice.around;
  has_steps_ = !choice.steps.empty();
  // Steps are found in all calls.
  reads_again_ = choice.window == 0 && !has_steps_;
  const uint64_t held = reads_again_ ? kRecordsInMemory : 0;
  std::optional<trace::Run> run = read_run(choice.paths, choice.window, error, held);
  if (!run) return false;
  run_ = std::move(*run);
  // The parts of a process that drives several GPUs are made of all of its calls.
  if (analysis::take_apart(run_)) {
    run = read_run(choice.paths, choice.window, error);
    if (!run) return false;
    run_ = std::move(*run);
  }
  forget_skipping(run_);
  const Progress progress("comparing the ranks");
  report_ = analysis::analyse(run_);
  if (std::optional<analysis::Parts> parts = analysis::take_apart(run_)) {
    run_ = std::move(parts->run);
  }
  comm_ = report::comm_concerned(report_);
  if (around_ && !comm_) {
    error = "--around needs a communicator, and none is on file; leave it out";
    return false;
  }
  if (has_steps_ && !choose_steps(choice.steps, error)) return false;
  return choose(choice, error);
}

bool PerfettoRun::choose_steps(const std::string& text, std::string& error) {
  const auto range = read_steps(text);
  if (!range) {
    error =
        fmt::format("--steps takes a range of steps, as 100-200; \"{}\" is something else", text);
    return false;
  }
  slow::Timeline timeline = slow::make_timeline(run_);
  const slow::Steps steps = slow::find_steps(timeline);
  if (steps.count == 0) {
    error = fmt::format("--steps: there are no steps: {}", steps.why_not);
    return false;
  }
  if (range->first >= steps.count) {
    error = fmt::format("--steps: there are {} steps, which are counted from 0", steps.count);
    return false;
  }
  times_ = times_of(run_, timeline, range->first, range->second);
  for (const auto& [process, times] : times_) {
    times_of_any_.first = std::min(times_of_any_.first, times.first);
    times_of_any_.second = std::max(times_of_any_.second, times.second);
  }
  return true;
}

bool PerfettoRun::choose(const PerfettoChoice& choice, std::string& error) {
  report::add_verdict(run_, report_, options_);
  std::vector<uint32_t> all;
  for (uint32_t at = 0; at < run_.processes.size(); ++at) {
    if (!run_.processes[at].superseded) all.push_back(at);
  }
  ranks_in_all_ = all.size();
  options_.read_whole = [this](uint32_t at) { return whole(at); };
  if (choice.ranks.empty()) {
    options_.processes = report::ranks_that_matter(run_, report_);
    return true;
  }
  if (choice.ranks == "all") {
    options_.processes = std::move(all);
    return true;
  }
  const std::optional<std::vector<int32_t>> ranks = read_ranks(choice.ranks);
  if (!ranks) {
    error = fmt::format("--ranks: \"{}\" is no list of ranks; write 0-3,17 or all", choice.ranks);
    return false;
  }
  const std::vector<int32_t> labels = report::process_labels(run_);
  std::unordered_map<int32_t, uint32_t> places;
  for (const uint32_t at : all) places.emplace(labels[at], at);
  std::vector<uint32_t> chosen;
  for (const int32_t rank : *ranks) {
    const auto found = places.find(rank);
    if (found == places.end()) {
      error = fmt::format("--ranks: there is no file of rank {}; `rollcall info` lists the ranks",
                          rank);
      return false;
    }
    chosen.push_back(found->second);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  options_.processes = std::move(chosen);
  return true;
}

void PerfettoRun::write_also(const std::vector<uint32_t>& processes) {
  std::vector<uint32_t>& chosen = *options_.processes;
  chosen.insert(chosen.end(), processes.begin(), processes.end());
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
}

std::optional<trace::Process> PerfettoRun::whole(uint32_t at) const {
  const trace::Process& known = run_.processes[at];
  std::optional<trace::Process> process;
  if (reads_again_) process = read_skipped(known, run_.read_at_ns);
  if (!around_ && !has_steps_) return process;
  if (!process) process = known;
  if (around_) report::keep_around(*process, *comm_, *around_);
  if (has_steps_) {
    const auto found = times_.find(at);
    const auto [from_ns, until_ns] = found == times_.end() ? times_of_any_ : found->second;
    report::keep_between(*process, from_ns, until_ns);
  }
  return process;
}

uint64_t PerfettoRun::write(const std::function<bool(const std::string&)>& sink) const {
  return report::perfetto_trace(run_, options_, sink);
}

}  // namespace rollcall::tools
