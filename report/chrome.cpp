#include "report/chrome.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "analysis/views/by_gpu.h"
#include "core/base/check.h"
#include "report/json_terms.h"
#include "report/terms.h"
#include "statistics/bandwidth.h"

namespace rollcall::report {
namespace {

using Writer = std::function<bool(const std::string&)>;

constexpr size_t kChromeChunkBytes = 1 << 16;
// Stream tracks are numbered from here on, above every thread id of Linux (2^22 at most).
constexpr uint64_t kStreamTrackFirst = 1ull << 23;
constexpr uint32_t kNoFlow = 0;

// The place of an operation in the arrow that joins it with its counterparts.
enum class FlowRole : uint8_t { none, start, step, end };
struct Flow {
  uint32_t id : 30;
  uint32_t role : 2;
};
static_assert(sizeof(Flow) == 4);

// What two operations must share to be one: for a collective the communicator and seq, for a send
// and its receive also the two ranks.
struct MatchKey {
  uint64_t high, low, seq;
  int32_t source, target;
  // NOLINTNEXTLINE(modernize-use-nullptr): the check takes the generated comparison for one
  auto operator<=>(const MatchKey&) const = default;
};

struct FlowPoint {
  MatchKey key;
  int64_t time_ns;
  uint32_t process;
  uint32_t op;
};

std::vector<FlowPoint> flow_points(const trace::Run& run) {
  std::vector<FlowPoint> points;
  for (uint32_t at = 0; at < run.processes.size(); ++at) {
    const trace::Process& process = run.processes[at];
    if (process.superseded) continue;
    for (uint32_t op_at = 0; op_at < process.ops.size(); ++op_at) {
      const trace::Op& op = process.ops[op_at];
      if (op.comm >= process.comms.size() || op.called_ns <= 0) continue;
      const trace::Comm& comm = process.comms[op.comm];
      if (comm.key.is_null()) continue;
      MatchKey key{comm.key.high, comm.key.low, op.seq, -1, -1};
      if (is_p2p(op.kind)) {
        const bool sends = op.kind == OpKind::Send;
        key.source = sends ? comm.rank : op.root_or_peer;
        key.target = sends ? op.root_or_peer : comm.rank;
      } else if (!is_collective(op.kind)) {
        continue;
      }
      points.push_back({key, op.called_ns, at, op_at});
    }
  }
  return points;
}

// For every operation of every process its arrow, if it has one.
std::vector<std::vector<Flow>> flows_of(const trace::Run& run) {
  std::vector<FlowPoint> points = flow_points(run);
  std::sort(points.begin(), points.end(), [](const FlowPoint& one, const FlowPoint& other) {
    return std::tie(one.key, one.time_ns, one.process, one.op) <
           std::tie(other.key, other.time_ns, other.process, other.op);
  });
  std::vector<std::vector<Flow>> flows(run.processes.size());
  for (size_t at = 0; at < flows.size(); ++at) {
    flows[at].resize(run.processes[at].ops.size(), Flow{kNoFlow, 0});
  }
  uint32_t id = kNoFlow;
  for (size_t first = 0; first < points.size();) {
    size_t last = first;
    while (last + 1 < points.size() && points[last + 1].key == points[first].key) ++last;
    if (last > first) {
      id = (id + 1) & 0x3fffffff;
      for (size_t at = first; at <= last; ++at) {
        const FlowRole role = at == first  ? FlowRole::start
                              : at == last ? FlowRole::end
                                           : FlowRole::step;
        flows[points[at].process][points[at].op] = Flow{id, static_cast<uint32_t>(role)};
      }
    }
    first = last + 1;
  }
  return flows;
}

int64_t first_time_ns(const trace::Run& run) {
  int64_t first = INT64_MAX;
  const auto take = [&](int64_t time_ns) {
    if (time_ns > 0) first = std::min(first, time_ns);
  };
  for (const trace::Process& process : run.processes) {
    if (process.superseded) continue;
    for (const trace::Op& op : process.ops) {
      take(op.called_ns);
      take(op.started_ns);
    }
    for (const trace::Event& event : process.events) take(event.called_ns);
  }
  return first == INT64_MAX ? 0 : first;
}

// Microseconds with the nanoseconds kept, which a double of this size would round.
std::string microseconds(int64_t span_ns) {
  return fmt::format("{}.{:03}", span_ns / 1000, span_ns % 1000);
}

std::string json_text(std::string_view text) { return Json(valid_utf8(text)).dump(); }

std::string op_arguments(const trace::Process& process, const trace::Op& op) {
  Json json;
  if (op.comm < process.comms.size()) {
    const trace::Comm& comm = process.comms[op.comm];
    if (!comm.name.empty()) json["comm"] = valid_utf8(comm.name);
    if (!comm.key.is_null()) json["comm_key"] = key_hex(comm.key);
    if (comm.rank >= 0) json["comm_rank"] = comm.rank;
    if (comm.nranks >= 0) json["comm_nranks"] = comm.nranks;
  }
  const OpTraits& traits = traits_of(op.kind);
  if (traits.family == OpFamily::coll) json["seq"] = op.seq;
  if (traits.family == OpFamily::p2p) json["p2p_seq"] = op.seq;
  json["count"] = op.count;
  if (const std::string name = datatype_name(op.datatype); !name.empty()) json["dtype"] = name;
  if (const uint32_t size = bytes_of_datatype(op.datatype)) json["bytes"] = op.count * size;
  if (const std::string name = reduction_name(op.reduction); !name.empty()) json["redop"] = name;
  if (traits.rooted) json["root"] = op.root_or_peer;
  if (traits.family == OpFamily::p2p || traits.family == OpFamily::rma) {
    json["peer"] = op.root_or_peer;
  }
  json["stream"] = address_hex(op.stream);
  if (op.group != 0) json["group"] = op.group;
  if (op.graph != 0) json["graph"] = op.graph;
  const int32_t nranks = op.comm < process.comms.size() ? process.comms[op.comm].nranks : -1;
  const int64_t time_ns = op.started_ns > 0 ? op.finished_ns - op.started_ns : 0;
  if (const auto speed = statistics::bandwidth_of(op, nranks, op.group == 0 ? time_ns : 0)) {
    json["algbw_gbps"] = speed->algorithm_gbps;
    json["busbw_gbps"] = speed->bus_gbps;
  }
  if (const std::string kernel = kernel_name(process, op); !kernel.empty()) {
    json["kernel"] = kernel;
  }
  if (const trace::PhaseTimes* times = process.phases_of(op)) {
    json["phases_ns"] = phases_json(*times);
  }
  json["state"] = trace::name_of(op.state);
  if (op.result != kResultUnknown) json["result"] = name_of_result(op.result);
  json["in_place"] = (op.flags & kOpInPlace) != 0;
  json["api"] = api_name(op);
  if (op.caller != 0) json["caller"] = address_hex(op.caller);
  json["called_ns"] = op.called_ns;
  if (op.returned_ns > 0) json["returned_ns"] = op.returned_ns;
  if (op.launched_ns > 0) json["launched_ns"] = op.launched_ns;
  if (op.started_ns > 0) json["started_ns"] = op.started_ns;
  if (op.finished_ns > 0) json["finished_ns"] = op.finished_ns;
  json["ticket"] = op.ticket;
  return json.dump();
}

std::string event_arguments(const trace::Process& process, const trace::Event& event) {
  Json json;
  if (event.comm < process.comms.size() && !process.comms[event.comm].key.is_null()) {
    json["comm_key"] = key_hex(process.comms[event.comm].key);
  }
  if (event.result != kResultUnknown) json["result"] = name_of_result(event.result);
  if (!event.text.empty()) json["text"] = valid_utf8(event.text);
  json["arguments"] = event.arguments;
  json["called_ns"] = event.called_ns;
  if (event.returned_ns > 0) json["returned_ns"] = event.returned_ns;
  json["ticket"] = event.ticket;
  return json.dump();
}

// One line of the trace, and where it belongs in its process.
struct Line {
  uint64_t track;
  int64_t start_ns;
  uint32_t order;  // keeps a call in front of its arrow where times are equal
  std::string json;
};

class ProcessWriter {
 public:
  ProcessWriter(const trace::Process& process, int32_t label, int64_t origin_ns,
                const std::vector<Flow>& flows)
      : process_(process), label_(label), origin_ns_(origin_ns), flows_(flows) {
    ROLLCALL_CHECK(flows.size() == process.ops.size());
  }

