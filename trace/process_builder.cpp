#include "trace/process_builder.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "trace/clocks.h"
#include "trace/field_text.h"

namespace rollcall::trace {
namespace {

constexpr uint64_t kSegmentMark = 0x80;
static_assert(static_cast<uint8_t>(Phase::Count) <= kSegmentMark, "a bit no phase has");

uint64_t ticket(const OpRecord& record) { return ticket_of(record.publish); }

std::vector<OpRecord>::const_iterator first_at_or_behind(const std::vector<OpRecord>& records,
                                                         uint64_t wanted) {
  return std::lower_bound(
      records.begin(), records.end(), wanted,
      [](const OpRecord& record, uint64_t value) { return ticket(record) < value; });
}

// \\, \n and \0 of the meta area.
std::string unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char c = text[++i];
    plain += c == 'n' ? '\n' : c == '0' ? '\0' : c;
  }
  return plain;
}

// Calls that come back before they are through where their communicator does not block.
bool goes_on_in_background(EventKind kind) {
  switch (kind) {
    case EventKind::CommInitRankConfig:
    case EventKind::CommInitRankScalable:
    case EventKind::CommSplit:
    case EventKind::CommShrink:
    case EventKind::CommGrow:
    case EventKind::CommFinalize:
      return true;
    default:
      return false;
  }
}

OpState state_of(const OpRecord& record) {
  if (record.result > kResultSuccess && record.result != kResultInProgress) return OpState::failed;
  if (record.finished_ticks != 0) return OpState::finished;
  if (record.started_ticks != 0) return OpState::started;
  // Of a captured operation that is when NCCL put the kernel into the graph: nothing runs yet.
  if (record.launched_ticks != 0 && !is_captured(record)) return OpState::launched;
  return record.returned_ticks != 0 ? OpState::returned : OpState::called;
}

Op op_of(const OpRecord& record, const TickConversion& clock, bool from_segment) {
  const auto time = [&](uint64_t ticks) { return ticks == 0 ? 0 : clock.realtime_ns(ticks); };
  Op op;
  op.called_ns = time(record.called_ticks);
  op.returned_ns = time(record.returned_ticks);
  op.started_ns = time(record.started_ticks);
  op.finished_ns = time(record.finished_ticks);
  op.launched_ns = time(record.launched_ticks);
  op.ticket = ticket(record);
  op.seq = record.seq;
  op.count = record.count;
  op.stream = record.stream;
  op.caller = record.caller;
  op.root_or_peer = record.root_or_peer;
  op.comm = record.comm_index;
  op.group = record.group;
  op.thread = record.thread_index;
  op.graph = record.graph;
  op.frames = record.frames;
  op.kernel = record.kernel;
  op.result = record.result;
  op.kind = record.kind;
  op.datatype = record.datatype;
  op.reduction = record.reduction;
  op.state = state_of(record);
  op.flags = record.flags;
  op.method = record.method;
  op.channels = record.channels;
  op.from_segment = from_segment ? 1 : 0;
  op.awaits_gpu = awaits_gpu(record);
  return op;
}

}  // namespace

bool Process::has_left_at_once() const {
  return std::any_of(events.begin(), events.end(), [](const Event& event) {
    return event.kind == EventKind::ProcessExit && event.arguments[0] == kExitAtOnce;
  });
}

uint64_t Process::calls_recorded() const {
  uint64_t unused = 0;
  for (const char* name : {"stepped_over", "given_up"}) {
    const auto found = statistics.find(name);
    if (found != statistics.end()) unused += found->second;
  }
  const uint64_t tickets = next_ticket > 0 ? next_ticket - 1 : 0;
  return tickets - std::min(tickets, unused);
}

const PhaseTimes* Process::phases_of(const Op& op) const {
  const auto found = std::lower_bound(
      phases.begin(), phases.end(), op.ticket,
      [](const PhaseTimes& times, uint64_t wanted) { return times.ticket < wanted; });
  return found != phases.end() && found->ticket == op.ticket ? &*found : nullptr;
}

