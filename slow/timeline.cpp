#include "slow/timeline.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "analysis/record/index.h"

namespace rollcall::slow {
namespace {

using analysis::Index;
using analysis::kNoRecord;
using analysis::Member;
using trace::Op;
using trace::Process;

// A call that took longer is part of no step that anybody compares; a damaged file may hold any.
constexpr int64_t kLongestNs = int64_t{3600} * 1'000'000'000;

class SymbolMaker {
 public:
  void add(uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3 + (hash_ >> 29); }
  // What makes two calls look alike, whoever makes them: no address, which differs between
  // processes. The place of a rank in its pipeline does count, so that its stages are roles of
  // their own.
  void add(const Process& process, const Op& op, uint32_t comm_number) {
    add(static_cast<uint64_t>(op.kind));
    add(op.datatype);
    add(comm_number);
    if (op.comm >= process.comms.size()) return;
    const trace::Comm& comm = process.comms[op.comm];
    add(static_cast<uint64_t>(comm.nranks));
    if (is_p2p(op.kind)) {
      add(static_cast<uint64_t>(comm.rank));
      add(static_cast<uint64_t>(op.root_or_peer));
    }
  }
  uint32_t symbol() const { return static_cast<uint32_t>(hash_ ^ hash_ >> 32); }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

int32_t short_span(int64_t span_ns) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::clamp<int64_t>(span_ns, 0, kMax));
}

// When the stream and the launch had both come: both had where a kernel began. Where NCCL's launch
// is not on file and the stream was reached while the host was still in the call, it happened
// before the call came back: that is taken for it, and how much earlier it may have been is the
// doubt.
void set_arrival(const Op& first, bool is_of_kernel, int64_t returned_ns, int64_t launched_ns,
                 Unit& unit) {
  if (first.started_ns == 0 || first.finished_ns == 0) return;
  const int64_t span_ns = first.finished_ns - first.started_ns;
  if (span_ns < 0 || span_ns > kLongestNs) return;
  int64_t arrived_ns = first.started_ns;
  if (!is_of_kernel) arrived_ns = std::max(arrived_ns, std::min(launched_ns, first.finished_ns));
  if (!is_of_kernel && launched_ns == 0 && returned_ns > first.started_ns) {
    arrived_ns = std::min(returned_ns, first.finished_ns);
    unit.doubt_ns = short_span(arrived_ns - first.started_ns);
  }
  unit.arrived_ns = arrived_ns;
  unit.finished_ns = std::max(first.finished_ns, arrived_ns);
  unit.lead_ns = short_span(arrived_ns - first.called_ns);
}

// Cuts the records of one process into units.
class Cutter {
 public:
  Cutter(const Process& process, uint32_t gpu, Timeline& timeline)
      : process_(process), gpu_(gpu), timeline_(timeline) {
    unit_of_.assign(process.ops.size(), kNone);
  }

  std::vector<uint32_t> cut() {
    for (uint32_t i = 0; i < process_.ops.size();) i = cut_unit(i);
    return std::move(unit_of_);
  }

 private:
  // Members of a group stand next to each other, but for calls of other threads.
  uint32_t cut_unit(uint32_t i) {
    const Op& first = process_.ops[i];
    if (first.kind == OpKind::GraphLaunch) ++timeline_.replays;
    if (!analysis::is_enqueued(first) || unit_of_[i] != kNone) return i + 1;
    Unit unit;
    unit.gpu = gpu_;
    unit.op = i;
    unit.stream = stream_number(first.stream);
    SymbolMaker symbol;
    SymbolMaker sizeless;
    const auto number = static_cast<uint32_t>(timeline_.units.size());
    int64_t returned_ns = first.returned_ns;
    int64_t launched_ns = 0;
    for (uint32_t j = i; j < process_.ops.size(); ++j) {
      const Op& op = process_.ops[j];
      if (op.group != first.group) {
        if (op.thread == first.thread) break;
        continue;
      }
      returned_ns = std::max(returned_ns, op.returned_ns);
      if (op.kind == OpKind::GroupEnd) break;
      if (!analysis::is_enqueued(op)) continue;
      symbol.add(process_, op, comm_number(op.comm));
      symbol.add(op.count);
      sizeless.add(process_, op, comm_number(op.comm));
      unit_of_[j] = number;
      ++unit.operations;
      if (op.result != kResultInProgress) launched_ns = std::max(launched_ns, op.launched_ns);
      if (first.group == 0) break;
    }
    unit.symbol = symbol.symbol();
    unit.sizeless = sizeless.symbol();
    unit.call_ns = short_span(returned_ns - first.called_ns);
    set_arrival(first, process_.knowledge.kernel_times, returned_ns, launched_ns, unit);
    if (!unit.is_timed()) ++timeline_.untimed;
    timeline_.units.push_back(unit);
    return i + 1;
  }

