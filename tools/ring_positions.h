// Where the ranks of a job stand, read from their ring files again and again, and cheaply: of each
// the header, the communicators, and of those that stand still the newest record.
//
// Nothing is mapped: the job may cut a file off, and a read of it then gives fewer bytes where a
// mapping would give SIGBUS. Descriptors are kept, up to a number.
//
// Threads: none. What is read is judged before it is used.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/format/ring_layout.h"
#include "tools/stall.h"

namespace rollcall::tools {

class RingPositions {
 public:
  explicit RingPositions(std::string directory) : directory_(std::move(directory)) {}
  ~RingPositions();
  RingPositions(const RingPositions&) = delete;
  RingPositions& operator=(const RingPositions&) = delete;

  // Of all ranks whose rings can be read.
  Look look(int64_t now_ns);
  // Of everything that moves while a job advances, as at the last look; 0: nothing was recorded.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct CommPlace {
    uint64_t calls = 0;
    int64_t moved_ns = 0;
  };
  struct Ring {
    int descriptor = -1;
    uint64_t tickets = 0;
    int64_t moved_ns = 0;
    int64_t probed_ns = 0;
    Life life = Life::runs;
    std::vector<CommPlace> comms;
  };

  void list(int64_t now_ns);
  void look_at(const std::string& path, Ring& ring, Look& look);
  void add_standings(const FileHeader& header, int descriptor, Ring& ring, Look& look) const;

  const std::string directory_;
  std::map<std::string, Ring> rings_;  // by the path of the ring itself
  std::vector<std::string> listed_;
  int64_t next_list_ns_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace rollcall::tools
