// Tells when a job stopped advancing, from the headers of its ring files alone.
//
// A call is recorded before NCCL is entered, so a job in which no process hands out a new ticket
// for a while has every process inside a call, or busy elsewhere. Which of them is the analysis'
// question, not this one's.
#pragma once

#include <cstdint>
#include <string>

namespace rollcall::tools {

class Watch {
 public:
  // `patience_ns` 0: never speaks.
  Watch(std::string directory, int64_t patience_ns)
      : directory_(std::move(directory)), patience_ns_(patience_ns) {}

  // Looks at the files. True when nothing has advanced for the patience, and some process is left
  // that could have; the next time only after as long again.
  bool is_stalled(int64_t now_ns);
  bool enabled() const { return patience_ns_ > 0; }
  // Since when nothing has advanced.
  int64_t since_ns() const { return advanced_ns_; }

 private:
  const std::string directory_;
  const int64_t patience_ns_;
  uint64_t fingerprint_ = 0;
  int64_t advanced_ns_ = 0;  // 0: no record yet
  int64_t spoke_ns_ = 0;
};

}  // namespace rollcall::tools
