#include "report/slow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "report/json_terms.h"
#include "report/slow_efficiency.h"
#include "report/slow_terms.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using slow::Answer;
using slow::CommRow;
using slow::GpuRow;
using slow::Place;
using slow::Question;

constexpr size_t kRankRowsMax = 16;
constexpr size_t kCommsMax = 4;

std::string comm_name(const std::string& name, const CommKey& key) {
  return printable(name.empty() ? key_hex(key) : name);
}

std::string who(const trace::Run& run, const Answer& answer, const std::vector<uint32_t>& gpus) {
  std::string text;
  for (const uint32_t gpu : gpus) {
    const GpuRow& row = answer.gpus[gpu];
    const trace::Process& process = run.processes[row.process];
    if (!text.empty()) text += " and ";
    text += fmt::format("rank {} ({}, pid {})", row.rank, printable(process.host), process.pid);
  }
  return text;
}

std::string place_text(const Place& place) {
  const std::string comm = place.comm.empty() ? std::string() : " on " + printable(place.comm);
  return fmt::format("{}{}: {} more than its peers", call_in_words(place.op), comm,
                     span_text(place.lost_ns));
}

std::string straggler_text(const trace::Run& run, const Answer& answer,
                           const slow::Finding& finding) {
  const bool several = finding.gpus.size() > 1;
  const GpuRow& first = answer.gpus[finding.gpus.front()];
  std::string text = fmt::format(
      "{} ({}): {} {} longer than {} peers by {}, and the steps wait for {}.\n\n",
      analysis::code_of(finding.verdict), analysis::name_of(finding.confidence),
      who(run, answer, finding.gpus), several ? "take" : "takes", several ? "their" : "its",
      several ? "themselves" : "itself", several ? "them" : "it");
  text +=
      fmt::format("  The steps would be {} shorter ({} of {}) with {} as fast as a median peer.\n",
                  percent(finding.recovered), span_text(finding.recovered_ns),
                  span_text(answer.step_ns), several ? "them" : "it");
  text += fmt::format(
      "  In {:.0f} % of the steps rank {} took longer, by {} in the median; it has {} {}.\n",
      100 * finding.positive, first.rank, span_text(finding.excess_ns), first.peers,
      first.peers == 1 ? "peer" : "peers");
  if (finding.verdict == analysis::Verdict::slow_launch) {
    text += fmt::format(
        "  The GPU waited for its host, whose calls of NCCL take {:.1f} times as long as its "
        "peers':\n"
        "  look at what shares its cores, at their clocks, and at what the process is bound to.\n",
        finding.call_ratio);
    return text;
  }
  text +=
      finding.is_host_bound
          ? "  Most of that had passed when its process made the call: look at what the process "
            "does before it, waits for its own GPU included.\n"
          : "  Its process had made the calls before: its GPU was still at its own work.\n";
  for (const Place& place : finding.places) text += "  In front of " + place_text(place) + ".\n";
  return text;
}

std::string_view cause_text(slow::JitterCause cause) {
  switch (cause) {
    case slow::JitterCause::host:
      return "by what processes do before they call NCCL";
    case slow::JitterCause::gpu:
      return "by what GPUs do besides NCCL";
    case slow::JitterCause::transfer:
      return "by transfers, when everybody had come";
  }
  return "";
}

std::string period_text(const slow::Jitter& jitter) {
  if (jitter.period != 0) return fmt::format("  One comes every {} steps.\n", jitter.period);
  if (jitter.period_of_rank != 0) {
    return fmt::format("  Ranks make one every {} steps.\n", jitter.period_of_rank);
  }
  return "  They keep no distance from each other.\n";
}

// Of a rank that is slow in some steps only.
std::string pauses_text(const trace::Run& run, const Answer& answer, const slow::Finding& finding) {
  const auto steps = static_cast<size_t>(std::lround(finding.positive * finding.compared));
  std::string text = fmt::format(
      "{} ({}): {} takes longer by itself in {} of {} steps, and the steps wait for it.\n\n",
      analysis::code_of(finding.verdict), analysis::name_of(finding.confidence),
      who(run, answer, finding.gpus), steps, finding.compared);
  text += fmt::format(
      "  The steps would be {} shorter ({} of {}) in the mean if these were like the median.\n"
      "  Each is longer by {} in the median. {} of {} slow steps are its own.\n",
      percent(finding.recovered), span_text(finding.recovered_ns), span_text(answer.step_ns),
      span_text(finding.excess_ns), steps, finding.jitter.slow_steps);
  text += fmt::format("  {:.0f} % of what it takes longer is lost {}.\n",
                      100 * finding.jitter.cause_share, cause_text(finding.jitter.cause));
  return text + period_text(finding.jitter);
}

