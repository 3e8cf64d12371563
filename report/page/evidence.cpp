#include "report/page/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
#include <set>

#include "analysis/facts.h"
#include "report/lines.h"
#include "report/page/document.h"
#include "report/page/markup.h"
#include "report/page/wait_states.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using trace::Process;

constexpr size_t kGroupsShown = 8;

// Sentences about processes that have something in common.
class Sentences {
 public:
  explicit Sentences(const trace::Run& run) : run_(run), labels_(process_labels(run)) {
    for (size_t at = 0; at < run.processes.size(); ++at) {
      if (!run.processes[at].superseded) asked_.push_back(at);
    }
  }

  // The text with the ranks in the place of its {}, `many` of several; nothing where it holds for
  // none.
  void say(const std::function<bool(const Process&)>& holds, const char* one, const char* many) {
    const std::vector<int32_t> ranks = ranks_of(holds);
    if (!ranks.empty()) add(fmt::format(fmt::runtime(ranks.size() == 1 ? one : many), who(ranks)));
  }
  void say(const std::function<bool(const Process&)>& holds, const char* text) {
    say(holds, text, text);
  }

  // The same with a sum over these processes in the first {}, `many` of a sum above 1. The GPUs of
  // one process have what was counted of it each.
  void count(const std::function<uint64_t(const Process&)>& number, const char* one,
             const char* many) {
    uint64_t sum = 0;
    for (const size_t at : asked_) {
      if (run_.processes[at].is_first_part) sum += number(run_.processes[at]);
    }
    const auto ranks = ranks_of([&](const Process& process) { return number(process) > 0; });
    if (ranks.empty()) return;
    add(fmt::format(fmt::runtime(sum == 1 ? one : many), grouped(sum), who(ranks)));
  }

  void add(std::string line) {
    line.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(line.front())));
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::vector<int32_t> ranks_of(const std::function<bool(const Process&)>& holds) const {
    std::vector<int32_t> ranks;
    for (const size_t at : asked_) {
      if (holds(run_.processes[at])) ranks.push_back(labels_[at]);
    }
    return ranks;
  }

  std::string who(const std::vector<int32_t>& ranks) const {
    return ranks.size() == asked_.size() && ranks.size() > 1 ? "all ranks" : ranks_in_words(ranks);
  }

  const trace::Run& run_;
  const std::vector<int32_t> labels_;
  std::vector<size_t> asked_;
  std::vector<std::string> lines_;
};

void say_strangers(const analysis::Index& index, Sentences& sentences) {
  size_t count = 0;
  for (const analysis::Group& group : index.groups()) {
    if (!group.has_strangers() || ++count > kGroupsShown) continue;
    const std::vector<int32_t> ranks = analysis::ranks_without_member(group);
    sentences.add(fmt::format("There is no file of {} of {}, by {} there: nothing is known of {}.",
                              ranks_in_words(ranks), group.name,
                              ranks.size() == 1 ? "its number" : "their numbers",
                              ranks.size() == 1 ? "it" : "them"));
  }
  if (count > kGroupsShown) {
    const size_t more = count - kGroupsShown;
    sentences.add(fmt::format("{} more {} ranks without a file.", grouped(more),
                              more == 1 ? "communicator has" : "communicators have"));
  }
}

