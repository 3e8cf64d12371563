#include "trace/ring_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "core/base/limits.h"
#include "core/format/header_check.h"
#include "core/format/record_check.h"

namespace rollcall::trace {

TickConversion conversion_of(const FileHeader& header) {
  // The copy that is not being rewritten.
  const ClockAnchor& latest = header.anchor_count == 0
                                  ? header.first_anchor
                                  : header.latest_anchor[header.anchor_count & 1];
  return {header.clock_kind, header.first_anchor, latest};
}

namespace {

constexpr int kReadAttemptsMax = 8;
constexpr uint32_t kTicketsPerBlockMax = 64;  // more than any recorder draws at once

std::string advice_for(HeaderVerdict verdict, const FileHeader& header, uint64_t size) {
  switch (verdict) {
    case HeaderVerdict::truncated:
      return fmt::format("it has {} bytes; copy it again if it was copied, or delete it", size);
    case HeaderVerdict::unfinished:
      return "if its process is only starting, look again; else delete it";
    case HeaderVerdict::foreign:
      return "move it out of the run directory";
    case HeaderVerdict::other_endianness:
      return "read it with rollcall on a machine like the one it was written on";
    case HeaderVerdict::other_version:
      return fmt::format(
          "it is version {}, this rollcall reads {} to {}; use the rollcall of the "
          "recorder's version",
          header.version, kRingVersionOldest, kRingVersion);
    default:
      return "the file was damaged; copy it again if it was copied";
  }
}

// The whole elements of an array area that the file still has.
template <typename T>
std::vector<T> read_array(const ByteSource& source, uint64_t offset, uint64_t count) {
  const uint64_t available = source.size() > offset ? (source.size() - offset) / sizeof(T) : 0;
  std::vector<T> array(std::min(count, available));
  const size_t got = source.read(offset, array.data(), array.size() * sizeof(T));
  array.resize(got / sizeof(T));
  return array;
}

// The elements of an array area in pieces, each given to take(index of the first, elements), so
// that what a header claims takes no memory where nothing is.
template <typename T, typename Take>
void for_each_piece(const ByteSource& source, uint64_t offset, uint64_t count, const Take& take) {
  constexpr uint64_t kPiece = (1 << 18) / sizeof(T);
  for (uint64_t at = 0; at < count;) {
    const uint64_t here = offset + at * sizeof(T);
    const uint64_t in_hole = (source.data_from(here) - here) / sizeof(T);
    if (in_hole != 0) {
      at += std::min(in_hole, count - at);
      continue;
    }
    auto piece = read_array<T>(source, here, std::min(kPiece, count - at));
    if (piece.empty()) return;
    const uint64_t first = std::exchange(at, at + piece.size());
    take(first, piece);
  }
}

// A table in which entries are used one behind the other: it ends where a stretch of 64 KiB holds
// none that is used, whatever number the header claims.
template <typename T, typename IsUsed>
std::vector<T> read_table(const ByteSource& source, uint64_t offset, uint64_t count,
                          const IsUsed& is_used) {
  constexpr uint64_t kStretch = (1 << 16) / sizeof(T);
  std::vector<T> table;
  while (table.size() < count) {
    const auto stretch = read_array<T>(source, offset + table.size() * sizeof(T),
                                       std::min(kStretch, count - table.size()));
    if (std::none_of(stretch.begin(), stretch.end(), is_used)) break;
    table.insert(table.end(), stretch.begin(), stretch.end());
  }
  return table;
}

std::vector<ThreadEntry> read_threads(const ByteSource& source, const FileHeader& header,
                                      uint32_t count) {
  return read_table<ThreadEntry>(
      source, header.threads.offset, std::min(count, header.threads_max),
      [](const ThreadEntry& entry) { return entry.tid != 0 || entry.open_block != 0; });
}

// Reads are made in their order, but what one read copies may be of several moments: the kernel
// copies with loads that no processor need make in order. So a publish word says nothing of the
// body that came with it, and only what two reads find alike is whole: what the second finds is not
// older than the word of the first, what the first found not newer than the word of the second.
template <typename T>
bool is_alike(const T& first, const T& second) {
  static_assert(std::has_unique_object_representations_v<T>);
  return std::memcmp(&first, &second, sizeof(T)) == 0;
}

// Reads one record until it holds still: the reader's half of the protocol in ring_layout.h.
template <typename Record>
bool settle_record(const ByteSource& source, uint64_t offset, Record& record) {
  for (int attempt = 0; attempt < kReadAttemptsMax; ++attempt) {
    if (source.read(offset, &record, sizeof record) != sizeof record) return false;
    Record again{};
    if (source.read(offset, &again, sizeof again) != sizeof again) return false;
    if (is_alike(record, again)) return true;
  }
  return false;
}

// The recovery table of the format (core/format/record_check.h), with its commonest row in front.
template <typename Record>
RecordVerdict judge_record(const Record& record, const SlotPlace& place, bool settled,
                           bool writer_gone, const RecordBounds& bounds) {
  const RecordFacts facts = facts_of(record, settled, writer_gone, place, bounds);
  const bool is_settled = facts.phase_number == static_cast<uint8_t>(Phase::settled);
  if (is_settled && settled && facts.ticket_plausible && facts.fields_plausible) {
    return RecordVerdict::valid;
  }
  return decide(facts).verdict;
}

template <typename Record>
std::vector<Record> read_records(const ByteSource& source, const FileArea& area, uint64_t slots,
                                 size_t counter_offset, bool writer_may_live,
                                 const RecordBounds& bounds, RingImage& image) {
  constexpr bool kIsOp = std::is_same_v<Record, OpRecord>;
  uint64_t next_ticket = 0;
  source.read(counter_offset, &next_ticket, sizeof next_ticket);
  // The first round fills slots 1, 2, ...; those behind are still zero and need not be read. What a
  // live writer adds from here on is behind the moment this image shows.
  const uint64_t used = std::min(slots, next_ticket);
  std::vector<Record> records;
  std::vector<Record> second;
  for_each_piece<Record>(source, area.offset, used, [&](uint64_t first, auto& piece) {
    const uint64_t offset = area.offset + first * sizeof(Record);
    if (writer_may_live) second = read_array<Record>(source, offset, piece.size());
    // Read again behind the records, or the newest would seem to come from the future.
    source.read(counter_offset, &next_ticket, sizeof next_ticket);
    for (size_t i = 0; i < piece.size(); ++i) {
      Record& record = piece[i];
      bool settled = true;
      if (i < second.size() && !is_alike(record, second[i])) {
        settled = settle_record(source, offset + i * sizeof(Record), record);
        source.read(counter_offset, &next_ticket, sizeof next_ticket);
      }
      const SlotPlace place{.slot = static_cast<uint32_t>(first + i),
                            .slots = static_cast<uint32_t>(slots),
                            .next_ticket = next_ticket};
      switch (judge_record(record, place, settled, !writer_may_live, bounds)) {
        case RecordVerdict::valid:
        case RecordVerdict::in_flight:
          records.push_back(record);
          break;
        case RecordVerdict::torn:
          image.torn += kIsOp;
          break;
        case RecordVerdict::hostile:
          ++image.unbelievable;
          break;
        default:
          break;
      }
    }
  });
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return ticket_of(a.publish) < ticket_of(b.publish);
  });
  return records;
}

