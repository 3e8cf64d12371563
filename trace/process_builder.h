// Turns the image of a ring and the segments beside it into a Process of the model: merges the two
// by ticket, turns ticks into times, and works out what is missing.
#pragma once

#include <vector>

#include "trace/loader.h"
#include "trace/ring_reader.h"

namespace rollcall::trace {

class ProcessBuilder {
 public:
  ProcessBuilder(const std::string& path, const RingImage& image);

  // An operation of a segment, in any order; the ring's record of the same ticket wins.
  void add_from_segment(const OpRecord& record);
  // Builds; the builder is spent. `window` as in LoadOptions.
  Process finish(uint64_t window);

 private:
  void take_meta();
  void take_tables();
  void take_graphs();
  void take_phases();
  void take_channels();
  void take_calls_in_progress();
  bool take_event_in_progress(uint32_t comm, int64_t newest_op_ns);
  void take_progress();
  void take_events();
  void take_knowledge();
  void take_statistics();
  void merge(std::vector<OpRecord>& merged, size_t& segment_records);
  uint64_t unspent(const std::vector<OpRecord>& merged) const;
  void account(const std::vector<OpRecord>& merged);
  void order_by_call();

  const RingImage& image_;
  Process process_;
  std::vector<OpRecord> from_segments_;
};

}  // namespace rollcall::trace