  uint16_t stream_number(uint64_t stream) {
    const auto [known, is_new] =
        streams_.emplace(stream, static_cast<uint16_t>(streams_.size() & 0xffff));
    return known->second;
  }

  // Communicators in the order in which they are used: ranks may have made theirs in another one.
  uint32_t comm_number(uint32_t comm) {
    return comms_.emplace(comm, static_cast<uint32_t>(comms_.size())).first->second;
  }

  const Process& process_;
  const uint32_t gpu_;
  Timeline& timeline_;
  std::map<uint64_t, uint16_t> streams_;
  std::map<uint32_t, uint32_t> comms_;
  std::vector<uint32_t> unit_of_;  // by record
};

// Brings units together.
class Matcher {
 public:
  Matcher(const Index& index, const std::vector<std::vector<uint32_t>>& unit_of, Timeline& timeline)
      : index_(index), unit_of_(unit_of), timeline_(timeline) {}

  void match() {
    for (uint32_t g = 0; g < index_.groups().size(); ++g) match_collectives(g);
    for (const analysis::Channel& channel : index_.channels()) {
      if (!channel.carries_signals && channel.is_counted) match_transfers(channel);
    }
  }

 private:
  uint32_t unit_of(uint32_t process, uint32_t op) const {
    return op == kNoRecord ? kNone : unit_of_[process][op];
  }

  // A member's records from its first one on; what lies before another's first is met by nobody.
  void match_collectives(uint32_t g) {
    const analysis::Group& group = index_.groups()[g];
    timeline_.comms.push_back({.name = group.name, .nranks = group.nranks, .key = group.key});
    if (!group.may_be_matched || group.members.empty()) return;
    if (group.nranks > 0 && !group.is_whole()) {
      timeline_.unrecorded =
          std::max(timeline_.unrecorded, static_cast<uint32_t>(group.nranks) -
                                             static_cast<uint32_t>(group.members.size()));
    }
    uint64_t first = UINT64_MAX;
    uint64_t end = 0;
    for (const Member& member : group.members) {
      if (member.lane.ops.empty()) continue;
      first = std::min(first, member.lane.first);
      end = std::max(end, member.lane.end());
    }
    for (uint64_t seq = first; seq < end; ++seq) {
      if (!meet(g, seq)) seq = next_position(group, seq) - 1;
    }
  }

  static uint64_t next_position(const analysis::Group& group, uint64_t seq) {
    uint64_t next = UINT64_MAX;
    for (const Member& member : group.members) {
      const uint64_t own = member.lane.next(seq + 1);
      if (own > seq) next = std::min(next, own);
    }
    return std::max(next, seq + 1);
  }

  // False: nobody has a record of this position.
  bool meet(uint32_t g, uint64_t seq) {
    const analysis::Group& group = index_.groups()[g];
    Meeting meeting;
    meeting.comm = g;
    meeting.begin = static_cast<uint32_t>(timeline_.seats.size());
    meeting.is_whole = group.is_whole();
    OpKind kind = OpKind::AllReduce;
    int32_t root = -1;
    bool has_record = false;
    uint32_t root_seat = kNone;
    for (const Member& member : group.members) {
      const uint32_t op = member.lane.at(seq);
      const uint32_t unit = unit_of(member.process, op);
      has_record = has_record || op != kNoRecord;
      if (unit == kNone || !timeline_.units[unit].is_timed()) {
        meeting.is_whole = false;
        continue;
      }
      kind = index_.op(member.process, op).kind;
      root = index_.op(member.process, op).root_or_peer;
      if (member.rank == root) root_seat = static_cast<uint32_t>(timeline_.seats.size());
      timeline_.seats.push_back(unit);
    }
    meeting.end = static_cast<uint32_t>(timeline_.seats.size());
    if (traits_of(kind).rooted) {
      // The root stands first; without it nobody knows who waited.
      if (root_seat == kNone)
        meeting.is_whole = false;
      else
        std::swap(timeline_.seats[meeting.begin], timeline_.seats[root_seat]);
      const bool is_from = kind == OpKind::Broadcast || kind == OpKind::Scatter;
      meeting.kind = is_from ? MeetingKind::from_root : MeetingKind::to_root;
    }
    add(meeting);
    return has_record;
  }