void say_lost_records(Sentences& sentences) {
  const auto lost = [](const Process& process) {
    return process.lost > trace::kUnspentMax ? process.lost : 0;
  };
  constexpr const char* kLost = "About {} calls of {} are on no file.";
  sentences.count(lost, kLost, kLost);
  // Where calls were left on disk, the older ones may be there, too.
  sentences.say(
      [](const Process& process) {
        return !process.is_foreign() && process.first_complete_ticket > 1 && process.skipped == 0;
      },
      "The oldest calls of {} are no longer on file.");
  sentences.count([](const Process& process) { return process.skipped; },
                  "{} call of {} is on disk and was not read, for all ranks made it alike or it is "
                  "old: --held and --window read more.",
                  "{} calls of {} are on disk and were not read, for all ranks made them alike or "
                  "they are old: --held and --window read more.");
  sentences.count([](const Process& process) { return process.torn; },
                  "{} record of {} was being written when the process ended.",
                  "{} records of {} were being written when their process ended.");
  sentences.count([](const Process& process) { return process.damaged; },
                  "{} record of {} holds what no recorder writes, and was left out.",
                  "{} records of {} hold what no recorder writes, and were left out.");
  sentences.say([](const Process& process) { return process.capture_off; },
                "The recorder of {} switched itself off.",
                "The recorders of {} switched themselves off.");
  sentences.say([](const Process& process) { return process.capture_paused; },
                "The recorder of {} was paused by `rollcall ctl pause` when it last looked.",
                "The recorders of {} were paused by `rollcall ctl pause` when they last looked.");
}

// What the files of other recorders do not tell.
void say_other_recorders(Sentences& sentences) {
  const auto lacks = [&](bool trace::Knowledge::*known, const char* text) {
    sentences.say([known](const Process& process) { return !(process.knowledge.*known); }, text);
  };
  lacks(&trace::Knowledge::head, "Calls of {} before the first one on file were not recorded.");
  lacks(&trace::Knowledge::tail,
        "{} may have made more calls than the last one on file: a call that is missing there is "
        "not taken for one that was never made.");
  lacks(&trace::Knowledge::small_calls, "Some kinds of calls of {} are left out of the file.");
  lacks(&trace::Knowledge::groups, "Which calls of {} were issued in one group is not on file.");
  lacks(&trace::Knowledge::calls_in_order,
        "The order of calls of different kinds of {} is not on file.");
  lacks(&trace::Knowledge::returns, "Whether a call of {} has returned is not on file.");
  lacks(&trace::Knowledge::losses_show, "A record of {} that was lost would not be missed.");
}

void say_what_was_not_recorded(const trace::Run& run, Sentences& sentences) {
  const auto has_calls = [](const Process& process) { return !process.ops.empty(); };
  sentences.say(
      [&](const Process& process) { return has_calls(process) && !has_gpu_times(process); },
      "The calls of {} have no GPU time: neither waits nor bandwidth are known of them.");
  sentences.say(
      [&](const Process& process) {
        return has_calls(process) &&
               std::none_of(process.ops.begin(), process.ops.end(),
                            [](const trace::Op& op) { return op.frames != 0; });
      },
      "The calls of {} have no line of the script.");
  uint64_t replays = 0;
  for (const Process& process : run.processes) {
    for (const trace::Graph& graph : process.graphs) {
      if (!process.superseded) replays += graph.launches;
    }
  }
  if (replays > 0) {
    sentences.add(fmt::format("What {} {} did is recorded once, where it was captured.",
                              grouped(replays),
                              replays == 1 ? "replay of a CUDA graph" : "replays of CUDA graphs"));
  }
  const auto older =
      static_cast<size_t>(std::count_if(run.processes.begin(), run.processes.end(),
                                        [](const Process& process) { return process.superseded; }));
  if (older > 0) {
    sentences.add(
        fmt::format("{} of an older run or attempt {} in the directory, and {} not "
                    "looked at.",
                    older == 1 ? "A process" : grouped(older) + " processes",
                    older == 1 ? "is" : "are", older == 1 ? "was" : "were"));
  }
}

// Of several hosts those whose clocks nothing holds against the others.
void say_unbounded_clocks(const trace::Run& run, Sentences& sentences) {
  std::set<std::string> hosts;
  std::set<std::string> unbounded;
  for (const Process& process : run.processes) {
    if (process.superseded) continue;
    hosts.insert(process.host);
    if (process.clock_bound_ns < 0) unbounded.insert(process.host);
  }
  if (hosts.size() < 2 || unbounded.empty()) return;
  std::string names;
  size_t count = 0;
  for (const std::string& host : unbounded) {
    if (++count > kGroupsShown) break;
    names += (count == 1 ? "" : ", ") + shown(host);
  }
  if (unbounded.size() > kGroupsShown) {
    names += fmt::format(" and {} more", grouped(unbounded.size() - kGroupsShown));
  }
  sentences.add(fmt::format("How far the clocks of these hosts are off is not known: {}.", names));
}