ProcessBuilder::ProcessBuilder(const std::string& path, const RingImage& image) : image_(image) {
  const FileHeader& header = image.header;
  process_.file = path;
  process_.host = field_text(header.host, sizeof header.host);
  process_.boot_id = field_text(header.boot_id, sizeof header.boot_id);
  process_.pid = header.pid;
  process_.parent_pid = header.parent_pid;
  process_.start_time_ticks = header.start_time_ticks;
  process_.run_id = header.run_id;
  process_.next_ticket = std::max<uint64_t>(header.next_ticket, 1);
  process_.capture_off = header.capture_state == static_cast<uint32_t>(CaptureState::off);
  process_.capture_paused = header.capture_state == static_cast<uint32_t>(CaptureState::paused);
  process_.torn = image.torn;
  process_.damaged = image.unbelievable;
  process_.clock = header.clock_kind == ClockKind::tsc ? "TSC" : "CLOCK_MONOTONIC";
  const TickConversion clock = conversion_of(header);
  const auto time = [&](uint64_t ticks) { return ticks == 0 ? 0 : clock.realtime_ns(ticks); };
  process_.started_ns = static_cast<int64_t>(header.first_anchor.realtime_ns);
  process_.heartbeat_ns = time(header.heartbeat_ticks);
  if (header.exit_state == static_cast<uint32_t>(ExitState::exited)) {
    process_.exited_ns = time(header.exited_ticks);
  }
  take_meta();
  take_knowledge();
  take_tables();
  take_graphs();
  take_phases();
  take_channels();
  take_events();
  take_statistics();
}

void ProcessBuilder::take_meta() {
  std::string_view rest = image_.meta;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    const std::string key(line.substr(0, equals));
    std::string value = unescape(line.substr(equals + 1));
    std::string& slot = process_.meta[key];
    // Warnings are said one by one; of everything else the last word counts.
    slot = key == "warning" && !slot.empty() ? slot + "\n" + value : std::move(value);
  }
  const auto rank = process_.meta.find("job_rank");
  if (rank == process_.meta.end()) return;
  int32_t number = -1;
  const std::string& text = rank->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && number >= 0 && number < static_cast<int32_t>(kRanksMax)) process_.job_rank = number;
}

// What NCCL does not tell a profiler plugin. Up to version 4 of the interface it tells of
// operations when they are launched, in its own order, and of a host that hangs before that
// nothing.
void ProcessBuilder::take_knowledge() {
  const auto coverage = process_.meta.find("coverage");
  const auto version = process_.meta.find("plugin_interface");
  const bool alone = coverage != process_.meta.end() && coverage->second == "plugin";
  if (!alone || version == process_.meta.end()) return;
  const bool tells_calls = version->second >= "5";
  process_.knowledge.calls_in_order = tells_calls;
  process_.knowledge.groups = tells_calls;
  process_.knowledge.identities = version->second != "1";
  process_.knowledge.reductions = false;
  process_.knowledge.creations = false;
}

// "mesh_dp:4314d7ee", where the job calls the group "mesh_dp" and NCCL was told a hash. Ranks of
// several groups may call theirs so.
std::string ProcessBuilder::described(std::string name) const {
  constexpr size_t kNameShown = 8;
  const auto found = process_.meta.find("group." + name);
  if (name.empty() || found == process_.meta.end()) return name;
  const std::string& description = found->second;
  const bool says_nothing = description.empty() || description == "undefined";
  if (says_nothing || name.starts_with(description)) return name;
  return description + ":" + name.substr(0, kNameShown);
}

void ProcessBuilder::take_tables() {
  const TickConversion clock = conversion_of(image_.header);
  const auto time = [&](uint64_t ticks) { return ticks == 0 ? 0 : clock.realtime_ns(ticks); };
  for (const ThreadEntry& entry : image_.threads) {
    process_.threads.push_back({entry.tid, field_text(entry.name, sizeof entry.name)});
  }
  for (const CommEntry& entry : image_.comms) {
    Comm comm;
    comm.key = entry.key;
    comm.parent_key = entry.parent_key;
    comm.parent = entry.parent_index;
    comm.origin = entry.origin;
    comm.state = static_cast<CommState>(entry.state);
    comm.child_number = entry.child_number;
    comm.nranks = entry.nranks;
    comm.rank = entry.rank;
    comm.device = entry.device;
    comm.colour = entry.colour;
    comm.split_key = entry.split_key;
    comm.nccl_hash = entry.nccl_hash;
    comm.non_blocking = entry.non_blocking != 0;
    comm.is_in_progress = entry.async_state == kResultInProgress;
    comm.name = described(field_text(entry.name, sizeof entry.name));
    comm.created_ns = time(entry.created_ticks);
    comm.ready_ns = time(entry.ready_ticks);
    comm.ended_ns = time(entry.ended_ticks);
    comm.collectives = entry.collectives;
    comm.sends = entry.sends;
    comm.recvs = entry.recvs;
    comm.phases.operations = entry.phased_operations;
    std::copy(std::begin(entry.phase_ns), std::end(entry.phase_ns), comm.phases.ns);
    process_.comms.push_back(std::move(comm));
  }
}