  // False: the reader of the trace is gone.
  bool write(const Writer& write, bool& first, uint64_t& slices) {
    metadata();
    for (size_t at = 0; at < process_.ops.size(); ++at) {
      add_op(process_.ops[at], flows_[at]);
      add_stream(process_.ops[at]);
    }
    for (const trace::Event& event : process_.events) add_event(event);
    std::stable_sort(lines_.begin(), lines_.end(), [](const Line& one, const Line& other) {
      return std::tie(one.start_ns, one.order) < std::tie(other.start_ns, other.order);
    });
    slices += slices_;
    std::string piece;
    for (const Line& line : lines_) {
      piece += first ? "\n" : ",\n";
      first = false;
      piece += line.json;
      if (piece.size() >= kChromeChunkBytes) {
        if (!write(piece)) return false;
        piece.clear();
      }
    }
    return piece.empty() || write(piece);
  }

 private:
  void add(uint64_t track, int64_t start_ns, std::string json) {
    lines_.push_back({track, start_ns, static_cast<uint32_t>(lines_.size()), std::move(json)});
  }

  void name_track(uint64_t track, std::string_view name, uint64_t position) {
    add(track, INT64_MIN,
        fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                    label_, track, json_text(name)));
    add(track, INT64_MIN,
        fmt::format(
            R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
            label_, track, position));
  }

