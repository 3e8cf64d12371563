#include "trace/equal_prefix.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/limits.h"
#include "core/format/digest.h"
#include "trace/comm_key_order.h"
#include "trace/parcel.h"
#include "trace/ring_reader.h"
#include "trace/segment_reader.h"
#include "trace/workers.h"

namespace rollcall::trace {
namespace {

constexpr uint64_t kFinePeriod = 16;
// Of a rank's calls around a position where the digests part.
constexpr uint64_t kTicketsBefore = 128;
constexpr uint64_t kTicketsBehind = 384;
constexpr uint64_t kRecordTailMin = 64;
// Calls of a ring that came before one that was still in flight: more than any recorder holds back.
constexpr uint64_t kEarlyMax = 1 << 16;
static_assert(kEarlyMax >= 2 * kLateOpsMax);
// The least that a digest takes of a file: its eight bytes are as good as random.
constexpr uint64_t kDigestBytesMin = 8;

// The digest of the calls before a position, and the ticket of the call at it.
struct Mark {
  uint64_t seq = 0;
  uint64_t digest = 0;
  uint64_t ticket = 0;
};

// One communicator as one ring knows it.
struct CommMarks {
  CommKey key{};
  uint64_t called = 0;       // collectives
  std::vector<Mark> coarse;  // from the segments, without gaps, rising
  Mark start;                // the coarse mark that `fine` begins at
  std::vector<Mark> fine;
  // While the records are decoded:
  uint64_t next_seq = 0;
  uint64_t digest = kDigestStart;
  std::map<uint64_t, OpRecord> early;  // came before a call that was still in flight
};

struct RingMarks {
  bool is_readable = false;
  uint64_t next_ticket = 1;
  std::vector<CommMarks> comms;
  uint64_t early = 0;  // in all of them
  uint64_t coarse = 0;
};

template <class Io>
void transfer(Io& io, CommMarks& comm) {
  auto& [key, called, coarse, start, fine, next_seq, digest, early] = comm;
  // `early` is empty between passes.
  transfer_all(io, key, called, coarse, start, fine, next_seq, digest);
}

template <class Io>
void transfer(Io& io, RingMarks& marks) {
  auto& [is_readable, next_ticket, comms, early, coarse] = marks;
  // The counts are of no use behind the reading.
  transfer_all(io, is_readable, next_ticket, comms);
}

// The communicators of a key, as (ring, index).
using Members = std::map<CommKey, std::vector<std::pair<uint32_t, uint32_t>>, CommKeyOrder>;

uint64_t ticket_count(const RingFiles& files) {
  const FileSource source(files.ring);
  FileHeader header{};
  std::vector<Issue> issues;
  if (source.error() != 0 || !read_ring_header(source, files.ring, header, issues)) return 0;
  return header.next_ticket;
}

// Of a large run the first few rings tell.
bool has_more_calls(const std::vector<RingFiles>& rings, uint64_t calls_max) {
  uint64_t calls = 0;
  for (const RingFiles& files : rings) {
    calls += ticket_count(files);
    if (calls > calls_max) return true;
  }
  return false;
}

void read_segments(const RingFiles& files, const SegmentSink& sink) {
  std::vector<Issue> issues;  // said by whoever reads for keeps
  for (const std::string& path : files.segments) {
    const FileSource source(path);
    if (source.error() == 0) read_segment(source, path, {}, sink, issues);
  }
}

bool is_mark_before(const Mark& mark, uint64_t seq) { return mark.seq < seq; }

Mark mark_at(const std::vector<Mark>& marks, uint64_t seq) {
  const auto found = std::lower_bound(marks.begin(), marks.end(), seq, is_mark_before);
  return found == marks.end() || found->seq != seq ? Mark{} : *found;
}

void read_coarse(const RingFiles& files, RingMarks& marks) {
  uint64_t stored_bytes = 0;
  for (const std::string& path : files.segments) {
    const FileSource source(path);
    if (source.error() == 0) stored_bytes += source.stored_bytes();
  }
  SegmentSink sink;
  sink.digest = [&](const DigestRecord& record) {
    if (record.comm_index >= marks.comms.size() || record.gap != 0) return;
    std::vector<Mark>& coarse = marks.comms[record.comm_index].coarse;
    // What goes back was written by no recorder.
    if (!coarse.empty() && record.seq <= coarse.back().seq) return;
    if (marks.coarse >= stored_bytes / kDigestBytesMin) return;
    ++marks.coarse;
    coarse.push_back({record.seq, record.digest, record.ticket});
  };
  read_segments(files, sink);
}

// The last position at which every member has a mark, and all the same; nothing where there is
// none. Equal digests are equal prefixes, so the newest candidates come first and mostly do.
std::optional<Mark> last_common(const std::vector<const std::vector<Mark>*>& members) {
  const std::vector<Mark>& candidates = *members.front();
  for (auto mark = candidates.rbegin(); mark != candidates.rend(); ++mark) {
    const bool is_common = std::all_of(members.begin(), members.end(), [&](const auto* marks) {
      const Mark other = mark_at(*marks, mark->seq);
      return other.seq == mark->seq && other.digest == mark->digest;
    });
    if (is_common) return Mark{mark->seq, mark->digest, 0};
  }
  return {};
}

// One more call of a communicator, in order.
void extend(CommMarks& comm, const OpRecord& record) {
  if (comm.next_seq % kFinePeriod == 0) {
    comm.fine.push_back({comm.next_seq, comm.digest, ticket_of(record.publish)});
  }
  comm.digest = extend_digest(comm.digest, record);
  ++comm.next_seq;
}

void take_record(RingMarks& marks, const OpRecord& record) {
  if (!is_collective(record.kind) || record.comm_index >= marks.comms.size()) return;
  if ((record.flags & kOpSimulated) != 0) return;
  CommMarks& comm = marks.comms[record.comm_index];
  if (record.seq < comm.next_seq) return;
  if (record.seq > comm.next_seq) {
    if (marks.early < kEarlyMax) marks.early += comm.early.emplace(record.seq, record).second;
    return;
  }
  extend(comm, record);
  for (auto first = comm.early.begin(); first != comm.early.end() && first->first == comm.next_seq;
       first = comm.early.begin()) {
    extend(comm, first->second);
    comm.early.erase(first);
    --marks.early;
  }
}

void start_fine(CommMarks& comm, const Mark& start) {
  comm.start = start;
  comm.fine.clear();
  comm.next_seq = start.seq;
  comm.digest = start.seq == 0 ? kDigestStart : start.digest;
}

// The first call whose digest is wanted; UINT64_MAX if there is none.
uint64_t first_wanted(const RingMarks& marks) {
  uint64_t first_ticket = UINT64_MAX;
  for (const CommMarks& comm : marks.comms) {
    if (comm.called != 0) first_ticket = std::min(first_ticket, comm.start.ticket);
  }
  return first_ticket;
}

// Digests of everything behind the marks that the communicators start at.
void read_fine(const RingFiles& files, const RingImage& image, RingMarks& marks) {
  SegmentSink sink;
  sink.first_ticket_wanted = first_wanted(marks);
  sink.with_times = false;
  sink.op = [&](const OpRecord& record) { take_record(marks, record); };
  if (!holds_all_from(image, sink.first_ticket_wanted)) read_segments(files, sink);
  for (const OpRecord& record : image.ops) take_record(marks, record);
  for (CommMarks& comm : marks.comms) {
    // The end is a mark as well: communicators that all left off at one position are equal.
    comm.fine.push_back({comm.next_seq, comm.digest, marks.next_ticket});
    comm.early.clear();
  }
  marks.early = 0;
}

// A record that is read while it is written makes a digest that agrees with no other: more is read
// then, nothing is left out.
bool read_calls(const RingFiles& files, RingImage& image) {
  constexpr bool kWriterMayLive = false;
  std::vector<Issue> issues;  // said by whoever reads for keeps
  const FileSource source(files.ring);
  return source.error() == 0 && read_ring_calls(source, files.ring, kWriterMayLive, image, issues);
}

// Each communicator's fine marks begin at its own newest coarse one, which mostly is the common one
// too.
RingMarks read_marks(const RingFiles& files) {
  RingMarks marks;
  RingImage image;
  if (!read_calls(files, image)) return marks;
  marks.is_readable = true;
  marks.next_ticket = image.header.next_ticket;
  for (const CommEntry& entry : image.comms) {
    CommMarks& comm = marks.comms.emplace_back();
    comm.key = entry.key;
    comm.called = entry.collectives;
  }
  read_coarse(files, marks);
  for (CommMarks& comm : marks.comms) {
    start_fine(comm, comm.coarse.empty() ? Mark{} : comm.coarse.back());
  }
  read_fine(files, image, marks);
  return marks;
}

// Once more, from where the members of the communicators agree.
void read_fine_again(const RingFiles& files, RingMarks& marks) {
  RingImage image;
  if (!marks.is_readable || !read_calls(files, image)) return;
  for (CommMarks& comm : marks.comms) start_fine(comm, comm.start);
  read_fine(files, image, marks);
}

class RecordPlanner {
 public:
  RecordPlanner(const std::vector<RingFiles>& rings, unsigned threads, Team* team)
      : rings_(rings), threads_(threads), team_(team), marks_(rings.size()) {}