void ProcessBuilder::take_graphs() {
  const TickConversion clock = conversion_of(image_.header);
  for (const GraphEntry& entry : image_.graphs) {
    Graph graph;
    graph.graph = entry.graph;
    graph.operations = entry.operations;
    graph.launches = entry.launches;
    graph.first_ns = entry.first_ticks == 0 ? 0 : clock.realtime_ns(entry.first_ticks);
    for (uint32_t lane = 0; lane < entry.lanes; ++lane) {
      graph.lanes.push_back({entry.stream[lane], entry.position[lane]});
    }
    process_.graphs.push_back(std::move(graph));
  }
}

void ProcessBuilder::take_phases() {
  for (const KernelPhasesEntry& entry : image_.kernel_phases) {
    PhaseTimes& times = process_.phases.emplace_back();
    times.ticket = entry.ticket;
    times.operations = 1;
    std::copy(std::begin(entry.ns), std::end(entry.ns), times.ns);
  }
}

// In the file they stand where their hash leads.
void ProcessBuilder::take_channels() {
  const TickConversion clock = conversion_of(image_.header);
  for (const ChannelEntry& entry : image_.channels) {
    NetworkChannel& channel = process_.channels.emplace_back();
    channel.comm = entry.comm_index;
    channel.peer = entry.peer;
    channel.channel = entry.channel;
    channel.is_send = entry.is_send != 0;
    channel.waiting = static_cast<ChannelWait>(entry.waiting);
    if (channel.waiting != ChannelWait::none && entry.waiting_since_ticks != 0) {
      channel.waiting_since_ns = clock.realtime_ns(entry.waiting_since_ticks);
    }
    channel.operations_started = entry.operations_started;
    channel.operations_done = entry.operations_done;
    channel.steps = entry.steps_done;
    channel.bytes = entry.bytes;
    std::transform(std::begin(entry.wait_ticks), std::end(entry.wait_ticks), channel.wait_ns,
                   [&](uint64_t ticks) { return clock.span_ns(ticks); });
  }
  std::sort(process_.channels.begin(), process_.channels.end(), [](const auto& a, const auto& b) {
    return std::tie(a.comm, a.peer, b.is_send, a.channel) <
           std::tie(b.comm, b.peer, a.is_send, b.channel);
  });
}

// The operations of a group on one stream share the word of the first of them.
void ProcessBuilder::take_progress() {
  std::map<std::pair<uint32_t, uint64_t>, GpuMark> groups;
  size_t at = 0;
  for (Op& op : process_.ops) {
    if (!op.awaits_gpu) continue;
    while (at < image_.progress.size() && image_.progress[at].first < op.ticket) ++at;
    const bool has_word = at < image_.progress.size() && image_.progress[at].first == op.ticket;
    if (has_word) op.mark = mark_of(image_.progress[at].second, op.ticket);
    if (op.group != 0) op.mark = groups.try_emplace({op.group, op.stream}, op.mark).first->second;
    if (op.state >= OpState::failed) continue;
    if (op.mark == GpuMark::finished) {
      op.state = OpState::finished;
    } else if (op.mark == GpuMark::started) {
      op.state = std::max(op.state, OpState::started);
    }
  }
}