  void metadata() {
    add(0, INT64_MIN,
        fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", label_,
                    json_text(process_title(process_))));
    add(0, INT64_MIN,
        fmt::format(
            R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})",
            label_, label_));
    const std::vector<bool> callers = calling_threads();
    for (size_t at = 0; at < process_.threads.size(); ++at) {
      const trace::Thread& thread = process_.threads[at];
      if (thread.tid == 0 || !callers[at]) continue;
      name_track(thread.tid,
                 thread.name.empty() ? fmt::format("thread {}", thread.tid)
                                     : fmt::format("{} (thread {})", thread.name, thread.tid),
                 0);
    }
  }

  // All of a process, but of those that drive several GPUs the ones that called for this GPU.
  std::vector<bool> calling_threads() const {
    std::vector<bool> callers(process_.threads.size(), process_.gpu < 0);
    const auto note = [&](uint32_t thread) {
      if (thread < callers.size()) callers[thread] = true;
    };
    for (const trace::Op& op : process_.ops) note(op.thread);
    for (const trace::Event& event : process_.events) note(event.thread);
    return callers;
  }

  uint64_t thread_track(uint32_t thread) {
    if (thread < process_.threads.size() && process_.threads[thread].tid != 0) {
      return process_.threads[thread].tid;
    }
    // Beyond the thread table: one track for all of them, numbered as no thread of Linux is.
    constexpr uint64_t kTrack = kStreamTrackFirst - 1;
    if (!unknown_thread_named_) name_track(kTrack, "unknown threads", 1);
    unknown_thread_named_ = true;
    return kTrack;
  }

  uint64_t stream_track(uint64_t stream) {
    const auto [found, is_new] = streams_.emplace(stream, kStreamTrackFirst + streams_.size());
    if (is_new) name_track(found->second, fmt::format("stream {}", address_hex(stream)), 2);
    return found->second;
  }

  std::string head(char phase, std::string_view category, std::string_view name, uint64_t track,
                   int64_t start_ns) const {
    return fmt::format(R"({{"ph":"{}","cat":"{}","name":{},"pid":{},"tid":{},"ts":{})", phase,
                       category, json_text(name), label_, track,
                       microseconds(start_ns - origin_ns_));
  }

  // A call that did not return is a beginning without an end: viewers draw it to the right edge.
  void add_slice(std::string_view category, std::string_view name, uint64_t track, int64_t start_ns,
                 int64_t end_ns, const std::string& arguments) {
    ++slices_;
    if (end_ns <= 0) {
      add(track, start_ns,
          head('B', category, name, track, start_ns) + ",\"args\":" + arguments + "}");
      return;
    }
    const std::string span = microseconds(std::max<int64_t>(end_ns - start_ns, 0));
    add(track, start_ns,
        head('X', category, name, track, start_ns) + ",\"dur\":" + span + ",\"args\":" + arguments +
            "}");
  }

  void add_op(const trace::Op& op, Flow flow) {
    if (op.called_ns <= 0) return;
    const uint64_t track = thread_track(op.thread);
    add_slice("host", name_of(op.kind), track, op.called_ns, op.returned_ns,
              op_arguments(process_, op));
    const FlowRole role = static_cast<FlowRole>(flow.role);
    if (role == FlowRole::none) return;
    const char phase = role == FlowRole::start ? 's' : role == FlowRole::step ? 't' : 'f';
    add(track, op.called_ns,
        head(phase, "match", name_of(op.kind), track, op.called_ns) +
            fmt::format(",\"id\":{}{}}}", uint32_t{flow.id},
                        role == FlowRole::end ? ",\"bp\":\"e\"" : ""));
  }

  void add_stream(const trace::Op& op) {
    if (op.called_ns <= 0 || op.kind == OpKind::GroupEnd) return;
    const uint64_t track = stream_track(op.stream);
    if (op.started_ns > 0) {
      add_slice("gpu", name_of(op.kind), track, op.started_ns, op.finished_ns,
                op_arguments(process_, op));
      add_phases(track, op);
      return;
    }
    add(track, op.called_ns,
        head('i', "enqueued", name_of(op.kind), track, op.called_ns) +
            ",\"s\":\"t\",\"args\":" + op_arguments(process_, op) + "}");
  }

  // Inside the operation's slice, whose ends are those of all channels; the phases are their mean.
  void add_phases(uint64_t track, const trace::Op& op) {
    const trace::PhaseTimes* times = process_.phases_of(op);
    if (times == nullptr || op.finished_ns <= op.started_ns) return;
    int64_t start_ns = op.started_ns;
    for (size_t i = 0; i < kKernelPhaseCount; ++i) {
      const auto left_ns = static_cast<uint64_t>(op.finished_ns - start_ns);
      const auto span_ns = static_cast<int64_t>(std::min(times->ns[i], left_ns));
      if (span_ns == 0) continue;
      add_slice("phase", kKernelPhases[i], track, start_ns, start_ns + span_ns, "{}");
      start_ns += span_ns;
    }
  }

  void add_event(const trace::Event& event) {
    if (event.called_ns <= 0) return;
    add_slice("event", name_of(event.kind), thread_track(event.thread), event.called_ns,
              event.returned_ns, event_arguments(process_, event));
  }

  const trace::Process& process_;
  const int32_t label_;
  const int64_t origin_ns_;
  const std::vector<Flow>& flows_;
  std::vector<Line> lines_;
  std::map<uint64_t, uint64_t> streams_;
  bool unknown_thread_named_ = false;
  uint64_t slices_ = 0;
};

}  // namespace

uint64_t chrome_trace(const trace::Run& whole, const Writer& write) {
  const std::optional<analysis::Parts> parts = analysis::take_apart(whole);
  const trace::Run& run = parts ? parts->run : whole;
  const std::vector<std::vector<Flow>> flows = flows_of(run);
  const std::vector<int32_t> labels = process_labels(run);
  const int64_t origin_ns = first_time_ns(run);
  uint64_t slices = 0;
  bool first = true;
  if (!write(fmt::format(
          R"({{"displayTimeUnit":"ns","otherData":{{"recorder":"rollcall","origin_ns":{}{}}},"traceEvents":[)",
          origin_ns, parts ? ",\"ranks_are\":" + json_text(parts->numbering) : ""))) {
    return slices;
  }
  for (size_t at = 0; at < run.processes.size(); ++at) {
    if (run.processes[at].superseded) continue;
    ProcessWriter writer(run.processes[at], labels[at], origin_ns, flows[at]);
    if (!writer.write(write, first, slices)) return slices;
  }
  write("\n]}\n");
  return slices;
}

}  // namespace rollcall::report
