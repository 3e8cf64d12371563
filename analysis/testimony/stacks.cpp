#include "analysis/testimony/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "analysis/testimony/parts.h"
#include "trace/stacks.h"

namespace rollcall::analysis {
namespace {

using trace::JobLog;
using trace::Saying;

// Processes that stand in one place.
struct Place {
  const JobLog* log = nullptr;
  const Saying* saying = nullptr;  // of one of them
  std::vector<int32_t> ranks;
  std::vector<std::string> files;  // of those whose names tell no rank
};

bool is_in_collective(std::string_view place) {
  constexpr std::string_view kFrames[] = {"distributed_c10d.py",
                                          "c10d_logger.py",
                                          "(nccl",
                                          "ncclAll",
                                          "ncclBroadcast",
                                          "ncclReduce",
                                          "ProcessGroupNCCL",
                                          "cudaStreamSynchronize",
                                          "cuStreamSynchronize",
                                          "pynccl"};
  return std::any_of(std::begin(kFrames), std::end(kFrames), [&](std::string_view frame) {
    return place.find(frame) != std::string_view::npos;
  });
}

std::vector<Place> places_of(const trace::Run& run) {
  std::vector<Place> places;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (!trace::is_stack(saying)) continue;
      auto known = std::find_if(places.begin(), places.end(), [&](const Place& place) {
        return place.saying->text == saying.text;
      });
      if (known == places.end()) {
        known = places.insert(places.end(), Place{&log, &saying, {}, {}});
      }
      if (saying.rank >= 0) {
        known->ranks.push_back(saying.rank);
      } else {
        known->files.push_back(saying.writer);
      }
    }
  }
  for (Place& place : places) std::sort(place.ranks.begin(), place.ranks.end());
  return places;
}

std::string who(const Place& place) {
  std::string text = place.ranks.empty() ? std::string() : ranks_text(place.ranks);
  for (const std::string& file : place.files) text += (text.empty() ? "" : ", ") + file;
  return text;
}

// The innermost frame and the outermost one that the dump shows: all stand in the evidence.
std::string ends_of(std::string_view stack) {
  constexpr std::string_view kBetween = " < ";
  const size_t first = stack.find(kBetween);
  const size_t last = stack.rfind(kBetween);
  if (first == last) return std::string(stack);
  return fmt::format("{} < …{}", stack.substr(0, first), stack.substr(last));
}

size_t size_of(const Place& place) { return place.ranks.size() + place.files.size(); }

}  // namespace

std::optional<Finding> judge_stacks(const trace::Run& run, size_t least) {
  std::vector<Place> places = places_of(run);
  size_t processes = 0;
  for (const Place& place : places) processes += size_of(place);
  if (processes < least) return {};
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return size_of(a) > size_of(b); });
  size_t waiting = 0;
  for (const Place& place : places) {
    if (is_in_collective(place.saying->text)) waiting += size_of(place);
  }
  const bool has_odd = waiting * 2 > processes && waiting < processes;
  Finding finding =
      make_finding(has_odd ? Verdict::missing_call : Verdict::insufficient, Confidence::open);
  constexpr size_t kShown = 4;
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    const bool is_waiting = is_in_collective(place.saying->text);
    if (has_odd && !is_waiting) {
      for (const int32_t rank : place.ranks) {
        finding.culprits.push_back(culprit_named(rank, Saying{}));
      }
    } else if (has_odd) {
      finding.victims.insert(finding.victims.end(), place.ranks.begin(), place.ranks.end());
    }
    add_evidence(*place.log, *place.saying, finding);
    if (i >= kShown) continue;
    finding.summary +=
        fmt::format("{}{} {} in {}", i == 0 ? "" : "; ", who(place),
                    size_of(place) == 1 ? "stands" : "stand", ends_of(place.saying->text));
  }
  if (places.size() > kShown) finding.summary += "; others elsewhere";
  std::sort(finding.victims.begin(), finding.victims.end());
  finding.next = has_odd
                     ? "look at what keeps that process there; a second dump shows whether it moves"
                 : processes == 1
                     ? "take dumps of all processes of the job: where one stands tells whether it "
                       "waits for others, and not for whom"
                     : "the logs and dumps of the same job tell which calls these are";
  return finding;
}

void tell_of_stack(const trace::Run& run, Finding& finding) {
  for (const JobLog& log : run.logs) {
    const bool is_inside = trace::is_of_stacks(log) && log.sayings.size() == 1 &&
                           std::any_of(run.logs.begin(), run.logs.end(), [&](const JobLog& other) {
                             return &other != &log && other.file == log.file;
                           });
    if (!is_inside) continue;
    const Saying& stands = log.sayings.front();
    finding.summary +=
        fmt::format("; by a dump of py-spy in the log the main thread of {} stood in {}",
                    stands.writer, ends_of(stands.text));
    add_evidence(log, stands, finding);
  }
}

}  // namespace rollcall::analysis
