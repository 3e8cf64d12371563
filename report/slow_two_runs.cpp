#include "report/slow_two_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/json_terms.h"
#include "report/slow_efficiency.h"
#include "report/slow_terms.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using slow::Difference;
using slow::Part;
using slow::PlaceChange;
using slow::RunSteps;
using slow::TwoRuns;

constexpr size_t kValueMax = 120;

std::string settings_text(const TwoRunsReport& report) {
  if (report.settings.empty()) return fmt::format("{}\n", kSameSettings);
  std::string text = "what else differs\n";
  for (const comparison::SettingDifference& one : report.settings) {
    text += fmt::format("  {}: {} -> {}\n", printable(one.name),
                        setting_value(one.name, one.before), setting_value(one.name, one.after));
  }
  return text;
}

std::string_view name_of(Part part) {
  switch (part) {
    case Part::host:
      return "host";
    case Part::gpu:
      return "gpu";
    case Part::launch:
      return "launch";
    case Part::transfer:
      return "transfer";
    case Part::added:
      return "added";
    case Part::removed:
      return "removed";
  }
  return "";
}

std::string_view part_in_words(Part part) {
  switch (part) {
    case Part::host:
      return "what processes do before they call NCCL";
    case Part::gpu:
      return "what GPUs do besides NCCL";
    case Part::launch:
      return "calls of NCCL, with the GPU waiting for its host";
    case Part::transfer:
      return "transfers, when everybody had come";
    case Part::added:
      return "calls that the old step has not";
    case Part::removed:
      return "calls that the new step has not";
  }
  return "";
}

std::string place_text(const Difference& difference, const PlaceChange& place) {
  const std::string comm =
      place.place.comm.empty() ? std::string() : " on " + printable(place.place.comm);
  const std::string call =
      fmt::format("call {} of a step, {}{}", place.call, call_in_words(place.place.op), comm);
  switch (difference.part) {
    case Part::added:
      return fmt::format("{}: {}", call, span_text(place.after_ns));
    case Part::removed:
      return fmt::format("{}: {} before", call, span_text(place.before_ns));
    case Part::transfer:
      return fmt::format("{}: {} -> {}", call, span_text(place.before_ns),
                         span_text(place.after_ns));
    default:
      return fmt::format("in front of {}: {} -> {}", call, span_text(place.before_ns),
                         span_text(place.after_ns));
  }
}

std::string difference_text(const Difference& difference) {
  const DifferenceWords words = words_of(difference);
  std::string text =
      fmt::format("  {:>8}  ({})  {}, of {}\n", words.share, words.span, words.part, words.ranks);
  for (const std::string& place : words.places) text += fmt::format("    {}\n", place);
  return text;
}

std::string parts_text(const TwoRuns& answer) {
  std::string text = fmt::format(
      "\nwhat makes the steps longer or shorter, in per cent of an old step\n({})\n", kListedParts);
  for (const Difference& difference : answer.differences) text += difference_text(difference);
  if (answer.differences.empty()) text += fmt::format("  {}\n", kNoPart);
  if (answer.sizes_differ) text += fmt::format("  {}\n", kOtherSizes);
  return text;
}

Json places_json(const Difference& difference) {
  Json list = Json::array();
  for (const PlaceChange& place : difference.places) {
    const bool is_added = difference.part == Part::added;
    const bool is_removed = difference.part == Part::removed;
    list.push_back({{"call_of_step", place.call},
                    {"call", call_in_words(place.place.op)},
                    {"comm_name", text_or_null(place.place.comm)},
                    {"before_ns", known_or_null(place.before_ns, !is_added)},
                    {"after_ns", known_or_null(place.after_ns, !is_removed)}});
  }
  return list;
}

Json differences_json(const TwoRuns& answer) {
  Json list = Json::array();
  for (const Difference& difference : answer.differences) {
    list.push_back({{"part", name_of(difference.part)},
                    {"ranks", rank_list(difference.ranks)},
                    {"of_all_ranks", difference.is_of_all},
                    {"share", difference.share},
                    {"span_ns", difference.saved_ns},
                    {"floor_share", difference.floor},
                    {"places", places_json(difference)}});
  }
  return list;
}

Json steps_json(const RunSteps& steps) {
  const bool is_known = steps.step_ns > 0;
  return {{"found", steps.found},
          {"compared", steps.compared},
          {"calls", steps.calls},
          {"gpus", known_or_null(steps.gpus, steps.gpus != 0)},
          {"median_ns", known_or_null(steps.step_ns, is_known)},
          {"error_ns", known_or_null(steps.error_ns, is_known)},
          {"variation_share", known_or_null(steps.variation, is_known)}};
}

}  // namespace

