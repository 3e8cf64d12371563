// Takes a ring file apart: header, tables, events, operations, each copied and then judged.
//
// The file may be cut off anywhere, be written at this moment, or hold whatever a hostile or broken
// process left in it. What cannot be believed is left out and counted; no field of the image is
// outside the bounds that core/base/limits.h and the header's own counts give it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/format/ring_layout.h"
#include "trace/bytes.h"
#include "trace/model.h"

namespace rollcall::trace {

// From the header's first anchor and its newest one.
TickConversion conversion_of(const FileHeader& header);

struct RingImage {
  FileHeader header{};
  std::string meta;
  SelfStatistics statistics{};
  std::vector<ThreadEntry> threads;
  std::vector<CommEntry> comms;
  std::vector<EventRecord> events;  // by ticket
  std::vector<OpRecord> ops;        // by ticket
  std::vector<GraphEntry> graphs;   // in use
  // Ticket and word of the operations that await the GPU and of which it wrote something.
  std::vector<std::pair<uint64_t, uint64_t>> progress;
  std::vector<KernelPhasesEntry> kernel_phases;  // by ticket
  std::vector<ChannelEntry> channels;            // in use
  std::vector<uint64_t> open_blocks;             // tickets behind the blocks that threads draw on
  uint64_t torn = 0;                             // slots whose writer was interrupted
  uint64_t unbelievable = 0;  // slots with a publish word or fields that no writer stores
};

// What the recorder fills in is within bounds, the communicator is in the table, and the root or
// peer is a rank that a communicator can have: asked of every operation that enters the model, of a
// ring or of a segment.
bool is_believable(const OpRecord& op, const RingImage& image);

// The image holds every call from this one on: no segment is needed for them.
bool holds_all_from(const RingImage& image, uint64_t ticket);

// False when nothing could be read; the reason is then the last of `issues`, marked unusable.
// `writer_may_live`: records may change under our eyes, so each is read until it holds still.
bool read_ring(const ByteSource& source, const std::string& path, bool writer_may_live,
               RingImage& image, std::vector<Issue>& issues);

// The header, the communicators and the operations alone: what tells how far the ranks agree.
bool read_ring_calls(const ByteSource& source, const std::string& path, bool writer_may_live,
                     RingImage& image, std::vector<Issue>& issues);

// The header alone, judged: what a probe of the process needs before the file is read.
bool read_ring_header(const ByteSource& source, const std::string& path, FileHeader& header,
                      std::vector<Issue>& issues);

}  // namespace rollcall::trace