  void read() {
    for_each_of_mine([&](size_t i) { marks_[i] = read_marks(rings_[i]); });
    for (uint32_t i = 0; i < marks_.size(); ++i) {
      for (uint32_t c = 0; c < marks_[i].comms.size(); ++c) {
        const CommMarks& comm = marks_[i].comms[c];
        if (!comm.key.is_null() && comm.called != 0) members_[comm.key].emplace_back(i, c);
      }
    }
    std::vector<char> starts_earlier(rings_.size(), 0);
    for (const auto& [key, members] : members_) start_at_common(members, starts_earlier);
    if (std::count(starts_earlier.begin(), starts_earlier.end(), 1) == 0) return;
    for_each_of_mine([&](size_t i) {
      if (starts_earlier[i] != 0) read_fine_again(rings_[i], marks_[i]);
    });
  }

  ReadingPlan plan(uint64_t records_max) const {
    ReadingPlan plan;
    plan.wanted.resize(rings_.size());
    const uint64_t tail =
        std::max(kRecordTailMin, records_max / std::max<size_t>(rings_.size(), 1));
    for (const auto& [key, members] : members_) want_differences(members, tail, plan);
    plan.ends.resize(rings_.size());
    for (size_t i = 0; i < rings_.size(); ++i) {
      for (const CommMarks& comm : marks_[i].comms) {
        const Mark end = comm.fine.empty() ? Mark{} : comm.fine.back();
        plan.ends[i].push_back({end.seq, end.digest});
      }
      std::vector<TicketRange>& ranges = plan.wanted[i];
      if (!marks_[i].is_readable) {
        ranges.clear();
        continue;
      }
      const uint64_t next = marks_[i].next_ticket;
      plan.calls += next - 1;
      ranges.push_back({.begin = next > tail ? next - tail : 1, .end = UINT64_MAX});
      merge(ranges);
      plan.skipped += left_out(ranges, next);
    }
    return plan;
  }

