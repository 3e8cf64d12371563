#include "tools/rank_table.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/text.h"
#include "core/format/call_site.h"
#include "core/format/header_check.h"
#include "core/format/vocabulary.h"
#include "tools/ring_files.h"
#include "trace/live_ring.h"
#include "trace/liveness.h"
#include "trace/regular_file.h"
#include "trace/ring_reader.h"

namespace rollcall::tools {
namespace {

class Ring {
 public:
  explicit Ring(const std::string& path) : descriptor_(trace::open_regular(path)) {
    struct stat status {};
    std::byte bytes[sizeof(FileHeader)];
    is_good_ =
        descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 && read(0, bytes, sizeof bytes) &&
        judge_header(bytes, static_cast<uint64_t>(status.st_size), header_) == HeaderVerdict::fine;
  }
  ~Ring() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  bool is_good() const { return is_good_; }
  const FileHeader& header() const { return header_; }
  int descriptor() const { return descriptor_; }
  bool read(uint64_t offset, void* to, size_t bytes) const {
    return ::pread(descriptor_, to, bytes, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(bytes);
  }

 private:
  const int descriptor_;
  FileHeader header_{};
  bool is_good_ = false;
};

std::optional<OpRecord> newest_call(const Ring& ring, uint64_t ticket) {
  OpRecord record{};
  const uint64_t slot = ticket & (ring.header().ring_slots - 1);
  if (ticket == 0 ||
      !ring.read(ring.header().ops.offset + slot * sizeof record, &record, sizeof record) ||
      ticket_of(record.publish) != ticket || record.kind >= OpKind::Count) {
    return std::nullopt;
  }
  return record;
}

CallState state_of(const OpRecord& record) {
  if (record.returned_ticks == 0) return CallState::in_call;
  if (awaits_gpu(record)) return CallState::on_gpu;
  return record.finished_ticks != 0 ? CallState::through : CallState::returned;
}

// When anything was last seen to happen on the communicator.
uint64_t newest_ticks(const CommEntry& entry, const std::optional<OpRecord>& record) {
  uint64_t newest = std::max(entry.created_ticks, entry.ready_ticks);
  if (!record) return newest;
  for (const uint64_t ticks : {record->called_ticks, record->returned_ticks, record->started_ticks,
                               record->finished_ticks}) {
    newest = std::max(newest, ticks);
  }
  return newest;
}

// Takes the call over where it says more than what is there: the oldest in flight, else the newest.
void offer(const CommEntry& entry, const OpRecord& record, int64_t age_ns, uint16_t& frames,
           RankState& rank) {
  const CallState state = state_of(record);
  const bool is_better = is_in_flight(state) != is_in_flight(rank.state)
                             ? is_in_flight(state)
                             : is_in_flight(state) == (age_ns > rank.age_ns);
  if (rank.state != CallState::none && !is_better) return;
  rank.state = state;
  rank.op = name_of(record.kind);
  rank.comm_name = padded_view(entry.name);
  rank.comm = entry.key;
  rank.position = entry.collectives;
  rank.age_ns = age_ns;
  frames = record.frames;
}

using Positions = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;

std::optional<RankState> read_rank(const std::string& path, int64_t realtime_ns,
                                   Positions& furthest) {
  const std::string live = trace::find_live_ring(path).path;
  const Ring ring(live.empty() ? path : live);
  if (!ring.is_good()) return std::nullopt;
  const FileHeader& header = ring.header();
  RankState rank;
  rank.file = path;
  rank.host = padded_view(header.host);
  rank.pid = header.pid;
  rank.liveness = trace::name_of(trace::probe_liveness(header, ring.descriptor()).liveness);
  uint64_t number = 0;
  if (parse_decimal(read_meta(path, header, "job_rank"), number) && number <= INT32_MAX) {
    rank.rank = static_cast<int64_t>(number);
  }
  std::vector<CommEntry> entries(std::min(header.comm_count, header.comms_max));
  if (!ring.read(header.comms.offset, entries.data(), entries.size() * sizeof(CommEntry))) {
    return rank;
  }
  const TickConversion conversion = trace::conversion_of(header);
  const auto age_ns = [&](uint64_t ticks) {
    return std::max<int64_t>(realtime_ns - static_cast<int64_t>(conversion.realtime_ns(ticks)), 0);
  };
  rank.beat_age_ns = age_ns(header.heartbeat_ticks);
  rank.record_age_ns = age_ns(header.first_anchor.ticks);
  uint16_t frames = 0;
  for (const CommEntry& entry : entries) {
    const bool is_ready = entry.state == static_cast<uint32_t>(CommState::ready);
    if (!is_ready && entry.state != static_cast<uint32_t>(CommState::initialising)) continue;
    const auto record = is_ready ? newest_call(ring, entry.last_ticket) : std::nullopt;
    rank.comms.push_back({.key = entry.key,
                          .is_ready = is_ready,
                          .state = record ? state_of(*record) : CallState::none,
                          .position = entry.collectives,
                          .still_ns = age_ns(newest_ticks(entry, record))});
    if (!is_ready) continue;
    uint64_t& most = furthest[{entry.key.high, entry.key.low}];
    most = std::max(most, entry.collectives);
    if (record) offer(entry, *record, age_ns(record->called_ticks), frames, rank);
  }
  if (frames != 0) {
    const std::string site = read_meta(path, header, "frame." + std::to_string(frames));
    rank.line = site.substr(0, site.find(kCallerSeparator));
  }
  return rank;
}

}  // namespace

bool is_in_flight(CallState state) {
  return state == CallState::in_call || state == CallState::on_gpu;
}

std::string_view name_of(CallState state) {
  constexpr std::string_view kNames[] = {"-", "returned", "through", "on GPU", "in call"};
  return kNames[static_cast<size_t>(state)];
}

std::vector<RankState> read_ranks(const std::string& directory, int64_t realtime_ns) {
  std::vector<RankState> ranks;
  Positions furthest;
  for (const std::string& path : list_rings(directory)) {
    std::optional<RankState> rank = read_rank(path, realtime_ns, furthest);
    if (rank) ranks.push_back(std::move(*rank));
  }
  for (RankState& rank : ranks) {
    const uint64_t most = furthest[{rank.comm.high, rank.comm.low}];
    if (!rank.comm.is_null()) rank.lag = most - std::min(most, rank.position);
  }
  const auto key = [](const RankState& rank) {
    const bool is_gone = rank.liveness == "exited";
    const int64_t waited_ns = is_in_flight(rank.state) && !is_gone ? rank.age_ns : 0;
    return std::make_tuple(is_gone, -waited_ns, -static_cast<int64_t>(rank.lag), rank.rank);
  };
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](const RankState& a, const RankState& b) { return key(a) < key(b); });
  return ranks;
}

}  // namespace rollcall::tools