// Of a non-blocking communicator: the call, or the end of its group, came back before NCCL
// launched. Where the GPU is watched the record says whether it has. Else something is known of the
// newest call on a communicator only: what NCCL said when it was asked last.
void ProcessBuilder::take_calls_in_progress() {
  std::set<uint32_t> early_groups;
  std::vector<const Op*> newest(process_.comms.size());
  for (const Op& op : process_.ops) {
    if (op.comm < newest.size()) newest[op.comm] = &op;
    const bool is_end = op.kind == OpKind::GroupEnd;
    if (is_end && op.result == kResultInProgress) early_groups.insert(op.group);
  }
  const auto call_of = [](const Op& op) {
    return std::pair(op.group, op.group != 0 ? 0 : op.ticket);
  };
  std::set<std::pair<uint32_t, uint64_t>> open;
  for (uint32_t comm = 0; comm < newest.size(); ++comm) {
    const bool is_event =
        take_event_in_progress(comm, newest[comm] != nullptr ? newest[comm]->called_ns : 0);
    const bool is_op = process_.comms[comm].is_in_progress && !is_event && newest[comm] != nullptr;
    if (is_op) open.insert(call_of(*newest[comm]));
  }
  for (Op& op : process_.ops) {
    const bool is_early =
        op.group != 0 ? early_groups.count(op.group) != 0 : op.result == kResultInProgress;
    if (!is_early || op.state != OpState::returned) continue;
    if (op.awaits_gpu || open.count(call_of(op)) != 0) op.state = OpState::called;
  }
}

// The newest creation or end on it, where that is newer than its newest operation.
bool ProcessBuilder::take_event_in_progress(uint32_t comm, int64_t newest_op_ns) {
  if (!process_.comms[comm].is_in_progress) return false;
  const auto is_it = [&](const Event& event) {
    return event.comm == comm && goes_on_in_background(event.kind);
  };
  const auto event = std::find_if(process_.events.rbegin(), process_.events.rend(), is_it);
  if (event == process_.events.rend() || event->called_ns < newest_op_ns) return false;
  event->is_in_progress = true;
  return true;
}

void ProcessBuilder::take_events() {
  const TickConversion clock = conversion_of(image_.header);
  for (const EventRecord& record : image_.events) {
    Event event{};
    event.kind = record.kind;
    event.called_ns = clock.realtime_ns(record.called_ticks);
    event.returned_ns = record.returned_ticks == 0 ? 0 : clock.realtime_ns(record.returned_ticks);
    event.ticket = ticket_of(record.publish);
    event.op_ticket = record.op_ticket;
    event.comm = record.comm_index;
    event.thread = record.thread_index;
    event.result = record.result;
    std::copy(std::begin(record.arguments), std::end(record.arguments), event.arguments);
    event.text.assign(record.text, record.text_bytes);
    process_.events.push_back(std::move(event));
  }
}

void ProcessBuilder::take_statistics() {
#define ROLLCALL_X(name, meaning) process_.statistics[#name] = image_.statistics.name;
  ROLLCALL_STATISTICS(ROLLCALL_X)
#undef ROLLCALL_X
}

void ProcessBuilder::allow_file(uint64_t stored_bytes) {
  from_segments_.allow(stored_bytes * kHeldRecordsPerByte);
  captured_.allow(stored_bytes * kHeldRecordsPerByte);
}

// One more than the window: that it is cut is told by there being more.
void ProcessBuilder::limit_to_newest(uint64_t operations) {
  from_segments_.limit(operations + std::min<uint64_t>(1, UINT64_MAX - operations));
}

void ProcessBuilder::add_from_segment(const OpRecord& record) {
  if (is_believable(record, image_)) {
    from_segments_.add(record);
  } else {
    ++unbelievable_;
  }
}

void ProcessBuilder::add_captured(const OpRecord& record) {
  if (is_captured(record) && is_believable(record, image_)) captured_.add(record);
}

// Those of replays that are not through, and others until there are enough captured operations: as
// they were launched, the newest first, then those of which no launch is on file.
ProcessBuilder::Graphs ProcessBuilder::graphs_to_hold(const std::vector<OpRecord>& merged,
                                                      uint64_t captured_max) const {
  std::map<uint32_t, uint64_t> sizes;
  for (const GraphEntry& entry : image_.graphs) sizes[entry.graph] = entry.operations;
  Graphs graphs;
  uint64_t held = 0;
  const auto hold = [&](uint32_t graph) {
    if (graphs.insert(graph).second) held += sizes[graph];
  };
  for (auto record = merged.rbegin(); record != merged.rend(); ++record) {
    if (record->kind != OpKind::GraphLaunch) continue;
    if (held < captured_max || awaits_gpu(*record)) hold(record->graph);
  }
  for (auto entry = image_.graphs.rbegin(); entry != image_.graphs.rend(); ++entry) {
    if (held < captured_max) hold(entry->graph);
  }
  return graphs;
}

