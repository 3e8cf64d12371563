#include "report/dump.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "report/json_terms.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using Writer = std::function<bool(const std::string&)>;

constexpr size_t kDumpChunkBytes = 1 << 16;

// The NCCL function where the event is one, else what the recorder calls it.
constexpr std::string_view kEventFunctions[] = {
#define ROLLCALL_X(name, text) text,
    ROLLCALL_EVENTS(ROLLCALL_X)
#undef ROLLCALL_X
};
std::string_view function_of(EventKind kind) {
  const std::string_view function = kEventFunctions[static_cast<size_t>(kind)];
  return function.rfind("nccl", 0) == 0 ? function : name_of(kind);
}

Json time_or_null(int64_t time_ns) { return known_or_null(time_ns, time_ns > 0); }

Json rank_or_null(int32_t rank) { return known_or_null(rank, rank >= 0); }

Json key_or_null(const CommKey& key) { return key.is_null() ? Json(nullptr) : Json(key_hex(key)); }

Json number_or_null(uint64_t value) { return known_or_null(value, value != 0); }

std::string dump_line(const Json& json) { return json.dump() + "\n"; }

Json coverage_of(const trace::Process& process) {
  Json list = Json::array();
  std::string word;
  for (const char c : meta_of(process, "coverage") + ",") {
    if (c != ',') {
      word += c;
    } else if (!word.empty()) {
      list.push_back(valid_utf8(word));
      word.clear();
    }
  }
  return list;
}

Json run_line(const trace::Process& process) {
  Json json;
  json["type"] = "run";
  json["schema"] = "rollcall.dump/1";
  json["file"] = valid_utf8(process.file);
  json["host"] = text_or_null(process.host);
  json["pid"] = process.pid;
  json["job_rank"] = rank_or_null(process.job_rank);
  json["started_ns"] = time_or_null(process.started_ns);
  json["versions"] = {
      {"nccl", text_or_null(nccl_version(meta_of(process, "nccl_version")))},
      {"cuda", text_or_null(cuda_version(meta_of(process, "cuda_runtime_version")))},
      {"driver", text_or_null(cuda_version(meta_of(process, "cuda_driver_version")))},
      {"rollcall", text_or_null(meta_of(process, "rollcall_version"))}};
  json["coverage"] = coverage_of(process);
  json["run_id"] =
      process.run_id != 0 ? Json(fmt::format("{:016x}", process.run_id)) : Json(nullptr);
  json["recorder"] = process.recorder;
  json["liveness"] = trace::name_of(process.liveness);
  json["liveness_evidence"] = text_or_null(process.liveness_evidence);
  json["heartbeat_ns"] = time_or_null(process.heartbeat_ns);
  json["exited_ns"] = time_or_null(process.exited_ns);
  Json meta = Json::object();
  for (const auto& [key, value] : process.meta) meta[valid_utf8(key)] = valid_utf8(value);
  json["meta"] = std::move(meta);
  return json;
}

Json ended_of(const trace::Comm& comm) {
  switch (comm.state) {
    case CommState::destroyed:
      return "destroy";
    case CommState::aborted:
      return "abort";
    case CommState::finalized:
      return "finalize";
    case CommState::revoked:
      return "revoke";
    default:
      return nullptr;
  }
}

Json comm_entry(const trace::Process& process, const trace::Comm& comm) {
  Json json;
  json["type"] = "comm";
  json["pid"] = process.pid;
  json["key"] = key_or_null(comm.key);
  json["name"] = text_or_null(comm.name);
  json["nranks"] = rank_or_null(comm.nranks);
  json["rank"] = rank_or_null(comm.rank);
  json["how"] = comm.origin == CommOrigin::unknown ? Json(nullptr) : Json(name_of(comm.origin));
  json["parent"] = key_or_null(comm.parent_key);
  json["created_ns"] = time_or_null(comm.created_ns);
  json["ended"] = ended_of(comm);
  json["state"] = name_of(comm.state);
  json["ready_ns"] = time_or_null(comm.ready_ns);
  json["ended_ns"] = time_or_null(comm.ended_ns);
  json["device"] = rank_or_null(comm.device);
  json["child_number"] = comm.parent_key.is_null() ? Json(nullptr) : Json(comm.child_number);
  const bool split = comm.origin == CommOrigin::split;
  json["colour"] = split ? Json(comm.colour) : Json(nullptr);
  json["split_key"] = split ? Json(comm.split_key) : Json(nullptr);
  json["non_blocking"] = comm.non_blocking;
  json["nccl_hash"] = comm.nccl_hash != 0 ? Json(address_hex(comm.nccl_hash)) : Json(nullptr);
  json["collectives"] = comm.collectives;
  json["sends"] = comm.sends;
  json["recvs"] = comm.recvs;
  if (comm.phases.operations != 0) {
    json["phased_operations"] = comm.phases.operations;
    json["phases_ns"] = phases_json(comm.phases);
  }
  return json;
}

