// Ranks that may be waiting for somebody whose file is not there.
//
// A call shared with a rank that left no file is taken for finished, or nothing could be said at
// all. Whoever made such a call and then nothing more may in truth stand in it: blaming it for what
// it did not call next would be a guess. What finished behind such a call, on any of the ranks that
// made it, proves that it finished as well.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analysis/index.h"
#include "analysis/progress.h"

namespace rollcall::analysis {

class Doubt {
 public:
  // Linear in records, and empty where every rank of every communicator has a file.
  Doubt(const Index& index, const Progress& progress);
  bool may_wait_for_unknown(uint32_t process) const;

 private:
  struct Stream {
    std::vector<uint32_t> ops;
    size_t proved = 0;  // so many of them have finished for sure
  };
  struct Place {
    uint32_t stream = kNone;
    uint32_t position = 0;
  };

  void fill(uint32_t process);
  bool is_shared_with_unknown(uint32_t process, uint32_t op) const;
  bool is_proof(uint32_t process, uint32_t op) const;
  void raise(uint32_t process, uint32_t stream, size_t proved);
  void spread();

  const Index& index_;
  const Progress& progress_;
  std::vector<std::vector<Stream>> streams_;  // by process
  std::vector<std::vector<Place>> places_;    // by process and op
  struct Raised {
    uint32_t process;
    uint32_t stream;
    size_t from;
  };
  std::vector<Raised> raised_;
};

}  // namespace rollcall::analysis