 private:
  // Afterwards every process of a team has all marks: each of them plans the same.
  template <typename Work>
  void for_each_of_mine(const Work& work) {
    for_each_in(my_share(rings_.size(), team_), threads_, work);
    bring_together(team_, marks_);
    hand_out(team_, marks_);
  }

  std::vector<const std::vector<Mark>*> marks_of(
      const std::vector<std::pair<uint32_t, uint32_t>>& members,
      std::vector<Mark> CommMarks::*which) const {
    std::vector<const std::vector<Mark>*> all;
    for (const auto& [ring, comm] : members) all.push_back(&(marks_[ring].comms[comm].*which));
    return all;
  }

  void start_at_common(const std::vector<std::pair<uint32_t, uint32_t>>& members,
                       std::vector<char>& starts_earlier) {
    const std::optional<Mark> common = last_common(marks_of(members, &CommMarks::coarse));
    const uint64_t seq = common ? common->seq : 0;
    for (const auto& [ring, index] : members) {
      CommMarks& comm = marks_[ring].comms[index];
      if (comm.start.seq == seq) continue;
      comm.start = mark_at(comm.coarse, seq);
      starts_earlier[ring] = 1;
    }
  }

  void want_differences(const std::vector<std::pair<uint32_t, uint32_t>>& members, uint64_t tail,
                        ReadingPlan& plan) const {
    const std::optional<Mark> common = last_common(marks_of(members, &CommMarks::fine));
    bool is_equal = common.has_value();
    for (const auto& [ring, index] : members) {
      is_equal = is_equal && marks_[ring].comms[index].called == common->seq;
    }
    if (is_equal) return;
    for (const auto& [ring, index] : members) {
      const CommMarks& comm = marks_[ring].comms[index];
      // Nothing common: the beginning is where they part, or where the records begin.
      const uint64_t ticket = common ? mark_at(comm.fine, common->seq).ticket
                                     : (comm.fine.empty() ? 1 : comm.fine.front().ticket);
      const uint64_t next = marks_[ring].next_ticket;
      if (ticket + tail >= next) continue;
      plan.wanted[ring].push_back({.begin = ticket > kTicketsBefore ? ticket - kTicketsBefore : 1,
                                   .end = ticket + kTicketsBehind});
    }
  }

  static void merge(std::vector<TicketRange>& ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const TicketRange& a, const TicketRange& b) { return a.begin < b.begin; });
    size_t kept = 0;
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].begin <= ranges[kept].end) {
        ranges[kept].end = std::max(ranges[kept].end, ranges[i].end);
      } else {
        ranges[++kept] = ranges[i];
      }
    }
    ranges.resize(kept + 1);
  }

  static uint64_t left_out(const std::vector<TicketRange>& ranges, uint64_t next_ticket) {
    uint64_t kept = 0;
    for (const TicketRange& range : ranges) {
      kept += std::min(range.end, next_ticket) - std::min(range.begin, next_ticket);
    }
    return next_ticket - 1 > kept ? next_ticket - 1 - kept : 0;
  }

  const std::vector<RingFiles>& rings_;
  const unsigned threads_;
  Team* const team_;
  std::vector<RingMarks> marks_;
  Members members_;
};

}  // namespace

ReadingPlan plan_reading(const std::vector<RingFiles>& rings, uint64_t records_max,
                         unsigned threads, Team* team) {
  bool is_large = is_root(team) && has_more_calls(rings, records_max);
  hand_out(team, is_large);
  if (!is_large) return {};
  RecordPlanner planner(rings, threads, team);
  planner.read();
  return planner.plan(records_max);
}

}  // namespace rollcall::trace
