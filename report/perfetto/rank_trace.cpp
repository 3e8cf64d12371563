#include "report/perfetto/rank_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "report/perfetto/lanes.h"
#include "report/perfetto/rank_state.h"
#include "report/perfetto/sequence.h"
#include "report/terms.h"
#include "statistics/bandwidth.h"

namespace rollcall::report::perfetto {
namespace {

// What a step of a track is about.
enum class Source : uint8_t { call, gpu, phase, event, state, speed };
struct Item {
  Source source;
  uint8_t detail;  // the phase, or the state
  uint32_t index;  // into the operations or events
};

// One packet to be.
struct RankPoint {
  int64_t time_ns;
  uint64_t track;
  EventType type;
  Item item;
  double value;  // of a counter
};

// The slices of one communicator, or of what belongs to none.
struct CommTracks {
  std::vector<Slice> calls;
  std::vector<Slice> gpu;
  std::vector<std::tuple<int64_t, double>> speeds;  // a time, and by how much the speed changes
};

// What the text of a call is made of; many calls have one text.
using CallShape = std::tuple<OpKind, uint64_t, uint8_t, uint8_t, int32_t>;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  return hash ^ (hash >> 27);
}

class RankWriter {
 public:
  RankWriter(const trace::Process& process, const RankTitle& title, TraceState& state)
      : process_(process), title_(title), state_(state), comms_(process.comms.size() + 1) {}

  bool write(const Sink& sink) {
    collect();
    plan();
    int64_t base_ns = state_.base_ns;
    for (const RankPoint& point : points_) base_ns = std::min(base_ns, point.time_ns);
    std::string bytes;
    Sequence sequence(bytes, state_.next_sequence++, base_ns, default_track());
    for (const Track& track : tracks_) sequence.describe(track);
    for (const RankPoint& point : points_) {
      describe(point, sequence);
      sequence.write(event_);
      if (bytes.size() < kChunkBytes) continue;
      if (!sink(bytes)) return false;
      bytes.clear();
    }
    return sink(bytes);
  }

 private:
  // --- what is drawn --------------------------------------------------------------------------
  uint32_t item(Source source, size_t index, size_t detail = 0) {
    items_.push_back({source, static_cast<uint8_t>(detail), static_cast<uint32_t>(index)});
    return static_cast<uint32_t>(items_.size() - 1);
  }

  void collect() {
    for (size_t at = 0; at < process_.ops.size(); ++at) {
      const trace::Op& op = process_.ops[at];
      if (op.called_ns <= 0) continue;
      const bool is_of_comm = !is_mark(op.kind) && op.comm < process_.comms.size();
      CommTracks& tracks = is_of_comm ? comms_[op.comm] : comms_.back();
      // Not known to have returned, and not known not to have: a moment.
      const int64_t end_ns = op.returned_ns > 0              ? op.returned_ns
                             : is_still_inside(process_, op) ? kOpenEnd
                                                             : op.called_ns;
      tracks.calls.push_back({op.called_ns, end_ns, item(Source::call, at)});
      if (op.started_ns > 0 && op.kind != OpKind::GroupEnd) add_gpu(tracks, op, at);
    }
    for (size_t at = 0; at < process_.events.size(); ++at) {
      const trace::Event& event = process_.events[at];
      if (event.called_ns <= 0) continue;
      const int64_t end_ns = event.returned_ns > 0 ? event.returned_ns : kOpenEnd;
      comms_.back().calls.push_back({event.called_ns, end_ns, item(Source::event, at)});
    }
  }

  void add_gpu(CommTracks& tracks, const trace::Op& op, size_t at) {
    const int64_t end_ns = op.finished_ns > 0 ? op.finished_ns : kOpenEnd;
    tracks.gpu.push_back({op.started_ns, end_ns, item(Source::gpu, at)});
    if (op.finished_ns <= op.started_ns) return;
    add_phases(tracks, op, at);
    if (op.group != 0) return;
    const int32_t nranks = op.comm < process_.comms.size() ? process_.comms[op.comm].nranks : -1;
    const auto speed = statistics::bandwidth_of(op, nranks, end_ns - op.started_ns);
    if (!speed) return;
    tracks.speeds.emplace_back(op.started_ns, speed->bus_gbps);
    tracks.speeds.emplace_back(op.finished_ns, -speed->bus_gbps);
  }