std::string makers_text(const Answer& answer, const slow::Jitter& jitter) {
  const int32_t rank = answer.gpus[jitter.most].rank;
  if (jitter.gpus == 1) {
    return fmt::format("  Rank {} made {} of them by itself.\n", rank, jitter.of_one);
  }
  return fmt::format("  {} ranks made {} of them by themselves; rank {} made most, {} of them.\n",
                     jitter.gpus, jitter.of_one, rank, jitter.most_steps);
}

std::string jitter_text(const Answer& answer, const slow::Finding& finding) {
  const slow::Jitter& jitter = finding.jitter;
  std::string text = fmt::format(
      "{} ({}): {} of {} steps are slow, and it is not one rank that makes them so.\n\n",
      analysis::code_of(finding.verdict), analysis::name_of(finding.confidence), jitter.slow_steps,
      finding.compared);
  text += fmt::format(
      "  The steps would be {} shorter ({} of {}) in the mean if these were like the median.\n",
      percent(finding.recovered), span_text(finding.recovered_ns), span_text(answer.step_ns));
  text += fmt::format("  {:.0f} % of that is lost {}.\n", 100 * jitter.cause_share,
                      cause_text(jitter.cause));
  if (jitter.of_many != 0) {
    text += fmt::format("  In {} of them half of the ranks or more took longer at once.\n",
                        jitter.of_many);
  }
  if (jitter.most != slow::kNone) {
    text += makers_text(answer, jitter);
  }
  text += period_text(jitter);
  return text + "  It would be disproved by a longer record in which they are one rank's.\n";
}

std::string limits_text(const Answer& answer, const slow::Finding& finding) {
  std::string text = fmt::format(
      "  Steps {}-{} were compared ({} of {}); less than {} of a step would not have been said.\n",
      finding.first_step, finding.last_step, finding.compared, answer.steps,
      percent(finding.floor));
  if (finding.compared < answer.compared) text += "  In the steps as a whole nobody stands out.\n";
  for (const std::string& doubt : finding.doubts) {
    text += fmt::format("  Not certain, because {}.\n", doubt);
  }
  if (!finding.gpus.empty()) {
    text += "  It would be disproved by peers that take as long in another run of the job.\n";
  }
  return text;
}

std::string transfer_text(const Answer& answer, const slow::Finding& finding) {
  const CommRow& comm = answer.comms[finding.comm];
  std::string text = fmt::format(
      "{} ({}): the transfers on {} ({} ranks) take longer than those of its siblings.\n\n",
      analysis::code_of(finding.verdict), analysis::name_of(finding.confidence),
      comm_name(comm.name, comm.key), comm.nranks);
  text += fmt::format("  The steps would be {} shorter ({} of {}) with it as fast as they are.\n",
                      percent(finding.recovered), span_text(finding.recovered_ns),
                      span_text(answer.step_ns));
  text += fmt::format(
      "  Up to {:.1f} times as long, in {:.0f} % of the calls, when everybody had come.\n"
      "  No rank is named: which of its links is slow these times do not tell.\n",
      finding.ratio, 100 * finding.positive);
  return text;
}

std::string imbalance_text(const Answer& answer, const slow::Finding& finding) {
  std::string text =
      fmt::format("{} ({}): the work is dealt out unevenly; no rank is at fault.\n\n",
                  analysis::code_of(finding.verdict), analysis::name_of(finding.confidence));
  text += fmt::format("  The steps would be {} shorter ({} of {}) if it were even.\n",
                      percent(finding.recovered), span_text(finding.recovered_ns),
                      span_text(answer.step_ns));
  if (finding.role == slow::kNone) {
    text += fmt::format(
        "  Ranks of one role differ by {:.0f} % within a step, and not the same ones in every "
        "step:\n  look at the lengths of their inputs.\n",
        100 * finding.ratio);
    return text;
  }
  std::vector<int32_t> ranks;
  for (const GpuRow& row : answer.gpus) {
    if (row.role == finding.role) ranks.push_back(row.rank);
  }
  text += fmt::format("  The role of {} has {:.2f} times the mean of all roles to do.\n",
                      ranks_in_words(ranks), finding.ratio);
  return text;
}

