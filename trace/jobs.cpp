#include "trace/jobs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "trace/loader.h"

namespace rollcall::trace {
namespace {

// The launcher's settings that all processes of a job have alike.
constexpr const char* kShared[] = {"env.TORCHELASTIC_RUN_ID", "env.SLURM_JOB_ID",
                                   "env.PMIX_NAMESPACE",      "env.MASTER_ADDR",
                                   "env.MASTER_PORT",         "env.WORLD_SIZE"};
// Those of them that stay the same when the job is started again, and are no other job's.
constexpr size_t kNumbersOfJob = 3;

struct Group {
  std::vector<uint32_t> processes;
  std::set<int32_t> ranks;
  std::string settings[std::size(kShared)];  // "": none
  int64_t first_start_ns = INT64_MAX;
  int64_t last_start_ns = INT64_MIN;
  int64_t last_sign_ns = INT64_MIN;
};

class Union {
 public:
  explicit Union(size_t count) : above_(count) { std::iota(above_.begin(), above_.end(), 0); }
  uint32_t root(uint32_t at) {
    while (above_[at] != at) at = above_[at] = above_[above_[at]];
    return at;
  }
  void join(uint32_t a, uint32_t b) { above_[root(a)] = root(b); }

 private:
  std::vector<uint32_t> above_;
};

bool takes_part(const Process& process) { return !process.is_foreign() && process.run_id == 0; }

void add(const Run& run, uint32_t p, Group& group) {
  const Process& process = run.processes[p];
  group.processes.push_back(p);
  if (process.job_rank >= 0) group.ranks.insert(process.job_rank);
  for (size_t i = 0; i < std::size(kShared); ++i) {
    const auto found = process.meta.find(kShared[i]);
    // torchrun's own word for a job that was given no number.
    const bool tells = found != process.meta.end() && found->second != "none";
    if (tells && group.settings[i].empty()) group.settings[i] = found->second;
  }
  group.first_start_ns = std::min(group.first_start_ns, process.started_ns);
  group.last_start_ns = std::max(group.last_start_ns, process.started_ns);
  group.last_sign_ns =
      std::max({group.last_sign_ns, process.heartbeat_ns, process.exited_ns, process.started_ns});
}

std::vector<Group> groups_by_communicator(const Run& run) {
  Union members(run.processes.size());
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> first_with;
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    if (!takes_part(run.processes[p])) continue;
    for (const Comm& comm : run.processes[p].comms) {
      if (comm.key.is_null()) continue;
      const auto [first, is_new] = first_with.try_emplace({comm.key.high, comm.key.low}, p);
      if (!is_new) members.join(p, first->second);
    }
  }
  std::map<uint32_t, Group> groups;
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    if (takes_part(run.processes[p])) add(run, p, groups[members.root(p)]);
  }
  std::vector<Group> all;
  for (auto& [root, group] : groups) all.push_back(std::move(group));
  return all;
}

bool contradict(const Group& a, const Group& b) {
  for (size_t i = 0; i < std::size(kShared); ++i) {
    const bool both = !a.settings[i].empty() && !b.settings[i].empty();
    if (both && a.settings[i] != b.settings[i]) return true;
  }
  return false;
}

bool have_rank_in_common(const Group& a, const Group& b) {
  return std::any_of(a.ranks.begin(), a.ranks.end(),
                     [&](int32_t rank) { return b.ranks.count(rank) != 0; });
}

int64_t apart_ns(const Group& a, const Group& b) {
  return std::max<int64_t>(
      {0, a.first_start_ns - b.last_start_ns, b.first_start_ns - a.last_start_ns});
}

// The largest first; each other one joins the group that began nearest to it of those it may be
// part of.
std::vector<Group> complete(const Run& run, std::vector<Group> groups) {
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.processes.size() > b.processes.size();
  });
  std::vector<Group> whole;
  for (Group& group : groups) {
    Group* nearest = nullptr;
    for (Group& other : whole) {
      if (contradict(group, other) || have_rank_in_common(group, other)) continue;
      if (!nearest || apart_ns(group, other) < apart_ns(group, *nearest)) nearest = &other;
    }
    if (!nearest) {
      whole.push_back(std::move(group));
      continue;
    }
    for (const uint32_t p : group.processes) add(run, p, *nearest);
  }
  return whole;
}

bool is_attempt_before(const Group& older, const Group& newer) {
  if (older.last_sign_ns >= newer.first_start_ns) return false;
  for (size_t i = 0; i < kNumbersOfJob; ++i) {
    if (!older.settings[i].empty() && older.settings[i] == newer.settings[i]) return true;
  }
  return false;
}

}  // namespace

Jobs jobs_of(const Run& run) {
  std::vector<Group> groups = complete(run, groups_by_communicator(run));
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.last_start_ns > b.last_start_ns;
  });
  Jobs jobs;
  jobs.of.assign(run.processes.size(), kNoJob);
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto begin = groups.begin();
    const bool is_older_attempt =
        std::any_of(begin, begin + static_cast<std::ptrdiff_t>(g),
                    [&](const Group& newer) { return is_attempt_before(groups[g], newer); });
    if (is_older_attempt) continue;
    for (const uint32_t p : groups[g].processes) jobs.of[p] = jobs.count;
    ++jobs.count;
  }
  return jobs;
}

void choose_job(const Jobs& jobs, uint32_t job, Run& run) {
  for (size_t p = 0; p < run.processes.size(); ++p) {
    if (jobs.of[p] != kNoJob) run.processes[p].superseded = jobs.of[p] != job;
  }
  find_live(run);
}

}  // namespace rollcall::trace