  void match_transfers(const analysis::Channel& channel) {
    const uint32_t source = index_.find_member(channel.group, channel.source);
    const uint32_t target = index_.find_member(channel.group, channel.target);
    if (source == analysis::kNone || target == analysis::kNone) return;
    const analysis::Group& group = index_.groups()[channel.group];
    const uint64_t end = channel.first_recv + channel.recvs.size();
    for (uint64_t seq = channel.first_recv; seq < end; ++seq) {
      Meeting meeting;
      meeting.kind = MeetingKind::pair;
      meeting.comm = channel.group;
      meeting.begin = static_cast<uint32_t>(timeline_.seats.size());
      for (const uint32_t unit : {unit_of(group.members[source].process, channel.send_at(seq)),
                                  unit_of(group.members[target].process, channel.recv_at(seq))}) {
        if (unit == kNone || !timeline_.units[unit].is_timed()) continue;
        timeline_.seats.push_back(unit);
      }
      meeting.end = static_cast<uint32_t>(timeline_.seats.size());
      meeting.is_whole = meeting.end - meeting.begin == 2;
      add(meeting);
    }
  }

  void add(Meeting meeting) {
    if (meeting.begin == meeting.end) return;
    int64_t shortest_ns = INT64_MAX;
    for (const uint32_t unit : timeline_.units_of(meeting)) {
      shortest_ns = std::min(shortest_ns, timeline_.units[unit].duration_ns());
    }
    meeting.transfer_ns = shortest_ns;
    timeline_.meetings.push_back(meeting);
  }

  const Index& index_;
  const std::vector<std::vector<uint32_t>>& unit_of_;
  Timeline& timeline_;
};

void list_meetings_of_units(Timeline& timeline) {
  timeline.first_meeting.assign(timeline.units.size() + 1, 0);
  for (const uint32_t unit : timeline.seats) ++timeline.first_meeting[unit + 1];
  for (size_t u = 0; u < timeline.units.size(); ++u) {
    timeline.first_meeting[u + 1] += timeline.first_meeting[u];
  }
  std::vector<uint32_t> next(timeline.first_meeting.begin(), timeline.first_meeting.end() - 1);
  timeline.meetings_of_units.resize(timeline.seats.size());
  for (uint32_t m = 0; m < timeline.meetings.size(); ++m) {
    for (const uint32_t unit : timeline.units_of(timeline.meetings[m])) {
      timeline.meetings_of_units[next[unit]++] = m;
    }
  }
}

// What the launcher told of the number of processes; 0: nothing, or not the same to all of them.
uint32_t told_world_size(const trace::Run& run, const Timeline& timeline) {
  uint32_t told = 0;
  for (const Gpu& gpu : timeline.gpus) {
    const auto& meta = run.processes[gpu.process].meta;
    const auto found = meta.find("world_size");
    if (found == meta.end()) return 0;
    const std::string& text = found->second;
    uint32_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || end != text.data() + text.size()) return 0;
    if (told != 0 && size != told) return 0;
    told = size;
  }
  return told;
}

uint32_t gpus_of_job(const trace::Run& run, const Timeline& timeline) {
  const auto here = static_cast<uint32_t>(timeline.gpus.size());
  const uint32_t told = told_world_size(run, timeline);
  if (timeline.unrecorded == 0 && told <= here) return here;
  const bool has_communicator = std::ranges::any_of(timeline.comms, [&](const TimedComm& comm) {
    return comm.nranks > 0 && static_cast<uint32_t>(comm.nranks) == told;
  });
  const bool has_larger = std::ranges::any_of(timeline.comms, [&](const TimedComm& comm) {
    return comm.nranks > 0 && static_cast<uint32_t>(comm.nranks) > told;
  });
  return told >= here && has_communicator && !has_larger ? told : 0;
}

}  // namespace

Timeline make_timeline(const trace::Run& run) {
  const Index index(run);
  Timeline timeline;
  std::vector<std::vector<uint32_t>> unit_of(run.processes.size());
  for (const uint32_t p : index.active()) {
    Gpu gpu;
    gpu.process = p;
    gpu.rank = run.processes[p].job_rank;
    timeline.is_foreign = timeline.is_foreign || run.processes[p].is_foreign();
    gpu.begin = static_cast<uint32_t>(timeline.units.size());
    unit_of[p] =
        Cutter(run.processes[p], static_cast<uint32_t>(timeline.gpus.size()), timeline).cut();
    gpu.end = static_cast<uint32_t>(timeline.units.size());
    timeline.gpus.push_back(gpu);
  }
  Matcher(index, unit_of, timeline).match();
  timeline.job_gpus = gpus_of_job(run, timeline);
  list_meetings_of_units(timeline);
  return timeline;
}

}  // namespace rollcall::slow