std::string finding_text(const trace::Run& run, const Answer& answer,
                         const slow::Finding& finding) {
  switch (finding.verdict) {
    case analysis::Verdict::slow_transfer:
      return transfer_text(answer, finding);
    case analysis::Verdict::imbalance:
      return imbalance_text(answer, finding);
    case analysis::Verdict::jitter:
      return jitter_text(answer, finding);
    default:
      if (finding.jitter.slow_steps != 0) return pauses_text(run, answer, finding);
      return straggler_text(run, answer, finding);
  }
}

std::string cause_sentence(const trace::Run& run, const Answer& answer,
                           const slow::Finding& finding) {
  std::string cause;
  switch (finding.verdict) {
    case analysis::Verdict::slow_transfer: {
      const CommRow& comm = answer.comms[finding.comm];
      cause = fmt::format("the slow transfers on {} cost", comm_name(comm.name, comm.key));
      break;
    }
    case analysis::Verdict::imbalance:
      cause = "unevenly dealt work costs";
      break;
    case analysis::Verdict::jitter:
      cause = fmt::format("{} slow steps cost", finding.jitter.slow_steps);
      break;
    default:
      cause = who(run, answer, finding.gpus) + (finding.gpus.size() > 1 ? " cost" : " costs");
  }
  return fmt::format("{} ({}): {} {} of a step", analysis::code_of(finding.verdict),
                     analysis::name_of(finding.confidence), cause, percent(finding.recovered));
}

std::string nobody_text(const Answer& answer) {
  std::string text;
  if (answer.is_compared) {
    text = fmt::format(
        "Nobody is named: the steps vary by ±{} around {}, and nothing above {} of a step is "
        "charged to\none cause. {} of {} steps were compared.\n",
        percent(answer.variation), span_text(answer.step_ns), percent(answer.floor),
        answer.compared, answer.steps);
  } else {
    text = "Nothing can be said of this run.\n";
  }
  for (const std::string& reason : answer.why_not) text += "  " + reason + ".\n";
  return text;
}

bool is_emulated(const trace::Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const trace::Process& process) {
    const auto found = process.meta.find("emulated");
    return found != process.meta.end() && found->second == "1";
  });
}

bool is_asked_for(const Question& question, const GpuRow& row) {
  return question.ranks.empty() ||
         std::find(question.ranks.begin(), question.ranks.end(), row.rank) != question.ranks.end();
}

std::string charges_text(const Answer& answer) {
  std::string text = "\nwhere the time of the steps went\n";
  for (const SlowCharge& charge : slow_charges(answer)) {
    text +=
        fmt::format("  {:<58} {:>8}\n", (charge.is_part ? "    " : "") + charge.what, charge.share);
  }
  return text;
}

// The slowest among their peers first; those that were asked for, or as many as fit on a screen.
std::string ranks_text(const trace::Run& run, const Answer& answer, const Question& question) {
  const std::vector<SlowRankCells> rows = slow_ranks(run, answer, question);
  const size_t shown = question.ranks.empty() ? std::min(rows.size(), kRankRowsMax) : rows.size();
  const auto line = [](const auto& cells) {
    return fmt::format("{:>6}  {:<20} {:>6} {:>6} {:>12} {:>12} {:>7} {:>9}\n", cells[0], cells[1],
                       cells[2], cells[3], cells[4], cells[5], cells[6], cells[7]);
  };
  std::string text = "\n" + line(kSlowRankColumns);
  for (size_t i = 0; i < shown; ++i) text += line(rows[i]);
  if (shown < rows.size()) {
    text += fmt::format("        and {} others; --ranks tells of those that you name\n",
                        rows.size() - shown);
  }
  return text + fmt::format("{}\n", kSlowAccusesNobody);
}

constexpr size_t kShiftsMax = 6;

std::string change_text(const slow::Shift& shift) {
  return fmt::format("{} -> {} ({:+.1f} %)", span_text(shift.before_ns), span_text(shift.after_ns),
                     100 * (shift.after_ns / std::max(shift.before_ns, 1.0) - 1));
}

