#include "report/perfetto/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "report/terms.h"

namespace rollcall::report {
namespace {

// Ranks that the analysis made up are on file as job ranks of the parts; a process without a rank
// is known by its place.
class Places {
 public:
  explicit Places(const trace::Run& run) : run_(run) {
    for (uint32_t at = 0; at < run.processes.size(); ++at) {
      const trace::Process& process = run.processes[at];
      if (!process.superseded && process.job_rank >= 0) by_rank_.emplace(process.job_rank, at);
    }
  }
  std::optional<uint32_t> of(int32_t rank, uint32_t process = UINT32_MAX) const {
    const auto found = by_rank_.find(rank);
    if (found != by_rank_.end()) return found->second;
    const bool is_known = process < run_.processes.size() && !run_.processes[process].superseded;
    return is_known && rank < 0 ? std::optional(process) : std::nullopt;
  }

 private:
  const trace::Run& run_;
  std::unordered_map<int32_t, uint32_t> by_rank_;
};

class Choice {
 public:
  Choice(const trace::Run& run, const analysis::Report& report)
      : run_(run), report_(report), places_(run) {}

  std::vector<uint32_t> take() {
    for (const analysis::Finding& finding : report_.findings) {
      for (const analysis::Culprit& culprit : finding.culprits) {
        add(places_.of(culprit.rank, culprit.process));
      }
    }
    for (const analysis::Finding& finding : report_.findings) add_concerned(finding);
    add_classes();
    for (uint32_t at = 0; at < run_.processes.size() && chosen_.size() < kRanksWhole; ++at) {
      if (!run_.processes[at].superseded) add(at);
    }
    return {chosen_.begin(), chosen_.end()};
  }

 private:
  void add(std::optional<uint32_t> process) {
    if (process && chosen_.size() < kRanksMax) chosen_.insert(*process);
  }

  void add_concerned(const analysis::Finding& finding) {
    for (const analysis::Culprit& culprit : finding.culprits) add_peers(culprit);
    for (const analysis::Wait& wait : finding.waits) {
      if (!wait.ranks.empty()) add(places_.of(wait.ranks.front()));
      if (!wait.for_ranks.empty()) add(places_.of(wait.for_ranks.front()));
    }
  }

  void add_peers(const analysis::Culprit& culprit) {
    const auto comm =
        std::find_if(report_.comms.begin(), report_.comms.end(),
                     [&](const analysis::CommSummary& one) { return culprit.comm == one.key; });
    if (comm == report_.comms.end()) return;
    for (const int32_t rank : {culprit.peer, culprit.comm_rank - 1, culprit.comm_rank + 1}) {
      if (rank < 0 || static_cast<size_t>(rank) >= comm->ranks.size()) continue;
      add(places_.of(comm->ranks[static_cast<size_t>(rank)]));
    }
  }

  void add_classes() {
    constexpr size_t kOfEachClass = 2;
    std::map<std::tuple<std::string, std::string, std::string>, size_t> seen;
    for (const analysis::RankRow& row : report_.table) {
      if (seen[{row.last_common, row.here, row.state}]++ < kOfEachClass) {
        add(places_.of(row.rank, row.process));
      }
    }
  }

  const trace::Run& run_;
  const analysis::Report& report_;
  const Places places_;
  std::set<uint32_t> chosen_;
};

}  // namespace

std::vector<uint32_t> ranks_that_matter(const trace::Run& run, const analysis::Report& report) {
  std::vector<uint32_t> all;
  for (uint32_t at = 0; at < run.processes.size(); ++at) {
    if (!run.processes[at].superseded) all.push_back(at);
  }
  return all.size() <= kRanksWhole ? all : Choice(run, report).take();
}

void add_verdict(const trace::Run& run, const analysis::Report& report, PerfettoOptions& options) {
  for (const analysis::CommSummary& comm : report.comms) {
    options.comm_names[{comm.key.high, comm.key.low}] = comm.name;
  }
  const Places places(run);
  for (const analysis::RankRow& row : report.table) {
    const auto place = places.of(row.rank, row.process);
    if (!place) continue;
    options.details[*place] =
        fmt::format("In {}, last common call: {}; here: {}; {} {}", row.comm_name, row.last_common,
                    row.here, row.state, row.since);
  }
  if (report.findings.empty() || !analysis::is_defect(report.findings.front())) return;
  const analysis::Finding& finding = report.findings.front();
  options.verdict = fmt::format("{}: {}", analysis::code_of(finding.verdict), finding.summary);
  for (const analysis::Culprit& culprit : finding.culprits) {
    if (const auto place = places.of(culprit.rank, culprit.process)) {
      options.remarks[*place] = "culprit";
    }
  }
}

std::optional<CommKey> comm_concerned(const analysis::Report& report) {
  for (const analysis::Finding& finding : report.findings) {
    for (const analysis::Culprit& culprit : finding.culprits) {
      if (culprit.comm) return culprit.comm;
    }
  }
  const auto largest =
      std::max_element(report.comms.begin(), report.comms.end(),
                       [](const analysis::CommSummary& one, const analysis::CommSummary& other) {
                         return one.nranks < other.nranks;
                       });
  return largest == report.comms.end() ? std::nullopt : std::optional(largest->key);
}

void keep_around(trace::Process& process, const CommKey& comm, uint64_t seq) {
  const uint64_t first = seq - std::min(seq, kCallsAround);
  const uint64_t last = seq + std::min(UINT64_MAX - seq, kCallsAround);
  int64_t from_ns = INT64_MAX;
  int64_t until_ns = INT64_MAX;  // the first call behind
  for (const trace::Op& op : process.ops) {
    const bool is_counted = is_collective(op.kind) && op.comm < process.comms.size() &&
                            process.comms[op.comm].key == comm && op.called_ns > 0;
    if (!is_counted || op.seq < first) continue;
    (op.seq > last ? until_ns : from_ns) =
        std::min(op.seq > last ? until_ns : from_ns, op.called_ns);
  }
  keep_between(process, from_ns, until_ns);
}

void keep_between(trace::Process& process, int64_t from_ns, int64_t until_ns) {
  const auto is_outside = [&](const auto& one) {
    return one.called_ns < from_ns || one.called_ns >= until_ns;
  };
  std::erase_if(process.ops, is_outside);
  std::erase_if(process.events, is_outside);
}

}  // namespace rollcall::report
