// Turns the image of a ring and the segments beside it into a Process of the model: merges the two
// by ticket, turns ticks into times, and works out what is missing.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "core/format/segment_layout.h"
#include "trace/held_records.h"
#include "trace/loader.h"
#include "trace/ring_reader.h"

namespace rollcall::trace {

// Of what is on file.
struct BuildLimits {
  uint64_t window = 0;  // as in LoadOptions
  // Captured operations that are held beside the newest ones, about; what tells of a replay that
  // runs, or of the newest one, is held in any case.
  uint64_t captured_max = UINT64_MAX;
};

class ProcessBuilder {
 public:
  ProcessBuilder(const std::string& path, const RingImage& image);

  // Before records are added: room for those of a file of so many bytes, or for so many of the
  // newest whatever the files.
  void allow_file(uint64_t stored_bytes);
  void limit_to_newest(uint64_t operations);
  // An operation of a segment, in any order; the ring's record of the same ticket wins.
  void add_from_segment(const OpRecord& record);
  // The same for a captured one that is wanted where its graph is replayed by what else is held.
  void add_captured(const OpRecord& record);
  // A digest of a segment, in the order in which they were written.
  void add_digest(const DigestRecord& record);
  // The same of the communicator at this index, computed from its records.
  void add_digest(size_t comm, const PrefixDigest& digest);
  // Records of segments that had no room.
  uint64_t left_out() const { return from_segments_.left_out() + captured_.left_out(); }
  // Of segments, and hold what no recorder writes.
  uint64_t unbelievable() const { return unbelievable_; }
  // Builds; the builder is spent.
  Process finish(const BuildLimits& limits);

 private:
  void take_meta();
  void take_tables();
  std::string described(std::string name) const;
  void take_graphs();
  void take_phases();
  void take_channels();
  void take_calls_in_progress();
  bool take_event_in_progress(uint32_t comm, int64_t newest_op_ns);
  void take_progress();
  void take_events();
  void take_knowledge();
  void take_statistics();
  using Graphs = std::set<uint32_t>;
  void merge(std::vector<OpRecord>& merged);
  Graphs graphs_to_hold(const std::vector<OpRecord>& merged, uint64_t captured_max) const;
  void merge_captured(std::vector<OpRecord>& merged, const Graphs* graphs);
  uint64_t unspent(const std::vector<OpRecord>& merged) const;
  void account(const std::vector<OpRecord>& merged);
  void order_by_call();

  const RingImage& image_;
  Process process_;
  HeldRecords from_segments_;
  HeldRecords captured_;
  uint64_t unbelievable_ = 0;
};

}  // namespace rollcall::trace