// What the profiler plugin heard of the operation, and CUPTI; nothing where there was none.
void add_method(Json& json, const trace::Process& process, const trace::Op& op) {
  if (op.launched_ns != 0) json["launched_ns"] = op.launched_ns;
  if (algorithm_of(op.method) != 0) json["algorithm"] = algorithm_name(op.method);
  if (protocol_of(op.method) != 0) json["protocol"] = protocol_name(op.method);
  if (op.channels != 0) json["channels"] = op.channels;
  if (const std::string kernel = kernel_name(process, op); !kernel.empty()) {
    json["kernel"] = kernel;
  }
  if (const trace::PhaseTimes* times = process.phases_of(op)) {
    json["phases_ns"] = phases_json(*times);
  }
  if ((op.flags & kOpFromPlugin) != 0) json["from_plugin"] = true;
}

// The lines of the script that issued the call, where they were recorded.
Json frame_text(const trace::Process& process, const trace::Op& op) {
  const auto found = process.meta.find("frame." + std::to_string(op.frames));
  return found == process.meta.end() ? Json(nullptr) : text_or_null(found->second);
}

// How the line of something that happened on a communicator begins.
Json begin_line(std::string_view type, const trace::Process& process, uint32_t comm) {
  const bool known_comm = comm < process.comms.size();
  Json json;
  json["type"] = type;
  json["pid"] = process.pid;
  json["job_rank"] = rank_or_null(process.job_rank);
  json["comm"] = known_comm ? key_or_null(process.comms[comm].key) : Json(nullptr);
  json["comm_rank"] = known_comm ? rank_or_null(process.comms[comm].rank) : Json(nullptr);
  return json;
}

Json op_line(const trace::Process& process, const trace::Op& op) {
  const OpTraits& traits = traits_of(op.kind);
  const bool directed = traits.family == OpFamily::p2p || traits.family == OpFamily::rma;
  const bool known_thread = op.thread < process.threads.size();
  Json json = begin_line("op", process, op.comm);
  const Json seq = (op.flags & kOpSeqUnknown) == 0 ? Json(op.seq) : Json(nullptr);
  json["seq"] = traits.family == OpFamily::coll ? seq : Json(nullptr);
  json["p2p_seq"] = traits.family == OpFamily::p2p ? seq : Json(nullptr);
  json["op"] = traits.name;
  json["count"] = op.count;
  json["dtype"] = text_or_null(datatype_name(op.datatype));
  json["redop"] = text_or_null(reduction_name(op.reduction));
  json["root"] = traits.rooted ? rank_or_null(op.root_or_peer) : Json(nullptr);
  json["peer"] = directed ? rank_or_null(op.root_or_peer) : Json(nullptr);
  json["stream"] = address_hex(op.stream);
  json["thread"] = known_thread ? Json(process.threads[op.thread].tid) : Json(nullptr);
  json["group"] = number_or_null(op.group);
  json["graph"] = number_or_null(op.graph);
  if (op.kind == OpKind::GraphLaunch) json["replay"] = op.seq;
  json["api"] = api_name(op);
  json["result"] = op.result == kResultUnknown ? Json(nullptr) : Json(op.result);
  json["state"] = op.state == trace::OpState::unknown ? Json(nullptr) : Json(name_of(op.state));
  json["called_ns"] = time_or_null(op.called_ns);
  json["returned_ns"] = time_or_null(op.returned_ns);
  json["started_ns"] = time_or_null(op.started_ns);
  json["finished_ns"] = time_or_null(op.finished_ns);
  json["frame"] = frame_text(process, op);
  json["ticket"] = op.ticket;
  json["caller"] = op.caller != 0 ? Json(address_hex(op.caller)) : Json(nullptr);
  json["in_place"] = (op.flags & kOpInPlace) != 0;
  json["from"] = op.from_segment != 0 ? "segment" : "ring";
  add_method(json, process, op);
  return json;
}

// By communicator: whether the process is several of its ranks, a GPU each; its key alone does not
// tell which then.
std::vector<bool> with_several_ranks(const trace::Process& process) {
  std::map<std::pair<uint64_t, uint64_t>, std::set<int32_t>> ranks;
  const auto known = [](const trace::Comm& comm) { return !comm.key.is_null() && comm.rank >= 0; };
  for (const trace::Comm& comm : process.comms) {
    if (known(comm)) ranks[{comm.key.high, comm.key.low}].insert(comm.rank);
  }
  std::vector<bool> several;
  for (const trace::Comm& comm : process.comms) {
    several.push_back(known(comm) && ranks[{comm.key.high, comm.key.low}].size() > 1);
  }
  return several;
}