  // Inside the operation's slice, whose ends are those of all channels; the phases are their mean.
  void add_phases(CommTracks& tracks, const trace::Op& op, size_t at) {
    const trace::PhaseTimes* times = process_.phases_of(op);
    if (times == nullptr) return;
    int64_t start_ns = op.started_ns;
    for (size_t phase = 0; phase < kKernelPhaseCount; ++phase) {
      const auto left_ns = static_cast<uint64_t>(op.finished_ns - start_ns);
      const auto span_ns = static_cast<int64_t>(std::min(times->ns[phase], left_ns));
      if (span_ns == 0) continue;
      tracks.gpu.push_back({start_ns, start_ns + span_ns, item(Source::phase, at, phase)});
      start_ns += span_ns;
    }
  }

  // --- where it is drawn ----------------------------------------------------------------------
  Track& add_track(uint64_t parent, std::string name, uint64_t order) {
    tracks_.push_back(make_track(state_.next_uuid++, parent, std::move(name), order));
    return tracks_.back();
  }

  void plan() {
    Track& rank = add_track(state_.parent, process_title(process_), title_.order);
    if (!title_.remark.empty()) rank.name += fmt::format(" ({})", title_.remark);
    rank.description = description();
    const uint64_t parent = rank.uuid;
    state_.newest_rank = parent;
    plan_states(parent);
    for (size_t at = 0; at < process_.comms.size(); ++at) {
      if (!comms_[at].calls.empty()) plan_comm(parent, at);
    }
    plan_slices(parent, "other calls", process_.comms.size() + 1, comms_.back().calls);
    // Of equal times each track keeps its order.
    std::stable_sort(
        points_.begin(), points_.end(),
        [](const RankPoint& one, const RankPoint& other) { return one.time_ns < other.time_ns; });
  }

  std::string description() const {
    std::string text = fmt::format("Recorded by {}", process_.recorder);
    if (!process_.clock.empty()) text += fmt::format(", times from {}", process_.clock);
    text += '.';
    if (process_.clock_doubt_ns > 0) {
      text += fmt::format(
          " The clock of {} was wrong: its times were moved, and may still be off by {}.",
          process_.host, duration(process_.clock_doubt_ns));
    } else if (process_.clock_bound_ns > 0) {
      text += fmt::format(
          " The clock of {} agrees with those of the other hosts within {}, as the communicators "
          "prove that they share.",
          process_.host, duration(process_.clock_bound_ns));
    }
    if (!title_.details.empty()) text += " " + title_.details;
    return text;
  }

  // On the rank's own track: viewers show it while what is below it is folded away.
  void plan_states(uint64_t track) {
    RankState before = RankState::outside;
    for (const StateChange& change : states_of(process_)) {
      const Item drawn{Source::state, static_cast<uint8_t>(change.state), 0};
      if (before != RankState::outside) {
        points_.push_back({change.time_ns, track, EventType::slice_end, drawn, 0});
      }
      if (change.state != RankState::outside) {
        points_.push_back({change.time_ns, track, EventType::slice_begin, drawn, 0});
      }
      before = change.state;
    }
  }

  // Viewers draw neighbours of one name as one track, so no two communicators have the same.
  std::string comm_name(const trace::Comm& comm) {
    std::string name = comm.name;
    const auto known = state_.comms.find({comm.key.high, comm.key.low});
    if (name.empty() && known != state_.comms.end()) name = known->second.second;
    if (name.empty()) name = comm.key.is_null() ? "unknown communicator" : "communicator";
    const bool is_taken = !comm_names_.insert(name).second;
    if ((is_taken || name == "communicator") && !comm.key.is_null()) {
      name += " " + key_hex(comm.key).substr(24);
    }
    return name;
  }

  void plan_comm(uint64_t parent, size_t at) {
    const trace::Comm& comm = process_.comms[at];
    Track& track = add_track(parent, comm_name(comm), at + 1);
    track.description = fmt::format("Rank {} of {}, key {}", comm.rank, comm.nranks,
                                    comm.key.is_null() ? "unknown" : key_hex(comm.key));
    const uint64_t group = track.uuid;
    plan_slices(group, "calls", 0, comms_[at].calls);
    plan_slices(group, "GPU", 1, comms_[at].gpu);
    plan_speed(group, comms_[at].speeds);
  }

