#include "report/perfetto/kineto_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "report/perfetto/kineto_events.h"
#include "report/perfetto/lanes.h"
#include "report/perfetto/sequence.h"

namespace rollcall::report::perfetto {
namespace {

// Slices that are looked at for the one in which an arrow begins or ends.
constexpr size_t kNeighbours = 64;

// One packet to be.
struct KinetoPoint {
  int64_t time_ns;
  uint32_t track;  // index into the tracks
  uint32_t item;
  EventType type;
};

class KinetoWriter {
 public:
  KinetoWriter(KinetoEvents events, const KinetoTitle& title, TraceState& state,
               KinetoLosses& losses)
      : events_(std::move(events)),
        title_(title),
        state_(state),
        losses_(losses),
        file_(state.next_uuid) {}

  bool write(const Sink& sink) {
    plan();
    std::stable_sort(points_.begin(), points_.end(),
                     [](const KinetoPoint& one, const KinetoPoint& other) {
                       return one.time_ns < other.time_ns;
                     });
    const int64_t base_ns = points_.empty() ? state_.base_ns : points_.front().time_ns;
    std::string bytes;
    Sequence sequence(bytes, state_.next_sequence++, base_ns, default_track_,
                      std::move(events_.texts));
    for (const Track& track : tracks_) sequence.describe(track);
    while (sequence.write_texts(kChunkBytes)) {
      if (!hand_on(bytes, sink)) return false;
    }
    for (const KinetoPoint& point : points_) {
      sequence.write(event_of(point));
      if (bytes.size() >= kChunkBytes && !hand_on(bytes, sink)) return false;
    }
    return hand_on(bytes, sink);
  }

 private:
  static bool hand_on(std::string& bytes, const Sink& sink) {
    const bool goes_on = sink(bytes);
    bytes.clear();
    return goes_on;
  }

  uint32_t add_track(uint64_t parent, std::string name, uint64_t order) {
    tracks_.push_back(make_track(state_.next_uuid++, parent, std::move(name), order));
    return static_cast<uint32_t>(tracks_.size() - 1);
  }

  void plan() {
    const size_t ends = events_.arrows.size();
    const uint32_t file = add_track(title_.parent, title_.name, title_.order);
    tracks_[file].description = title_.description;
    default_track_ = tracks_[file].uuid;
    std::vector<std::vector<uint32_t>> rows(events_.processes.size());
    for (uint32_t at = 0; at < events_.rows.size(); ++at) {
      const KinetoRow& row = events_.rows[at];
      if (!row.slices.empty() || !row.moments.empty()) rows[row.process].push_back(at);
    }
    uint64_t order = 0;
    for (const uint32_t at : in_order(events_.processes)) {
      if (rows[at].empty()) continue;
      const uint32_t process =
          add_track(tracks_[file].uuid, name_of(events_.processes[at]), ++order);
      const uint64_t parent = tracks_[process].uuid;
      std::sort(rows[at].begin(), rows[at].end(), [&](uint32_t one, uint32_t other) {
        return std::tie(events_.rows[one].order, one) < std::tie(events_.rows[other].order, other);
      });
      for (size_t place = 0; place < rows[at].size(); ++place) {
        plan_row(parent, rows[at][place], place);
      }
    }
    std::sort(arrows_.begin(), arrows_.end());
    const size_t unbound = ends - arrows_.size();
    if (unbound != 0) losses_.left_out["of arrows that touch no slice"] += unbound;
  }

  static std::vector<uint32_t> in_order(const std::vector<KinetoProcess>& processes) {
    std::vector<uint32_t> order(processes.size());
    for (uint32_t at = 0; at < order.size(); ++at) order[at] = at;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t one, uint32_t other) {
      return processes[one].order < processes[other].order;
    });
    return order;
  }

  static std::string name_of(const KinetoProcess& process) {
    std::string name = process.name;
    if (name.empty()) name = "process";
    if (process.id != process.name) name += " " + process.id;
    return process.labels.empty() ? name : fmt::format("{} ({})", name, process.labels);
  }

