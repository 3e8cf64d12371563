#include "report/page/environment.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "report/terms.h"

namespace rollcall::report {
namespace {

constexpr std::string_view kEnvironment = "env.";
constexpr std::string_view kNotSet = "(not set)";
// Keys of the meta text that differ because ranks do, with or without a number behind.
constexpr std::string_view kOwn[] = {"cgroup",     "frame.",    "job_rank",      "kernel.",
                                     "local_rank", "node_rank", "not_emulated.", "oom_kills",
                                     "pid",        "slurm_task"};
// The variables by which launchers number ranks.
constexpr std::string_view kNumbering[] = {"RANK",
                                           "LOCAL_RANK",
                                           "GROUP_RANK",
                                           "ROLE_RANK",
                                           "NODE_RANK",
                                           "PMI_RANK",
                                           "PMIX_RANK",
                                           "OMPI_COMM_WORLD_RANK",
                                           "OMPI_COMM_WORLD_LOCAL_RANK",
                                           "OMPI_COMM_WORLD_NODE_RANK",
                                           "MV2_COMM_WORLD_RANK",
                                           "MV2_COMM_WORLD_LOCAL_RANK",
                                           "SLURM_PROCID",
                                           "SLURM_LOCALID",
                                           "SLURM_NODEID",
                                           "SLURMD_NODENAME",
                                           "HOSTNAME"};

bool tells_ranks_apart(std::string_view key) {
  if (key.starts_with(kEnvironment)) {
    key.remove_prefix(kEnvironment.size());
    return std::find(std::begin(kNumbering), std::end(kNumbering), key) != std::end(kNumbering);
  }
  return std::any_of(std::begin(kOwn), std::end(kOwn),
                     [&](std::string_view own) { return key.starts_with(own); });
}

}  // namespace

std::vector<EnvironmentDifference> environment_differences(const trace::Run& run) {
  const std::vector<int32_t> labels = process_labels(run);
  std::vector<size_t> asked;
  std::set<std::string> keys;
  for (size_t at = 0; at < run.processes.size(); ++at) {
    const trace::Process& process = run.processes[at];
    if (process.superseded || process.is_foreign()) continue;
    asked.push_back(at);
    for (const auto& [key, value] : process.meta) keys.insert(key);
  }
  std::vector<EnvironmentDifference> differences;
  for (const std::string& key : keys) {
    if (tells_ranks_apart(key)) continue;
    std::map<std::string, std::vector<int32_t>> by_value;
    for (const size_t at : asked) {
      const auto& meta = run.processes[at].meta;
      const auto found = meta.find(key);
      by_value[found == meta.end() ? std::string(kNotSet) : found->second].push_back(labels[at]);
    }
    const bool is_each_its_own = by_value.size() == asked.size() && asked.size() > 2;
    if (by_value.size() < 2 || is_each_its_own) continue;
    const bool is_variable = std::string_view(key).starts_with(kEnvironment);
    EnvironmentDifference difference{is_variable ? key.substr(kEnvironment.size()) : key,
                                     {by_value.begin(), by_value.end()}};
    std::stable_sort(
        difference.values.begin(), difference.values.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace rollcall::report