std::string shift_text(const Answer& answer, const slow::Shift& shift) {
  if (shift.what == slow::ShiftOf::step) {
    return fmt::format("step {:>6}  the steps: {}", shift.step, change_text(shift));
  }
  std::vector<int32_t> ranks;
  for (const GpuRow& row : answer.gpus) {
    if (row.role == shift.role) ranks.push_back(row.rank);
  }
  const bool is_own = shift.what == slow::ShiftOf::own;
  const std::string comm =
      shift.place.comm.empty() ? std::string() : " on " + printable(shift.place.comm);
  return fmt::format("step {:>6}  {} {}{} of {}: {}", shift.step,
                     is_own ? "the work in front of" : "the transfer of",
                     call_in_words(shift.place.op), comm, ranks_in_words(ranks),
                     change_text(shift));
}

std::string shifts_text(const Answer& answer) {
  std::string text = "\nover time\n";
  for (const std::string& line : slow_over_time(answer)) text += fmt::format("  {}\n", line);
  return text;
}

std::string_view name_of(slow::ShiftOf what) {
  switch (what) {
    case slow::ShiftOf::step:
      return "step";
    case slow::ShiftOf::own:
      return "own";
    case slow::ShiftOf::transfer:
      return "transfer";
  }
  return "";
}

Json shifts_json(const Answer& answer) {
  Json list = Json::array();
  for (const slow::Shift& shift : answer.shifts) {
    const bool is_step = shift.what == slow::ShiftOf::step;
    list.push_back({{"of", name_of(shift.what)},
                    {"step", shift.step},
                    {"before_ns", shift.before_ns},
                    {"after_ns", shift.after_ns},
                    {"role", known_or_null(shift.role, !is_step)},
                    {"call", is_step ? Json(nullptr) : Json(call_in_words(shift.place.op))},
                    {"comm_name", text_or_null(shift.place.comm)}});
  }
  return list;
}

Json culprits_json(const trace::Run& run, const Answer& answer, const slow::Finding& finding) {
  Json list = Json::array();
  for (const uint32_t gpu : finding.gpus) {
    const GpuRow& row = answer.gpus[gpu];
    list.push_back({{"rank", known_or_null(row.rank, row.rank >= 0)},
                    {"host", text_or_null(run.processes[row.process].host)},
                    {"pid", run.processes[row.process].pid}});
  }
  return list;
}

std::string_view name_of(slow::JitterCause cause) {
  switch (cause) {
    case slow::JitterCause::host:
      return "host";
    case slow::JitterCause::gpu:
      return "gpu";
    case slow::JitterCause::transfer:
      return "transfer";
  }
  return "";
}

Json jitter_json(const Answer& answer, const slow::Finding& finding) {
  if (finding.jitter.slow_steps == 0) return nullptr;
  const slow::Jitter& jitter = finding.jitter;
  const bool has_most = jitter.most != slow::kNone;
  return {
      {"slow_steps", jitter.slow_steps},
      {"cause", name_of(jitter.cause)},
      {"cause_share", jitter.cause_share},
      {"steps_of_many_ranks", jitter.of_many},
      {"steps_of_one_rank", jitter.of_one},
      {"ranks", jitter.gpus},
      {"most_frequent_rank", has_most ? Json(answer.gpus[jitter.most].rank) : Json(nullptr)},
      {"its_steps", jitter.most_steps},
      {"period_steps", known_or_null(jitter.period, jitter.period != 0)},
      {"period_of_rank_steps", known_or_null(jitter.period_of_rank, jitter.period_of_rank != 0)}};
}

Json finding_json(const trace::Run& run, const Answer& answer) {
  if (!answer.finding) return nullptr;
  const slow::Finding& finding = *answer.finding;
  Json places = Json::array();
  for (const Place& place : finding.places) {
    places.push_back({{"call", call_in_words(place.op)},
                      {"comm_name", valid_utf8(place.comm)},
                      {"seq", place.op.seq},
                      {"lost_ns", place.lost_ns}});
  }
  return {{"code", analysis::code_of(finding.verdict)},
          {"confidence", analysis::name_of(finding.confidence)},
          {"culprits", culprits_json(run, answer, finding)},
          {"comm", finding.comm == slow::kNone ? Json(nullptr)
                                               : Json(key_hex(answer.comms[finding.comm].key))},
          {"role", known_or_null(finding.role, finding.role != slow::kNone)},
          {"ratio", known_or_null(finding.ratio, finding.ratio > 0)},
          {"recovered_share", finding.recovered},
          {"recovered_ns", finding.recovered_ns},
          {"floor_share", finding.floor},
          {"positive_share", known_or_null(finding.positive, finding.positive > 0)},
          {"excess_ns", known_or_null(finding.excess_ns, finding.excess_ns > 0)},
          {"bound_by",
           finding.gpus.empty() ? Json(nullptr) : Json(finding.is_host_bound ? "host" : "gpu")},
          {"call_ratio", known_or_null(finding.call_ratio, finding.call_ratio > 0)},
          {"jitter", jitter_json(answer, finding)},
          {"first_step", finding.first_step},
          {"last_step", finding.last_step},
          {"compared", finding.compared},
          {"places", places},
          {"doubts", finding.doubts}};
}

