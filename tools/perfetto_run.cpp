#include "tools/perfetto_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "analysis/analysis.h"
#include "analysis/views/by_gpu.h"
#include "core/base/text.h"
#include "report/perfetto/choice.h"
#include "report/terms.h"
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

}  // namespace

bool PerfettoRun::read(const PerfettoChoice& choice, std::string& error) {
  around_ = choice.around;
  reads_again_ = choice.window == 0;
  const uint64_t held = choice.window == 0 ? kRecordsInMemory : 0;
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
  return choose(choice, error);
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
  if (!around_) return process;
  if (!process) process = known;
  report::keep_around(*process, *comm_, *around_);
  return process;
}

uint64_t PerfettoRun::write(const std::function<bool(const std::string&)>& sink) const {
  return report::perfetto_trace(run_, options_, sink);
}

}  // namespace rollcall::tools