  void plan_row(uint64_t parent, uint32_t at, uint64_t place) {
    KinetoRow& row = events_.rows[at];
    const std::string name = row.name.empty() ? fmt::format("thread {}", row.id) : row.name;
    bind_arrows(at);
    std::vector<std::vector<Step>> lanes = lanes_of(std::move(row.slices));
    if (lanes.empty()) lanes.emplace_back();  // moments alone
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const uint32_t track = add_track(parent, name, place);
      for (const Step& step : lanes[lane]) {
        points_.push_back({step.time_ns, track, step.item,
                           step.is_begin ? EventType::slice_begin : EventType::slice_end});
      }
      if (lane == 0) {
        for (const auto& [time_ns, item] : row.moments) {
          points_.push_back({time_ns, track, item, EventType::instant});
        }
      }
      if (lanes[lane].size() <= default_size_) continue;
      default_size_ = lanes[lane].size();
      default_track_ = tracks_[track].uuid;
    }
    row = {};
  }

  // An arrow's end belongs to the innermost slice of its row at that time.
  void bind_arrows(uint32_t at) {
    if (arrows_of_rows_.empty() && !events_.arrows.empty()) {
      arrows_of_rows_.resize(events_.rows.size());
      for (const KinetoArrow& arrow : events_.arrows) arrows_of_rows_[arrow.row].push_back(arrow);
      events_.arrows = {};
    }
    if (arrows_of_rows_.empty() || arrows_of_rows_[at].empty()) return;
    std::vector<Slice>& slices = events_.rows[at].slices;
    std::sort(slices.begin(), slices.end(), [](const Slice& one, const Slice& other) {
      return std::tie(one.start_ns, other.end_ns) < std::tie(other.start_ns, one.end_ns);
    });
    for (const KinetoArrow& arrow : arrows_of_rows_[at]) {
      auto behind = std::upper_bound(
          slices.begin(), slices.end(), arrow.time_ns,
          [](int64_t time_ns, const Slice& slice) { return time_ns < slice.start_ns; });
      for (size_t tried = 0; tried < kNeighbours && behind != slices.begin(); ++tried) {
        --behind;
        if (behind->end_ns < arrow.time_ns) continue;
        // Numbers are those of the file: of another one they are other arrows.
        const uint64_t id = (arrow.id ^ (file_ * 0x9e3779b97f4a7c15)) | 1;
        arrows_.emplace_back(behind->item, id);
        break;
      }
    }
    arrows_of_rows_[at] = {};
  }

  Event event_of(const KinetoPoint& point) {
    Event event;
    event.type = point.type;
    event.time_ns = point.time_ns;
    event.track = tracks_[point.track].uuid;
    if (point.type == EventType::slice_end) return event;
    if (point.type == EventType::slice_begin) ++state_.slices;
    const KinetoItem& item = events_.items[point.item];
    event.name = item.name;
    event.category = item.category;
    event.more_arguments =
        std::string_view(events_.arguments).substr(item.arguments, item.argument_bytes);
    const std::pair<uint32_t, uint64_t> first(point.item, 0);
    for (auto at = std::lower_bound(arrows_.begin(), arrows_.end(), first);
         at != arrows_.end() && at->first == point.item; ++at) {
      event.flows.push_back(at->second);
    }
    return event;
  }

  KinetoEvents events_;
  const KinetoTitle& title_;
  TraceState& state_;
  KinetoLosses& losses_;
  const uint64_t file_;  // a number that no other file has
  std::vector<Track> tracks_;
  std::vector<KinetoPoint> points_;
  std::vector<std::vector<KinetoArrow>> arrows_of_rows_;
  std::vector<std::pair<uint32_t, uint64_t>> arrows_;  // item, id; sorted
  uint64_t default_track_ = 0;
  size_t default_size_ = 0;
};

}  // namespace

bool write_kineto(trace::ByteStream& stream, const KinetoTitle& title, TraceState& state,
                  const Sink& sink, KinetoLosses& losses, const KinetoLimits& limits) {
  KinetoEvents events = read_kineto_events(stream, title.offset_ns, limits, losses);
  return KinetoWriter(std::move(events), title, state, losses).write(sink);
}

}  // namespace rollcall::report::perfetto