Json event_line(const trace::Process& process, const trace::Event& event,
                const std::vector<bool>& several_ranks) {
  const bool known_comm = event.comm < process.comms.size();
  const bool known_thread = event.thread < process.threads.size();
  Json json;
  json["type"] = "event";
  json["pid"] = process.pid;
  json["name"] = function_of(event.kind);
  json["time_ns"] = time_or_null(event.called_ns);
  json["comm"] = known_comm ? key_or_null(process.comms[event.comm].key) : Json(nullptr);
  if (known_comm && several_ranks[event.comm]) {
    json["comm_rank"] = rank_or_null(process.comms[event.comm].rank);
  }
  json["result"] = event.result == kResultUnknown ? Json(nullptr) : Json(event.result);
  json["text"] = text_or_null(event.text);
  json["kind"] = name_of(event.kind);
  json["returned_ns"] = time_or_null(event.returned_ns);
  json["ticket"] = event.ticket;
  json["op_ticket"] = event.op_ticket;
  json["thread"] = known_thread ? Json(process.threads[event.thread].tid) : Json(nullptr);
  json["arguments"] = event.arguments;
  return json;
}

Json stats_line(const trace::Process& process) {
  Json dropped = Json::object();
  Json others = Json::object();
  for (const auto& [name, value] : process.statistics) {
    (name.rfind("dropped_", 0) == 0 ? dropped : others)[name] = value;
  }
  Json json;
  json["type"] = "stats";
  json["pid"] = process.pid;
  json["recorded"] = process.calls_recorded();
  json["dropped"] = std::move(dropped);
  json["read"] = process.ops.size();
  json["lost"] = process.lost;
  json["torn"] = process.torn;
  json["counters"] = std::move(others);
  return json;
}

Json graph_line(const trace::Process& process, const trace::Graph& graph) {
  Json json;
  json["type"] = "graph";
  json["pid"] = process.pid;
  json["graph"] = graph.graph;
  json["operations"] = graph.operations;
  json["launches"] = graph.launches;
  json["first_ns"] = time_or_null(graph.first_ns);
  json["lanes"] = Json::array();
  for (const trace::Graph::Lane& lane : graph.lanes) {
    json["lanes"].push_back({{"stream", address_hex(lane.stream)}, {"position", lane.position}});
  }
  return json;
}

Json channel_line(const trace::Process& process, const trace::NetworkChannel& channel) {
  const bool waits = channel.waiting != ChannelWait::none;
  Json json = begin_line("channel", process, channel.comm);
  json["peer"] = rank_or_null(channel.peer);
  json["channel"] = channel.channel;
  json["direction"] = direction_of(channel.is_send);
  json["operations_started"] = channel.operations_started;
  json["operations_done"] = channel.operations_done;
  json["steps"] = channel.steps;
  json["bytes"] = step_bytes_json(channel.bytes, channel.steps);
  json["waits_ns"] = waits_json(channel.wait_ns, channel.is_send);
  json["waiting"] =
      waits ? Json(kChannelWaits[static_cast<size_t>(channel.waiting)]) : Json(nullptr);
  json["waiting_since_ns"] = time_or_null(channel.waiting_since_ns);
  return json;
}

}  // namespace

void dump_process(const trace::Process& process, const Writer& write) {
  std::string lines = dump_line(run_line(process));
  bool open = true;
  const auto flush = [&](size_t limit) {
    if (!open || lines.size() < limit) return open;
    open = write(lines);
    lines.clear();
    return open;
  };
  for (const trace::Comm& comm : process.comms) {
    if (comm.state == CommState::empty) continue;
    lines += dump_line(comm_entry(process, comm));
    if (!flush(kDumpChunkBytes)) return;
  }
  for (const trace::Graph& graph : process.graphs) lines += dump_line(graph_line(process, graph));
  for (const trace::NetworkChannel& channel : process.channels) {
    lines += dump_line(channel_line(process, channel));
    if (!flush(kDumpChunkBytes)) return;
  }
  for (const trace::Op& op : process.ops) {
    lines += dump_line(op_line(process, op));
    if (!flush(kDumpChunkBytes)) return;
  }
  const std::vector<bool> several_ranks = with_several_ranks(process);
  for (const trace::Event& event : process.events) {
    lines += dump_line(event_line(process, event, several_ranks));
    if (!flush(kDumpChunkBytes)) return;
  }
  lines += dump_line(stats_line(process));
  flush(0);
}

}  // namespace rollcall::report