// Sorted by ticket, each ticket once. The ring's records are newer words of the same call. A record
// of a segment is marked by a phase that no recorder writes.
void ProcessBuilder::merge(std::vector<OpRecord>& merged) {
  merged = from_segments_.take();
  for (OpRecord& record : merged) record.publish |= kSegmentMark;
  const auto is_in_ring = [at = image_.ops.begin(), this](const OpRecord& record) mutable {
    while (at != image_.ops.end() && ticket(*at) < ticket(record)) ++at;
    return at != image_.ops.end() && ticket(*at) == ticket(record);
  };
  std::erase_if(merged, is_in_ring);
  const auto middle = static_cast<std::ptrdiff_t>(merged.size());
  merged.insert(merged.end(), image_.ops.begin(), image_.ops.end());
  std::inplace_merge(merged.begin(), merged.begin() + middle, merged.end(),
                     [](const OpRecord& a, const OpRecord& b) { return ticket(a) < ticket(b); });
}

// Tickets at the ends of blocks that threads draw on: behind the newest one with a record. Where a
// block has no record any more, it is older than what is on file.
uint64_t ProcessBuilder::unspent(const std::vector<OpRecord>& merged) const {
  uint64_t tickets = 0;
  for (const uint64_t end : image_.open_blocks) {
    const auto behind = first_at_or_behind(merged, end);
    if (behind == merged.begin()) continue;
    const uint64_t behind_newest = end - 1 - ticket(*std::prev(behind));
    if (behind_newest < image_.header.ticket_block) tickets += behind_newest;
  }
  return tickets;
}

// Which tickets have no record? Those that were stepped over or given up never had any, and only
// their number is known: as long as the gaps, counted from the newest, do not exceed it, nothing is
// taken for lost. What threads give up are short gaps, so a long one is none of these.
void ProcessBuilder::account(const std::vector<OpRecord>& merged) {
  // What a live recorder added since the moment of the image is not judged.
  const uint64_t next = process_.next_ticket;
  const auto end = first_at_or_behind(merged, next);
  uint64_t& given_up = process_.statistics["given_up"];
  given_up += unspent(merged);
  const uint64_t stepped_over = image_.statistics.stepped_over + image_.torn;
  const auto on_file = static_cast<uint64_t>(end - merged.begin());
  const uint64_t accounted = on_file + stepped_over + given_up;
  process_.lost = next - 1 > accounted ? next - 1 - accounted : 0;
  if (process_.lost == 0) {
    process_.first_complete_ticket = 1;
    return;
  }
  const uint64_t short_gap = uint64_t{image_.header.ticket_block} * image_.threads.size();
  uint64_t gaps = 0;
  uint64_t short_gaps = 0;
  uint64_t above = next;
  process_.first_complete_ticket = next;
  for (auto record = std::make_reverse_iterator(end); record != merged.rend(); ++record) {
    const uint64_t at = ticket(*record);
    const uint64_t gap = at < above ? above - at - 1 : 0;
    (gap < short_gap ? short_gaps : gaps) += gap;
    if (gaps + (short_gaps - std::min(short_gaps, given_up)) > stepped_over) return;
    process_.first_complete_ticket = at;
    above = at;
  }
}