std::string setting_value(const std::string& name, const std::string& value) {
  if (value.empty()) return "(not set)";
  std::string text = printable(value);
  if (name == "nccl_version") text = printable(nccl_version(value));
  if (name.starts_with("cuda_") && name.ends_with("_version")) {
    text = printable(cuda_version(value));
  }
  if (text.empty()) text = printable(value);
  if (text.size() <= kValueMax) return text;
  size_t end = kValueMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

DifferenceWords words_of(const Difference& difference) {
  DifferenceWords words{
      .share = signed_percent(difference.share),
      .span = fmt::format("{:+.2f} ms", difference.saved_ns / 1e6),
      .part = std::string(part_in_words(difference.part)),
      .ranks = difference.is_of_all ? std::string("all ranks") : ranks_in_words(difference.ranks),
      .places = {}};
  if (difference.part == Part::launch) {
    words.places.push_back(fmt::format("calls of NCCL take a host {} -> {} of a step",
                                       span_text(difference.calls_before_ns),
                                       span_text(difference.calls_after_ns)));
  }
  for (const PlaceChange& place : difference.places) {
    words.places.push_back(place_text(difference, place));
  }
  return words;
}

std::string steps_of_two_runs(const TwoRuns& answer) {
  const double change = answer.after.step_ns / answer.before.step_ns - 1;
  std::string text;
  if (!answer.steps_differ) {
    text = fmt::format("The steps do not differ by more than they vary: {} -> {} ({}).\n",
                       span_text(answer.before.step_ns), span_text(answer.after.step_ns),
                       signed_percent(change));
  } else {
    text = fmt::format("The steps take {} {}: {} -> {}.\n", percent(std::fabs(change)),
                       change > 0 ? "longer" : "less", span_text(answer.before.step_ns),
                       span_text(answer.after.step_ns));
  }
  return text +
         fmt::format(
             "  {} of {} steps were compared with {} of {}; they vary by ±{} and ±{}.\n"
             "  A change of {} would have been reported 9 times out of 10; one below {} never.\n",
             answer.before.compared, answer.before.found, answer.after.compared, answer.after.found,
             percent(answer.before.variation), percent(answer.after.variation),
             percent(answer.smallest), percent(answer.floor));
}

std::string two_runs_text(const TwoRunsReport& report) {
  const TwoRuns& answer = report.answer;
  std::string text =
      fmt::format("old: {}\nnew: {}\n\n", printable(report.before), printable(report.after));
  text += settings_text(report) + "\n";
  if (!answer.is_compared) text += "The steps of the two runs cannot be compared.\n";
  if (answer.is_compared) text += steps_of_two_runs(answer);
  for (const std::string& reason : answer.why_not) text += "  " + reason + ".\n";
  text += scaling_text(answer, report.workload);
  if (answer.has_parts) text += parts_text(answer);
  return text;
}

std::string against_json(const TwoRunsReport& report) {
  const TwoRuns& answer = report.answer;
  Json settings = Json::array();
  for (const comparison::SettingDifference& one : report.settings) {
    settings.push_back({{"name", valid_utf8(one.name)},
                        {"before", text_or_null(one.before)},
                        {"after", text_or_null(one.after)}});
  }
  const double change = answer.is_compared ? answer.after.step_ns / answer.before.step_ns - 1 : 0;
  const Json json = {{"dir", valid_utf8(report.before)},
                     {"settings", settings},
                     {"compared", answer.is_compared},
                     {"before", steps_json(answer.before)},
                     {"after", steps_json(answer.after)},
                     {"step_change_share", known_or_null(change, answer.is_compared)},
                     {"steps_differ", answer.steps_differ},
                     {"floor_share", known_or_null(answer.floor, answer.is_compared)},
                     {"smallest_change_share", known_or_null(answer.smallest, answer.is_compared)},
                     {"other_ranks", answer.is_other_size},
                     {"scaling", Json::parse(scaling_json(answer, report.workload))},
                     {"parts_compared", answer.has_parts},
                     {"sizes_differ", answer.sizes_differ},
                     {"differences", differences_json(answer)},
                     {"why_not", answer.why_not}};
  return json.dump();
}

std::string two_runs_json(const std::string& of_new_run, const TwoRunsReport& report) {
  Json json = Json::parse(of_new_run);
  json["against"] = Json::parse(against_json(report));
  return json.dump(2) + "\n";
}

}  // namespace rollcall::report