Json ranks_json(const trace::Run& run, const Answer& answer, const Question& question) {
  Json list = Json::array();
  for (size_t gpu = 0; gpu < answer.gpus.size(); ++gpu) {
    const GpuRow& row = answer.gpus[gpu];
    if (!is_asked_for(question, row)) continue;
    const bool has_role = row.role != slow::kNone;
    list.push_back({{"rank", known_or_null(row.rank, row.rank >= 0)},
                    {"host", text_or_null(run.processes[row.process].host)},
                    {"pid", run.processes[row.process].pid},
                    {"role", known_or_null(row.role, has_role)},
                    {"peers", row.peers},
                    {"own_ns", known_or_null(row.own_ns, has_role)},
                    {"excess_ns", known_or_null(row.excess_ns, row.peers != 0)},
                    {"z", known_or_null(row.z, row.peers != 0)},
                    {"charged_share", row.charged},
                    {"launch_share", row.launch},
                    {"busy", Json::parse(busy_json(answer, gpu))}});
  }
  return list;
}

}  // namespace

std::string slow_verdict(const trace::Run& run, const Answer& answer) {
  if (!answer.finding) return nobody_text(answer);
  return finding_text(run, answer, *answer.finding) + limits_text(answer, *answer.finding);
}

std::vector<SlowCharge> slow_charges(const Answer& answer) {
  double own = 0;
  double launch = 0;
  double transfer = 0;
  for (const GpuRow& row : answer.gpus) {
    own += row.charged - row.launch;
    launch += row.launch;
  }
  for (const CommRow& row : answer.comms) transfer += row.charged;
  std::vector<SlowCharge> charges{
      {"work of ranks, on the GPU or in front of it", percent(own), false},
      {"work of hosts, with their GPUs idle", percent(launch), false},
      {"transfers, when everybody had come", percent(transfer), false},
      {"waits for ranks without a record", percent(answer.unrecorded), false},
      {"unexplained", percent(answer.unexplained), false}};
  std::vector<const CommRow*> comms;
  for (const CommRow& row : answer.comms) {
    if (row.charged >= 0.01) comms.push_back(&row);
  }
  std::stable_sort(comms.begin(), comms.end(),
                   [](const CommRow* a, const CommRow* b) { return a->charged > b->charged; });
  if (comms.size() > kCommsMax) comms.resize(kCommsMax);
  for (const CommRow* row : comms) {
    charges.push_back({fmt::format("of the transfers on {} ({} ranks)",
                                   comm_name(row->name, row->key), row->nranks),
                       percent(row->charged), true});
  }
  return charges;
}

std::vector<SlowRankCells> slow_ranks(const trace::Run& run, const Answer& answer,
                                      const Question& question) {
  std::vector<const GpuRow*> rows;
  for (const GpuRow& row : answer.gpus) {
    if (row.role != slow::kNone && is_asked_for(question, row)) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const GpuRow* a, const GpuRow* b) { return a->excess_ns > b->excess_ns; });
  std::vector<SlowRankCells> cells;
  for (const GpuRow* row : rows) {
    cells.push_back({fmt::format("{}", row->rank), printable(run.processes[row->process].host),
                     fmt::format("{}", row->role), fmt::format("{}", row->peers),
                     span_text(row->own_ns),
                     row->peers == 0 ? "-" : fmt::format("{:+.2f} ms", row->excess_ns / 1e6),
                     fmt::format("{:.1f}", row->z), percent(row->charged)});
  }
  return cells;
}