// Where threads draw tickets in blocks, these order the calls of a thread and of a communicator,
// and the times of the calls those of different ones: a call comes no earlier than the last one of
// its thread and of its communicator, whatever their clocks say.
void ProcessBuilder::order_by_call() {
  if (image_.header.ticket_block == 0) return;
  const size_t threads = process_.threads.size();
  const size_t comms = process_.comms.size();
  std::vector<int64_t> thread_ns(threads);
  std::vector<int64_t> comm_ns(comms);
  std::vector<std::pair<int64_t, Op>> calls;
  calls.reserve(process_.ops.size());
  for (const Op& op : process_.ops) {
    int64_t ns = op.called_ns;
    if (op.thread < threads) ns = std::max(ns, thread_ns[op.thread]);
    if (op.comm < comms) ns = std::max(ns, comm_ns[op.comm]);
    if (op.thread < threads) thread_ns[op.thread] = ns;
    if (op.comm < comms) comm_ns[op.comm] = ns;
    calls.emplace_back(ns, op);
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(calls.begin(), calls.end(), process_.ops.begin(),
                 [](const auto& call) { return call.second; });
}

// What `merged` has already wins.
void ProcessBuilder::merge_captured(std::vector<OpRecord>& merged, const Graphs* graphs) {
  const size_t before = merged.size();
  for (const OpRecord& record : captured_.take()) {
    if (graphs != nullptr && graphs->count(record.graph) == 0) continue;
    merged.push_back(record);
    merged.back().publish |= kSegmentMark;
  }
  if (merged.size() == before) return;
  std::stable_sort(merged.begin(), merged.end(),
                   [](const OpRecord& a, const OpRecord& b) { return ticket(a) < ticket(b); });
  const auto is_same = [](const OpRecord& a, const OpRecord& b) { return ticket(a) == ticket(b); };
  merged.erase(std::unique(merged.begin(), merged.end(), is_same), merged.end());
}

void ProcessBuilder::add_digest(const DigestRecord& record) {
  if (record.gap == 0) return add_digest(record.comm_index, {record.seq, record.digest});
  if (record.comm_index < process_.comms.size()) process_.comms[record.comm_index].digests.clear();
}

void ProcessBuilder::add_digest(size_t comm, const PrefixDigest& digest) {
  constexpr size_t kKept = 8;
  if (comm >= process_.comms.size()) return;
  std::vector<PrefixDigest>& digests = process_.comms[comm].digests;
  // What goes back was written by no recorder.
  if (!digests.empty() && digest.seq <= digests.back().seq) return;
  if (digests.size() == kKept) digests.erase(digests.begin());
  digests.push_back(digest);
}

Process ProcessBuilder::finish(const BuildLimits& limits) {
  std::vector<OpRecord> merged;
  merge(merged);
  const bool is_cut = limits.window != 0 && merged.size() > limits.window;
  const uint64_t first = is_cut ? ticket(merged[merged.size() - limits.window]) : 0;
  const Graphs graphs = graphs_to_hold(merged, limits.captured_max);
  const bool is_whole = limits.window == 0 && limits.captured_max == UINT64_MAX;
  merge_captured(merged, is_whole ? nullptr : &graphs);
  process_.damaged += unbelievable_;
  account(merged);
  // A live recorder goes on handing out tickets while we read.
  if (!merged.empty()) {
    process_.next_ticket = std::max(process_.next_ticket, ticket(merged.back()) + 1);
  }
  const TickConversion clock = conversion_of(image_.header);
  // The profiler plugin holds records too: only where the GPU is watched does that mean an await.
  const auto timing = process_.meta.find("gpu_timing");
  const bool is_watched =
      timing != process_.meta.end() && (timing->second == "events" || timing->second == "progress");
  process_.knowledge.kernel_times = timing != process_.meta.end() && timing->second == "cupti";
  for (const OpRecord& record : merged) {
    if ((record.flags & kOpSimulated) != 0) continue;  // NCCL did not run it
    // An operation in flight is worth more than its age.
    const bool is_in_flight = record.returned_ticks == 0 || awaits_gpu(record);
    const bool is_replayed = is_captured(record) && graphs.count(record.graph) != 0;
    if (ticket(record) < first && !is_in_flight && !is_replayed) continue;
    process_.ops.push_back(op_of(record, clock, (record.publish & kSegmentMark) != 0));
    const bool is_awaited =
        is_watched && record.finished_ticks == 0 && (record.flags & kOpGpuTimesUnknown) == 0;
    process_.ops.back().awaits_gpu &= is_awaited;
  }
  merged = {};
  take_calls_in_progress();
  take_progress();
  // An orderly exit looks at the GPU once more. Without that, what it did since the last look is
  // not known, and what it did not finish ended with the process.
  if (process_.has_left_at_once()) {
    for (Op& op : process_.ops) op.awaits_gpu &= op.mark != GpuMark::none;
  }
  if (is_cut) {
    process_.first_complete_ticket = std::max(process_.first_complete_ticket, first);
  }
  bound_times(process_);
  order_by_call();
  return std::move(process_);
}

}  // namespace rollcall::trace