std::string clock_text(const Process& process) {
  if (process.clock_doubt_ns > 0) {
    return fmt::format("moved, {}", duration(process.clock_doubt_ns));
  }
  return process.clock_bound_ns < 0 ? "-" : duration(process.clock_bound_ns);
}

// Processes in the order of the run; of more than there is room for those in trouble first.
std::vector<size_t> processes_to_show(const trace::Run& run) {
  std::vector<size_t> order(run.processes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.size() <= kPageRowsMax) return order;
  const auto wellness = [&](size_t at) {
    const Process& process = run.processes[at];
    if (process.superseded) return 3;
    if (process.liveness == trace::Liveness::dead) return 0;
    if (process.liveness == trace::Liveness::stopped) return 0;
    return process.lost > trace::kUnspentMax ? 1 : 2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return wellness(a) < wellness(b); });
  return order;
}

// By process: of those that drive several GPUs the numbers are no ranks of the report.
std::string files_html(const trace::Run& run, bool has_parts) {
  std::vector<std::string> head{has_parts ? "process" : "rank",
                                "host",
                                "pid",
                                "state",
                                "last sign of life",
                                "recorded",
                                "on file",
                                "lost"};
  const bool has_clocks =
      std::any_of(run.processes.begin(), run.processes.end(), [](const Process& process) {
        return process.clock_bound_ns >= 0 || process.clock_doubt_ns > 0;
      });
  if (has_clocks) head.emplace_back("clock within");
  HtmlTable table(head, kPageRowsMax);
  const std::vector<int32_t> labels = process_labels(run);
  for (const size_t at : processes_to_show(run)) {
    const Process& process = run.processes[at];
    std::string state(trace::name_of(process.liveness));
    if (process.superseded) state += ", of an older attempt";
    std::vector<std::string> cells{fmt::format("{}", labels[at]),
                                   process.host,
                                   fmt::format("{}", process.pid),
                                   state,
                                   utc_time(std::max(process.heartbeat_ns, process.written_ns)),
                                   grouped(process.calls_recorded()),
                                   grouped(process.ops.size()),
                                   grouped(process.lost)};
    if (has_clocks) cells.push_back(clock_text(process));
    table.add(cells);
  }
  std::string html = table.empty() ? "" : "<h3>Who has records</h3>\n" + table.html();
  std::vector<std::string> lines;
  for (const SharedIssue& issue : shared_issues(run, false)) lines.push_back(issue_line(issue));
  if (lines.empty()) return html;
  html +=
      fmt::format("<h3>About the files</h3>\n<ul>\n{}</ul>\n", list_items(lines, 0, kPageRowsMax));
  if (lines.size() > kPageRowsMax) {
    html += paragraph(fmt::format("and {} more", lines.size() - kPageRowsMax), "quiet");
  }
  return html;
}

}  // namespace

std::vector<std::string> not_seen(const trace::Run& run, const analysis::Index& index) {
  Sentences sentences(index.run());
  say_strangers(index, sentences);
  say_lost_records(sentences);
  say_other_recorders(sentences);
  say_what_was_not_recorded(run, sentences);
  say_unbounded_clocks(run, sentences);
  sentences.add(
      "Only calls of NCCL are recorded: not what a rank does between two of them, nor what goes "
      "through other libraries.");
  return sentences.take();
}

std::string evidence_html(const trace::Run& run, const analysis::Index& index) {
  const bool has_parts = index.run().processes.size() != run.processes.size();
  const std::string files = files_html(run, has_parts);
  if (files.empty()) return "";
  const std::vector<std::string> lines = not_seen(run, index);
  return fmt::format("<h3>What was not seen</h3>\n<ul>\n{}</ul>\n",
                     list_items(lines, 0, kPageRowsMax)) +
         files;
}

}  // namespace rollcall::report
