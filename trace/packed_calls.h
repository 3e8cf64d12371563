// Calls in a few bytes each, for as long as nobody looks at them.
//
// An Op is 120 bytes, and the log of a job that made calls for a day holds tens of millions. But a
// job makes the same calls over and over: a call is stored as the number of its shape, and as what
// is not as it was in front of it. One that repeats a known shape, with its count, at the next
// position, takes a byte while there are few shapes, two up to 1024. Nothing is lost.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/format/vocabulary.h"

namespace rollcall::trace {

// What calls have in common but for their counts and positions.
struct CallShape {
  uint64_t stream = 0;
  int32_t root_or_peer = -1;
  uint32_t comm = 0;
  uint32_t thread = 0;
  // Whose positions rise together, such as the collectives of a communicator; small, from 0.
  uint32_t track = 0;
  OpKind kind = OpKind::AllReduce;
  uint8_t datatype = kUnknown8;
  uint8_t reduction = kUnknown8;

  friend bool operator==(const CallShape&, const CallShape&) = default;
  friend bool operator<(const CallShape& a, const CallShape& b) {
    const auto tied = [](const CallShape& shape) {
      return std::tie(shape.stream, shape.root_or_peer, shape.comm, shape.thread, shape.track,
                      shape.kind, shape.datatype, shape.reduction);
    };
    return tied(a) < tied(b);
  }
};

struct PackedCall {
  uint32_t shape = 0;  // index into shapes()
  uint64_t count = 0;
  uint64_t position = 0;
  bool is_marked = false;  // whatever who packs it means by that
};

class PackedCalls {
 public:
  void add(const CallShape& shape, uint64_t count, uint64_t position, bool is_marked = false);

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::vector<CallShape>& shapes() const { return shapes_; }
  // What it takes in memory, about.
  size_t bytes() const;

  // All calls, one after the other, in the order in which they were added.
  class Reader {
   public:
    explicit Reader(const PackedCalls& calls);
    // False: there are no more.
    bool next(PackedCall& call);

   private:
    uint64_t take();

    const PackedCalls& calls_;
    std::vector<uint64_t> counts_;     // the last one of each shape
    std::vector<uint64_t> positions_;  // of each track
    size_t chunk_ = 0;
    size_t at_ = 0;  // in the chunk
  };

 private:
  uint32_t number_of(const CallShape& shape);
  void put(uint64_t value);

  std::vector<std::vector<uint8_t>> chunks_;
  std::vector<CallShape> shapes_;
  // Ordered: what a log says decides about shapes, and could make hashes collide.
  std::map<CallShape, uint32_t> numbers_;
  std::vector<uint32_t> followers_;  // of each shape the one that came behind it last
  std::vector<uint64_t> counts_;     // the last one of each shape
  std::vector<uint64_t> positions_;  // of each track
  uint32_t last_ = 0;                // shape
  uint64_t size_ = 0;
};

}  // namespace rollcall::trace