void judge_comms(std::vector<CommEntry>& comms) {
  for (CommEntry& comm : comms) {
    if (comm.state >= static_cast<uint32_t>(CommState::Count)) comm.state = 0;
    if (comm.origin >= CommOrigin::Count) comm.origin = CommOrigin::unknown;
    if (comm.nranks < -1 || comm.nranks > static_cast<int32_t>(kRanksMax)) comm.nranks = -1;
    if (comm.rank < -1 || (comm.nranks >= 0 && comm.rank >= comm.nranks)) comm.rank = -1;
    if (comm.parent_index >= comms.size()) comm.parent_index = kCommUnknown;
  }
}

// Entries are used from the first on, and of most jobs none is.
void read_graphs(const ByteSource& source, RingImage& image) {
  constexpr uint32_t kPiece = 256;
  const FileHeader& header = image.header;
  for (uint32_t at = 0; at < header.graphs_max; at += kPiece) {
    const uint64_t offset = header.graphs.offset + uint64_t{at} * sizeof(GraphEntry);
    auto piece = read_array<GraphEntry>(source, offset, std::min(kPiece, header.graphs_max - at));
    std::erase_if(piece, [](const GraphEntry& graph) { return graph.state != 1; });
    if (piece.empty()) break;
    for (GraphEntry& graph : piece) graph.lanes = std::min(graph.lanes, kGraphLanesMax);
    image.graphs.insert(image.graphs.end(), piece.begin(), piece.end());
  }
}

// Only a few operations await the GPU at any moment.
void read_progress(const ByteSource& source, RingImage& image) {
  const FileHeader& header = image.header;
  if (header.progress_slots == 0) return;
  for (const OpRecord& op : image.ops) {
    if (!awaits_gpu(op)) continue;
    const uint64_t ticket = ticket_of(op.publish);
    const uint64_t slot = ticket & (header.progress_slots - 1);
    uint64_t word = 0;
    if (source.read(header.progress.offset + slot * sizeof word, &word, sizeof word) !=
        sizeof word) {
      continue;
    }
    if (mark_of(word, ticket) != GpuMark::none) image.progress.emplace_back(ticket, word);
  }
}

