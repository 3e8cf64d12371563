#include "tools/ring_positions.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/base/clock.h"
#include "core/format/header_check.h"
#include "core/format/vocabulary.h"
#include "tools/ring_files.h"
#include "trace/live_ring.h"
#include "trace/liveness.h"
#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

constexpr size_t kDescriptorsMax = 256;
// A call that is a second old is worth a look at its record.
constexpr int64_t kStillNs = 1'000'000'000;
constexpr int64_t kProbeNs = 1'000'000'000;
// So much of the time at most goes into listing the directory.
constexpr int64_t kListPart = 50;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash;
}

template <typename Record>
bool read_at(int descriptor, uint64_t offset, Record* records, size_t count) {
  const size_t bytes = count * sizeof(Record);
  return ::pread(descriptor, records, bytes, static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(bytes);
}

// False: it is no ring that can be read, now.
bool read_whole_header(int descriptor, FileHeader& header) {
  struct stat status {};
  std::byte bytes[sizeof(FileHeader)];
  if (::fstat(descriptor, &status) != 0 || !read_at(descriptor, 0, bytes, sizeof bytes)) {
    return false;
  }
  return judge_header(bytes, static_cast<uint64_t>(status.st_size), header) == HeaderVerdict::fine;
}

uint64_t name_of_process(const FileHeader& header) {
  uint64_t hash = mix(mix(0, header.pid), header.start_time_ticks);
  for (const char c : header.host) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

Life life_of(const FileHeader& header, int descriptor) {
  switch (trace::probe_liveness(header, descriptor).liveness) {
    case trace::Liveness::exited:
      return Life::over;
    case trace::Liveness::dead:
      return Life::dead;
    default:
      return Life::runs;
  }
}

// The newest call on the communicator; nothing where it is not what stands there.
struct NewestCall {
  bool is_known = false;
  OpKind kind = OpKind::AllReduce;
  Progress progress = Progress::through;
};

NewestCall newest_call(const FileHeader& header, int descriptor, uint64_t ticket) {
  OpRecord record{};
  const uint64_t slot = ticket & (header.ring_slots - 1);
  if (ticket == 0 || !read_at(descriptor, header.ops.offset + slot * sizeof record, &record, 1) ||
      ticket_of(record.publish) != ticket || record.kind >= OpKind::Count) {
    return {};
  }
  const bool is_in_flight = is_pinned(phase_number_of(record.publish));
  Progress progress = Progress::returned;
  if (is_in_flight) progress = Progress::inside;
  if (!is_in_flight && record.finished_ticks != 0) progress = Progress::through;
  return {true, record.kind, progress};
}

bool is_in_use(CommState state) {
  return state == CommState::initialising || state == CommState::ready;
}

}  // namespace

RingPositions::~RingPositions() {
  for (const auto& [path, ring] : rings_) {
    if (ring.descriptor >= 0) ::close(ring.descriptor);
  }
}

// A new rank is seen a moment later in a directory that takes long to list.
void RingPositions::list(int64_t now_ns) {
  if (now_ns < next_list_ns_) return;
  const auto begin_ns = static_cast<int64_t>(monotonic_now_ns());
  for (const std::string& path : list_rings(directory_)) {
    if (std::find(listed_.begin(), listed_.end(), path) != listed_.end()) continue;
    listed_.push_back(path);
    // Of a copy the ring itself, which is up to date.
    const std::string live = trace::find_live_ring(path).path;
    rings_.try_emplace(live.empty() ? path : live);
  }
  const int64_t took_ns = static_cast<int64_t>(monotonic_now_ns()) - begin_ns;
  next_list_ns_ = now_ns + took_ns * kListPart;
}

Look RingPositions::look(int64_t now_ns) {
  list(now_ns);
  Look look;
  look.now_ns = now_ns;
  fingerprint_ = 0;
  for (auto& [path, ring] : rings_) look_at(path, ring, look);
  return look;
}

void RingPositions::look_at(const std::string& path, Ring& ring, Look& look) {
  const int descriptor = ring.descriptor >= 0 ? ring.descriptor : trace::open_regular(path);
  if (descriptor < 0) return;
  FileHeader header{};
  if (read_whole_header(descriptor, header)) {
    const uint64_t tickets = mix(header.next_ticket, header.next_event_ticket);
    fingerprint_ = mix(mix(fingerprint_, header.pid), tickets);
    if (tickets != ring.tickets) {
      ring.tickets = tickets;
      ring.moved_ns = look.now_ns;
      ring.life = Life::runs;
    } else if (look.now_ns - ring.moved_ns >= kStillNs &&
               look.now_ns - ring.probed_ns >= kProbeNs) {
      ring.probed_ns = look.now_ns;
      ring.life = life_of(header, descriptor);
    }
    add_standings(header, descriptor, ring, look);
  }
  const auto kept = static_cast<size_t>(std::count_if(
      rings_.begin(), rings_.end(), [](const auto& one) { return one.second.descriptor >= 0; }));
  if (ring.descriptor < 0 && kept < kDescriptorsMax) ring.descriptor = descriptor;
  if (ring.descriptor < 0) ::close(descriptor);
}

void RingPositions::add_standings(const FileHeader& header, int descriptor, Ring& ring,
                                  Look& look) const {
  std::vector<CommEntry> entries(std::min(header.comm_count, header.comms_max));
  if (!read_at(descriptor, header.comms.offset, entries.data(), entries.size())) return;
  ring.comms.resize(entries.size());
  const uint64_t process = name_of_process(header);
  for (size_t at = 0; at < entries.size(); ++at) {
    const CommEntry& entry = entries[at];
    const auto state = static_cast<CommState>(std::min<uint32_t>(entry.state, 255));
    if (!is_in_use(state)) continue;
    Standing standing;
    // Without a key it is this process's alone.
    standing.comm = entry.key.is_null() ? CommKey{process, at} : entry.key;
    standing.process = process;
    standing.life = ring.life;
    if (state == CommState::initialising) {
      standing.lane = Lane::creation;
      standing.progress = Progress::inside;
      look.standings.push_back(standing);
      continue;
    }
    CommPlace& place = ring.comms[at];
    const uint64_t calls = entry.collectives + entry.sends + entry.recvs;
    if (calls != place.calls) place = {calls, look.now_ns};
    const bool is_still = look.now_ns - place.moved_ns >= kStillNs;
    const NewestCall newest =
        is_still ? newest_call(header, descriptor, entry.last_ticket) : NewestCall{};
    standing.position = entry.collectives;
    const bool is_transfer = newest.is_known && is_p2p(newest.kind);
    if (newest.is_known && !is_transfer) standing.progress = newest.progress;
    look.standings.push_back(standing);
    if (entry.sends + entry.recvs == 0) continue;
    standing.lane = Lane::transfers;
    standing.position = entry.sends + entry.recvs;
    standing.progress = is_transfer ? newest.progress : Progress::through;
    look.standings.push_back(standing);
  }
}

}  // namespace rollcall::tools
