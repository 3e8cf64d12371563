#include "report/perfetto/perfetto.h"

#include <algorithm>

#include "report/perfetto/rank_state.h"
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

bool is_pending(const trace::Process& process, const trace::Op& op) {
  if (op.called_ns <= 0 || op.state == trace::OpState::failed) return false;
  return perfetto::is_still_inside(process, op) || (op.awaits_gpu && op.finished_ns == 0);
}

// When the oldest call was made that is not through; else, as an end of all that is on file, the
// newest one, and `has_pending` is false.
int64_t time_of_verdict(const trace::Run& run, bool& has_pending) {
  int64_t oldest_ns = INT64_MAX;
  int64_t newest_ns = 0;
  for (const trace::Process& process : run.processes) {
    if (process.superseded) continue;
    for (const trace::Op& op : process.ops) {
      newest_ns = std::max(newest_ns, op.called_ns);
      if (is_pending(process, op)) oldest_ns = std::min(oldest_ns, op.called_ns);
    }
  }
  has_pending = oldest_ns != INT64_MAX;
  return has_pending ? oldest_ns : newest_ns;
}

void append_verdict(const trace::Run& run, const std::string& verdict, uint64_t track,
                    perfetto::TraceState& state, std::string& bytes) {
  bool has_pending = false;
  const int64_t time_ns = time_of_verdict(run, has_pending);
  if (time_ns <= 0) return;
  perfetto::Sequence sequence(bytes, state.next_sequence++, std::min(state.base_ns, time_ns),
                              track);
  perfetto::Event event;
  event.type = has_pending ? perfetto::EventType::slice_begin : perfetto::EventType::instant;
  event.time_ns = time_ns;
  event.track = track;
  event.category = sequence.intern(perfetto::Vocabulary::category, "verdict");
  event.name = sequence.intern(perfetto::Vocabulary::name, verdict);
  sequence.write(event);
  ++state.slices;
}

}  // namespace

uint64_t perfetto_trace(const trace::Run& run, const PerfettoOptions& options,
                        const perfetto::Sink& write) {
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
  if (!options.verdict.empty()) append_verdict(run, options.verdict, root.uuid, state, bytes);
  if (!write(bytes)) return state.slices;
  for (const uint32_t at : processes) {
    perfetto::RankTitle title{static_cast<uint64_t>(labels[at]), value_of(options.remarks, at),
                              value_of(options.details, at)};
    const std::optional<trace::Process> whole =
        options.read_whole ? options.read_whole(at) : std::nullopt;
    const trace::Process& process = whole ? *whole : run.processes[at];
    if (options.kineto_names) title.kineto_names = options.kineto_names(at, process);
    if (!perfetto::write_rank(process, title, state, write)) return state.slices;
    if (!options.write_below) continue;
    if (!options.write_below(at, state.newest_rank, state, write)) return state.slices;
  }
  if (options.write_below) options.write_below(std::nullopt, state.parent, state, write);
  return state.slices;
}

}  // namespace rollcall::report
