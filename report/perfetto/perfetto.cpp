#include "report/perfetto/perfetto.h"

#include <algorithm>

#include "report/perfetto/rank_trace.h"
#include "report/perfetto/sequence.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

std::vector<uint32_t> all_processes(const trace::Run& run) {
  std::vector<uint32_t> all;
  for (uint32_t at = 0; at < run.processes.size(); ++at) {
    if (!run.processes[at].superseded) all.push_back(at);
  }
  return all;
}

// About the oldest time of the run: of its processes, or of the first call of each.
int64_t base_of(const trace::Run& run, const std::vector<uint32_t>& processes) {
  int64_t base_ns = INT64_MAX;
  const auto take = [&](int64_t time_ns) {
    if (time_ns > 0) base_ns = std::min(base_ns, time_ns);
  };
  for (const uint32_t at : processes) {
    const trace::Process& process = run.processes[at];
    take(process.started_ns);
    if (!process.ops.empty()) take(process.ops.front().called_ns);
    if (!process.events.empty()) take(process.events.front().called_ns);
  }
  return base_ns == INT64_MAX ? 0 : base_ns;
}

template <typename Key, typename Value>
Value value_of(const std::map<Key, Value>& values, const Key& key) {
  const auto found = values.find(key);
  return found == values.end() ? Value() : found->second;
}

void number_comms(const trace::Run& run, const PerfettoOptions& options,
                  perfetto::TraceState& state) {
  for (const trace::Process& process : run.processes) {
    for (const trace::Comm& comm : process.comms) {
      if (comm.key.is_null() || process.superseded) continue;
      const std::pair<uint64_t, uint64_t> key(comm.key.high, comm.key.low);
      state.comms.try_emplace(key, state.comms.size(), value_of(options.comm_names, key));
    }
  }
}

}  // namespace

uint64_t perfetto_trace(const trace::Run& run, const PerfettoOptions& options,
                        const std::function<bool(const std::string&)>& write) {
  const std::vector<uint32_t> processes =
      options.processes ? *options.processes : all_processes(run);
  const std::vector<int32_t> labels = process_labels(run);
  perfetto::TraceState state;
  state.base_ns = base_of(run, processes);
  number_comms(run, options, state);
  perfetto::Track root;
  root.uuid = state.next_uuid++;
  root.name = "ranks";
  state.parent = root.uuid;
  std::string bytes;
  perfetto::append_track(bytes, state.next_sequence++, root);
  if (!write(bytes)) return state.slices;
  for (const uint32_t at : processes) {
    const perfetto::RankTitle title{static_cast<uint64_t>(labels[at]),
                                    value_of(options.remarks, at), value_of(options.details, at)};
    if (!perfetto::write_rank(run.processes[at], title, state, write)) return state.slices;
  }
  return state.slices;
}

}  // namespace rollcall::report