// An entry that changes while it is read belongs to an operation that is newer than this image.
void read_kernel_phases(const ByteSource& source, RingImage& image) {
  const FileHeader& header = image.header;
  const uint64_t offset = header.kernel_phases.offset;
  for_each_piece<KernelPhasesEntry>(
      source, offset, header.kernel_phase_slots, [&](uint64_t first, const auto& piece) {
        const auto again = read_array<KernelPhasesEntry>(
            source, offset + first * sizeof(KernelPhasesEntry), piece.size());
        for (size_t i = 0; i < piece.size(); ++i) {
          const KernelPhasesEntry& entry = piece[i];
          const bool is_used = entry.ticket != 0 && entry.ticket != kKernelPhasesChanging;
          const bool is_at_home = (entry.ticket & (header.kernel_phase_slots - 1)) == first + i;
          const bool is_settled = i < again.size() && is_alike(entry, again[i]);
          if (is_used && is_at_home && is_settled) image.kernel_phases.push_back(entry);
        }
      });
  std::sort(image.kernel_phases.begin(), image.kernel_phases.end(),
            [](const auto& a, const auto& b) { return a.ticket < b.ticket; });
}

// Entries stay where they were made, and each sum is a word of its own: a live writer's are read
// once.
void read_channels(const ByteSource& source, RingImage& image) {
  for_each_piece<ChannelEntry>(source, image.header.channels.offset, image.header.channels_max,
                               [&](uint64_t, const auto& piece) {
                                 std::copy_if(
                                     piece.begin(), piece.end(), std::back_inserter(image.channels),
                                     [](const ChannelEntry& entry) { return entry.state != 0; });
                               });
}

bool is_plausible(const ChannelEntry& entry) {
  if (entry.state != 1 || entry.is_send > 1) return false;
  // The peer may be one behind the last rank.
  if (entry.peer < -1 || entry.peer > static_cast<int32_t>(kRanksMax)) return false;
  return entry.waiting < kChannelWaitCount;
}

bool fits(uint32_t comm_index, const RingImage& image) {
  return comm_index == kCommUnknown || comm_index < image.comms.size();
}

bool fits(const OpRecord& op, const RingImage& image) {
  return fits(op.comm_index, image) && op.root_or_peer < static_cast<int32_t>(kRanksMax);
}

void drop_strays(RingImage& image) {
  image.unbelievable += std::erase_if(
      image.events, [&](const auto& event) { return !fits(event.comm_index, image); });
  image.unbelievable += std::erase_if(image.ops, [&](const auto& op) { return !fits(op, image); });
  image.unbelievable += std::erase_if(image.channels, [&](const auto& entry) {
    return !fits(entry.comm_index, image) || !is_plausible(entry);
  });
}

RecordBounds bounds_of(const FileHeader& header) {
  return {.comms_max = header.comms_max, .threads_max = header.threads_max};
}

// Behind the header, whose next_ticket is the moment that the image shows, and before the
// operations and the statistics: what a live thread holds then is spent or counted by the time that
// those are read, or both.
void read_open_blocks(const ByteSource& source, RingImage& image) {
  const FileHeader& header = image.header;
  if (header.ticket_block == 0 || header.ticket_block > kTicketsPerBlockMax) return;
  constexpr uint64_t kHalf = uint64_t{1} << 32;
  const uint64_t next_ticket = header.next_ticket;
  for (const ThreadEntry& entry : read_threads(source, header, header.thread_count)) {
    if (entry.open_block == 0) continue;
    // The nearest number with this low half: blocks were drawn at about this time.
    uint64_t end = (next_ticket & ~(kHalf - 1)) | entry.open_block;
    if (end > next_ticket && end >= kHalf) end -= kHalf;
    if (end > header.ticket_block && end <= next_ticket) image.open_blocks.push_back(end);
  }
}

void read_ops(const ByteSource& source, bool writer_may_live, RingImage& image) {
  const FileHeader& header = image.header;
  image.ops = read_records<OpRecord>(source, header.ops, header.ring_slots,
                                     offsetof(FileHeader, next_ticket), writer_may_live,
                                     bounds_of(header), image);
}

// The copy of the anchor that counts stays as it is until the count has gone on.
void read_anchors(const ByteSource& source, FileHeader& header) {
  uint64_t again = 0;
  for (int attempt = 0; attempt < kReadAttemptsMax; ++attempt) {
    source.read(offsetof(FileHeader, anchor_count), &header.anchor_count, sizeof again);
    source.read(offsetof(FileHeader, latest_anchor), &header.latest_anchor,
                sizeof header.latest_anchor);
    source.read(offsetof(FileHeader, anchor_count), &again, sizeof again);
    if (again == header.anchor_count) return;
  }
  header.anchor_count = 0;  // the first anchor is whole
}

