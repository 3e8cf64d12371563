// Takes a segment file apart, block by block. A block that is cut off, damaged or of an unknown
// kind costs itself; reading goes on behind it where its length can still be believed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/format/ring_layout.h"
#include "core/format/segment_layout.h"
#include "trace/bytes.h"
#include "trace/model.h"

namespace rollcall::trace {

// An empty function: blocks of that kind are passed over, unread.
struct SegmentSink {
  std::function<void(const OpRecord&)> op;
  std::function<void(const DigestRecord&)> digest;
  // Blocks of operations that end before this ticket are skipped without being decoded.
  uint64_t first_ticket_wanted = 0;
  bool with_times = true;  // false: what is called and where, faster
};

// False when not even the header could be used. `header` is judged before `sink` is called;
// `accept` (may be empty) decides whether the file belongs to the ring it lies beside.
bool read_segment(const ByteSource& file, const std::string& path,
                  const std::function<bool(const SegmentHeader&)>& accept, const SegmentSink& sink,
                  std::vector<Issue>& issues);

}  // namespace rollcall::trace