  void plan_slices(uint64_t parent, std::string_view name, uint64_t order,
                   std::vector<Slice>& slices) {
    for (const std::vector<Step>& lane : lanes_of(std::move(slices))) {
      const uint64_t track = add_track(parent, std::string(name), order).uuid;
      for (const Step& step : lane) {
        const EventType type = step.is_begin ? EventType::slice_begin : EventType::slice_end;
        points_.push_back({step.time_ns, track, type, items_[step.item], 0});
      }
      if (lane.size() > default_size_) {
        default_size_ = lane.size();
        default_track_ = track;
      }
    }
    slices.clear();
  }

  // The sum of what runs side by side on several streams.
  void plan_speed(uint64_t parent, std::vector<std::tuple<int64_t, double>>& speeds) {
    if (speeds.empty()) return;
    std::sort(speeds.begin(), speeds.end());
    Track& track = add_track(parent, "busbw", 2);
    track.is_counter = true;
    track.unit = "GB/s";
    track.axis_share = "busbw";
    track.description =
        "Bus bandwidth as nccl-tests computes it. The time holds the wait for ranks that came "
        "later: the rank that waited least shows the speed.";
    const uint64_t uuid = track.uuid;
    double sum = 0;
    size_t running = 0;
    for (size_t at = 0; at < speeds.size(); ++at) {
      const auto [time_ns, change] = speeds[at];
      sum += change;
      running = change > 0 ? running + 1 : running - 1;
      if (running == 0) sum = 0;  // and not what adding and taking away left over
      if (at + 1 < speeds.size() && std::get<0>(speeds[at + 1]) == time_ns) continue;
      points_.push_back({time_ns, uuid, EventType::counter, {Source::speed, 0, 0}, sum});
    }
  }

  uint64_t default_track() const { return default_track_; }

  // --- how it is written ----------------------------------------------------------------------
  // event_, which keeps its memory from point to point.
  void describe(const RankPoint& point, Sequence& sequence) {
    Event& event = event_;
    event.type = point.type;
    event.time_ns = point.time_ns;
    event.track = point.track;
    event.category = 0;
    event.name = 0;
    event.correlation = 0;
    event.value = point.value;
    event.flows.clear();
    event.arguments.clear();
    if (point.type != EventType::slice_begin) return;
    ++state_.slices;
    const auto name = [&](std::string_view category, std::string_view text) {
      event.category = sequence.intern(Vocabulary::category, category);
      event.name = sequence.intern(Vocabulary::name, text);
    };
    switch (point.item.source) {
      case Source::call:
      case Source::gpu:
        name(point.item.source == Source::call ? "call" : "gpu",
             name_of(process_.ops[point.item.index].kind));
        describe_op(process_.ops[point.item.index], point.item.source, event, sequence);
        break;
      case Source::phase:
        name("phase", kKernelPhases[point.item.detail]);
        break;
      case Source::event:
        name("event", name_of(process_.events[point.item.index].kind));
        describe_event(process_.events[point.item.index], event, sequence);
        break;
      case Source::state:
      case Source::speed:
        name("state", kRankStates[point.item.detail]);
        break;
    }
  }

  static void add_text(Event& event, Sequence& sequence, std::string_view name,
                       std::string_view text) {
    event.arguments.push_back({.name = sequence.intern(Vocabulary::argument_name, name),
                               .type = ArgumentType::text,
                               .value = sequence.intern(Vocabulary::text, text)});
  }
  static void add_number(Event& event, Sequence& sequence, std::string_view name, uint64_t value) {
    event.arguments.push_back(
        {.name = sequence.intern(Vocabulary::argument_name, name), .value = value});
  }

