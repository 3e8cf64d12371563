#include "comparison/settings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace rollcall::comparison {
namespace {

constexpr std::string_view kEnvironment = "env.";
constexpr std::string_view kVersion = "_version";
constexpr std::string_view kPrefixes[] = {"NCCL_", "CUDA_", "TORCH_", "ROLLCALL_"};
// Where a run is kept, what it is called and where it meets: never the same in two of them.
constexpr std::string_view kOfOneRun[] = {"ROLLCALL_DIR",
                                          "ROLLCALL_RUN_ID",
                                          "ROLLCALL_LOCAL_DIR",
                                          "ROLLCALL_EMULATE_SESSION",
                                          "ROLLCALL_SUMMARY_SECONDS",
                                          "ROLLCALL_LIB_DIR",
                                          "ROLLCALL_CONF_FILE",
                                          "NCCL_DEBUG_FILE",
                                          "NCCL_COMM_ID"};

using Values = std::set<std::string>;

bool is_version(std::string_view key) { return key.ends_with(kVersion); }

bool is_setting(std::string_view key) {
  if (!key.starts_with(kEnvironment)) return false;
  const std::string_view name = key.substr(kEnvironment.size());
  if (std::find(std::begin(kOfOneRun), std::end(kOfOneRun), name) != std::end(kOfOneRun)) {
    return false;
  }
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::map<std::string, Values> values_of(const trace::Run& run) {
  std::map<std::string, Values> values;
  for (const trace::Process& process : run.processes) {
    if (process.superseded) continue;
    for (const auto& [key, value] : process.meta) {
      const bool is_kept = is_version(key) || is_setting(key) || key == "cmdline";
      if (is_kept) values[key].insert(value);
    }
    values["hosts"].insert(process.host);
  }
  return values;
}

std::string joined(const Values& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}

std::string ranks_of(const trace::Run& run) {
  size_t ranks = 0;
  for (const trace::Process& process : run.processes) {
    if (process.superseded) continue;
    // A process may have several GPUs, each a rank of the largest communicator.
    std::map<std::pair<uint64_t, uint64_t>, size_t> seats;
    for (const trace::Comm& comm : process.comms) ++seats[{comm.key.high, comm.key.low}];
    size_t most = 1;
    for (const auto& [key, count] : seats) most = std::max(most, count);
    ranks += most;
  }
  return std::to_string(ranks);
}

// Where the command of each rank differs it tells of ranks, and not of runs.
bool is_telling(const std::string& key, const Values& before, const Values& after) {
  return key != "cmdline" || (before.size() == 1 && after.size() == 1);
}

int order_of(const std::string& key) {
  if (is_version(key)) return 0;
  if (key.starts_with(kEnvironment)) return 1;
  return key == "hosts" ? 3 : 4;
}

}  // namespace

std::vector<SettingDifference> compare_settings(const trace::Run& before, const trace::Run& after) {
  std::map<std::string, Values> old_values = values_of(before);
  std::map<std::string, Values> new_values = values_of(after);
  std::set<std::string> keys;
  for (const auto* values : {&old_values, &new_values}) {
    for (const auto& [key, value] : *values) keys.insert(key);
  }
  std::vector<SettingDifference> list;
  for (int order = 0; order <= 4; ++order) {
    const std::string ranks[2] = {ranks_of(before), ranks_of(after)};
    if (order == 2 && ranks[0] != ranks[1]) list.push_back({"ranks", ranks[0], ranks[1]});
    for (const std::string& key : keys) {
      const Values& was = old_values[key];
      const Values& is = new_values[key];
      if (order_of(key) != order || was == is || !is_telling(key, was, is)) continue;
      const bool is_variable = key.starts_with(kEnvironment);
      list.push_back(
          {is_variable ? key.substr(kEnvironment.size()) : key, joined(was), joined(is)});
    }
  }
  return list;
}

}  // namespace rollcall::comparison
