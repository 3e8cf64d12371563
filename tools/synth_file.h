// Writes the files that the recorder of one synthetic rank would have left: a small ring with the
// newest calls, and segments with everything older, digests included.
//
// The recorder itself is not used: it belongs to a live process with a clock of its own. What is
// shared is the format.
//
// Threads: several writers may write different ranks into one directory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tools/output_file.h"
#include "tools/synth_job.h"

namespace rollcall::tools {

class SynthWriter {
 public:
  // `directory` exists.
  explicit SynthWriter(const std::string& directory);
  ~SynthWriter();
  SynthWriter(const SynthWriter&) = delete;
  SynthWriter& operator=(const SynthWriter&) = delete;

  // False: `error` is the sentence. Memory is bounded, whatever the number of calls.
  bool write(const SynthJob& job, uint32_t rank, std::string& error);
  uint64_t calls_written() const { return calls_; }

 private:
  struct Buffers;
  const OpenDirectory directory_;
  std::unique_ptr<Buffers> buffers_;
  uint64_t calls_ = 0;
};

}  // namespace rollcall::tools