  void describe_op(const trace::Op& op, Source source, Event& event, Sequence& sequence) {
    const bool is_counted = (op.flags & kOpSeqUnknown) == 0;
    if (is_collective(op.kind) && is_counted) add_number(event, sequence, "seq", op.seq);
    if (is_p2p(op.kind) && is_counted) add_number(event, sequence, "p2p_seq", op.seq);
    if (is_mark(op.kind)) return;
    event.arguments.push_back({.name = sequence.intern(Vocabulary::argument_name, "call"),
                               .type = ArgumentType::text,
                               .value = call_text_of(op, sequence)});
    join(op, source, event);
    if (source == Source::gpu) {
      if (const std::string kernel = kernel_name(process_, op); !kernel.empty()) {
        add_text(event, sequence, "kernel", kernel);
      }
      return;
    }
    if (const auto told = title_.kineto_names.find(op.ticket); told != title_.kineto_names.end()) {
      const auto [external, seq] = told->second;
      if (external >= 0)
        add_number(event, sequence, "External id", static_cast<uint64_t>(external));
      if (seq >= 0) add_number(event, sequence, "Seq", static_cast<uint64_t>(seq));
    }
    if (const uint64_t line = line_of(op, sequence); line != 0) {
      event.arguments.push_back({.name = sequence.intern(Vocabulary::argument_name, "line"),
                                 .type = ArgumentType::text,
                                 .value = line});
    }
    if (op.result != kResultUnknown && op.result != kResultSuccess) {
      add_text(event, sequence, "result", name_of_result(op.result));
    }
    if (op.returned_ns == 0) add_text(event, sequence, "state", trace::name_of(op.state));
    if (op.thread != process_.ops.front().thread && op.thread < process_.threads.size()) {
      add_text(event, sequence, "thread", process_.threads[op.thread].name);
    }
  }

  void describe_event(const trace::Event& told, Event& event, Sequence& sequence) const {
    if (told.comm < process_.comms.size() && !process_.comms[told.comm].key.is_null()) {
      add_text(event, sequence, "comm_key", key_hex(process_.comms[told.comm].key));
    }
    if (told.result != kResultUnknown && told.result != kResultSuccess) {
      add_text(event, sequence, "result", name_of_result(told.result));
    }
    if (!told.text.empty()) add_text(event, sequence, "text", told.text);
  }

  uint64_t call_text_of(const trace::Op& op, Sequence& sequence) {
    const CallShape shape(op.kind, op.count, op.datatype, op.reduction, op.root_or_peer);
    const auto [found, is_new] = calls_.emplace(shape, 0);
    if (is_new) found->second = sequence.intern(Vocabulary::text, call_in_words(op));
    return found->second;
  }

  // Interned, by the number of the recorded line; 0: none.
  uint64_t line_of(const trace::Op& op, Sequence& sequence) {
    if (op.frames == 0) return 0;
    const auto [found, is_new] = lines_.emplace(op.frames, 0);
    if (is_new) {
      const auto text = process_.meta.find(fmt::format("frame.{}", op.frames));
      if (text != process_.meta.end()) {
        found->second = sequence.intern(Vocabulary::text, text->second);
      }
    }
    return found->second;
  }

  // A collective is one number on all its ranks; a send and its receive are joined by an arrow.
  void join(const trace::Op& op, Source source, Event& event) const {
    if (op.comm >= process_.comms.size() || (op.flags & kOpSeqUnknown) != 0) return;
    const trace::Comm& comm = process_.comms[op.comm];
    const auto known = state_.comms.find({comm.key.high, comm.key.low});
    if (known == state_.comms.end()) return;
    if (is_collective(op.kind)) {
      event.correlation = 1 + known->second.first + state_.comms.size() * op.seq;
    } else if (is_p2p(op.kind) && source == Source::call) {
      const bool sends = op.kind == OpKind::Send;
      const int32_t from = sends ? comm.rank : op.root_or_peer;
      const int32_t to = sends ? op.root_or_peer : comm.rank;
      const uint64_t pair = uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
      event.flows.push_back(mixed(mixed(mixed(comm.key.high, comm.key.low), op.seq), pair) | 1);
    }
  }

  const trace::Process& process_;
  const RankTitle& title_;
  TraceState& state_;
  std::vector<CommTracks> comms_;  // by communicator; the last one has what belongs to none
  std::vector<Item> items_;
  std::vector<Track> tracks_;
  std::vector<RankPoint> points_;
  Event event_;
  uint64_t default_track_ = 0;
  size_t default_size_ = 0;
  std::set<std::string> comm_names_;
  std::map<CallShape, uint64_t> calls_;
  std::map<uint16_t, uint64_t> lines_;
};

}  // namespace

bool write_rank(const trace::Process& process, const RankTitle& title, TraceState& state,
                const Sink& sink) {
  return RankWriter(process, title, state).write(sink);
}

}  // namespace rollcall::report::perfetto