std::vector<std::string> slow_over_time(const Answer& answer) {
  std::vector<std::string> lines;
  const bool has_changed =
      !answer.shifts.empty() && answer.shifts.front().what == slow::ShiftOf::step;
  if (!has_changed) lines.emplace_back("the step time has no lasting change");
  const size_t shown = std::min(answer.shifts.size(), kShiftsMax);
  for (size_t i = 0; i < shown; ++i) lines.push_back(shift_text(answer, answer.shifts[i]));
  if (shown < answer.shifts.size()) {
    lines.push_back(fmt::format("and {} others; `rollcall slow --json` has them",
                                answer.shifts.size() - shown));
  }
  lines.push_back(std::isfinite(answer.smallest_shift)
                      ? fmt::format("a change of the step time by {} in the middle would have been "
                                    "told",
                                    percent(answer.smallest_shift))
                      : std::string("too few steps to see any"));
  return lines;
}

std::string slow_step(const Answer& answer) {
  std::string text = fmt::format("a step of rank {} has {} calls or groups of calls",
                                 answer.gpus.empty() ? 0 : answer.gpus.front().rank, answer.units);
  if (!answer.inner.empty()) {
    text += "; within it periods of ";
    for (size_t i = 0; i < answer.inner.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(answer.inner[i]);
    }
  }
  if (answer.sizes_vary) text += "; their sizes vary";
  if (answer.special != 0) text += fmt::format("; {} special steps were left out", answer.special);
  return text;
}

std::string slow_text(const trace::Run& run, const Answer& answer, const Question& question,
                      const slow::Workload& workload) {
  std::string text = slow_verdict(run, answer);
  if (!answer.is_compared) return text;
  return text + charges_text(answer) + exposed_text(answer) +
         efficiency_text(answer, workload, is_emulated(run)) + ranks_text(run, answer, question) +
         shifts_text(answer) + fmt::format("\n{}\n", slow_step(answer));
}

std::string slow_sentence(const trace::Run& run, const Answer& answer) {
  if (!answer.is_compared) return "";
  const std::string steps =
      fmt::format("{} of {} steps{} were compared: {} in the median, ±{}; ", answer.compared,
                  answer.steps, is_emulated(run) ? " of emulated GPUs" : "",
                  span_text(answer.step_ns), percent(answer.variation));
  if (answer.finding) return steps + cause_sentence(run, answer, *answer.finding);
  return steps +
         fmt::format("nothing above {} of a step is charged to one cause", percent(answer.floor));
}

std::string slow_json(const trace::Run& run, const Answer& answer, const Question& question,
                      const slow::Workload& workload) {
  Json json;
  json["schema"] = "rollcall.slow/1";
  json["dir"] = valid_utf8(run.directory);
  json["issues"] = issues_json(run);
  json["compared"] = answer.is_compared;
  json["finding"] = finding_json(run, answer);
  json["why_not"] = answer.why_not;
  json["sentence"] = text_or_null(slow_sentence(run, answer));
  json["steps"] = {{"found", answer.steps},
                   {"compared", answer.compared},
                   {"special", answer.special},
                   {"first", known_or_null(answer.first_step, answer.compared != 0)},
                   {"last", known_or_null(answer.last_step, answer.compared != 0)},
                   {"calls", answer.units},
                   {"inner_periods", answer.inner},
                   {"sizes_vary", answer.sizes_vary},
                   {"median_ns", known_or_null(answer.step_ns, answer.is_compared)},
                   {"variation_share", known_or_null(answer.variation, answer.is_compared)},
                   {"floor_share", known_or_null(answer.floor, answer.is_compared)}};
  json["changes"] = shifts_json(answer);
  json["smallest_change_share"] = known_or_null(
      answer.smallest_shift, answer.is_compared && std::isfinite(answer.smallest_shift));
  json["unrecorded_share"] = known_or_null(answer.unrecorded, answer.is_compared);
  json["unexplained_share"] = known_or_null(answer.unexplained, answer.is_compared);
  json["exposed_communication"] = Json::parse(exposed_json(answer));
  json["efficiency"] = Json::parse(efficiency_json(answer, workload));
  json["comms"] = Json::array();
  for (const CommRow& row : answer.comms) {
    json["comms"].push_back({{"comm", key_hex(row.key)},
                             {"comm_name", valid_utf8(row.name)},
                             {"nranks", known_or_null(row.nranks, row.nranks > 0)},
                             {"transfer_share", row.charged}});
  }
  json["ranks"] = ranks_json(run, answer, question);
  return json.dump(2) + "\n";
}

}  // namespace rollcall::report