// The tables are read behind the records that refer to them: entries are only ever appended.
FileHeader late_header(const ByteSource& source, bool writer_may_live, const RingImage& image) {
  FileHeader late = image.header;
  if (writer_may_live) source.read(0, &late, sizeof late);
  return late;
}

void read_comms(const ByteSource& source, const FileHeader& late, RingImage& image) {
  image.comms = read_table<CommEntry>(source, image.header.comms.offset,
                                      std::min(late.comm_count, image.header.comms_max),
                                      [](const CommEntry& entry) { return entry.state != 0; });
  judge_comms(image.comms);
}

}  // namespace

bool is_believable(const OpRecord& op, const RingImage& image) {
  return record_is_valid(op, bounds_of(image.header)) && fits(op, image);
}

bool read_ring_header(const ByteSource& source, const std::string& path, FileHeader& header,
                      std::vector<Issue>& issues) {
  std::array<std::byte, sizeof(FileHeader)> bytes{};
  const size_t got = source.read(0, bytes.data(), bytes.size());
  const auto refuse = [&](std::string text) {
    issues.push_back({.file = path, .text = std::move(text), .lost = 0, .unusable = true});
    return false;
  };
  if (got == 0) return refuse("the file is empty; the disk may have been full: delete it");
  // A file that lost its end still has records in front of the cut: its header is judged against
  // the size it claims, and every read below stops at the size it has.
  uint64_t claimed_bytes = source.size();
  if (got == bytes.size()) {
    std::memcpy(&header, bytes.data(), sizeof header);
    claimed_bytes = std::max(claimed_bytes, header.file_bytes);
  }
  const HeaderVerdict verdict =
      judge_header(std::span<const std::byte>(bytes).first(got), claimed_bytes, header);
  if (verdict != HeaderVerdict::fine) {
    return refuse(
        fmt::format("{}; {}", sentence_of(verdict), advice_for(verdict, header, source.size())));
  }
  if (source.size() < header.file_bytes) {
    issues.push_back({.file = path,
                      .text = fmt::format("the file is cut off after {} of {} bytes; what is left "
                                          "was read; copy it again if it was copied",
                                          source.size(), header.file_bytes)});
  }
  return true;
}

bool holds_all_from(const RingImage& image, uint64_t ticket) {
  ticket = std::max<uint64_t>(ticket, 1);
  const auto at = [&](uint64_t wanted) {
    return std::lower_bound(
        image.ops.begin(), image.ops.end(), wanted,
        [](const OpRecord& record, uint64_t value) { return ticket_of(record.publish) < value; });
  };
  const uint64_t end = image.header.next_ticket;
  return ticket >= end || static_cast<uint64_t>(at(end) - at(ticket)) == end - ticket;
}

bool read_ring_calls(const ByteSource& source, const std::string& path, bool writer_may_live,
                     RingImage& image, std::vector<Issue>& issues) {
  if (!read_ring_header(source, path, image.header, issues)) return false;
  read_ops(source, writer_may_live, image);
  read_comms(source, late_header(source, writer_may_live, image), image);
  drop_strays(image);
  return true;
}

bool read_ring(const ByteSource& source, const std::string& path, bool writer_may_live,
               RingImage& image, std::vector<Issue>& issues) {
  FileHeader& header = image.header;
  if (!read_ring_header(source, path, header, issues)) return false;
  if (writer_may_live) read_anchors(source, header);
  const uint64_t meta_bytes =
      std::min<uint64_t>({header.meta_bytes, header.meta.bytes, kMetaBytesMax});
  image.meta.resize(meta_bytes);
  image.meta.resize(source.read(header.meta.offset, image.meta.data(), meta_bytes));
  image.events = read_records<EventRecord>(source, header.events, header.event_slots,
                                           offsetof(FileHeader, next_event_ticket), writer_may_live,
                                           bounds_of(header), image);
  read_open_blocks(source, image);
  read_ops(source, writer_may_live, image);
  source.read(header.stats.offset, &image.statistics, sizeof image.statistics);
  read_channels(source, image);
  const FileHeader late = late_header(source, writer_may_live, image);
  header.ticket_block = std::min(late.ticket_block, kTicketsPerBlockMax);
  image.threads = read_threads(source, header, late.thread_count);
  read_comms(source, late, image);
  read_graphs(source, image);
  read_progress(source, image);
  read_kernel_phases(source, image);
  drop_strays(image);
  if (image.unbelievable != 0) {
    issues.push_back(
        {.file = path,
         .text = fmt::format("{} records hold values that no recorder writes and were "
                             "left out; the job, or somebody else, wrote into the file, or a newer "
                             "Rollcall did",
                             image.unbelievable),
         .lost = image.unbelievable});
  }
  return true;
}

}  // namespace rollcall::trace
