// Calls whose size changes from step to step, as sequences have their own lengths and experts their
// own tokens: of such a call the steps before tell that it comes, and not how large it is.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/record/index.h"

namespace rollcall::analysis {

// Calls of one process that are alike but for their size: of one operation on one communicator,
// with one datatype, reduction and root or peer.
class ChangingSizes {
 public:
  // Kept by reference. Not for several threads: what is asked of a process is found at the first
  // question, linear in its records.
  explicit ChangingSizes(const Index& index) : index_(index), of_(index.run().processes.size()) {}
  // Hardly any of the later calls like this one has the size of one of the first.
  bool changes(uint32_t process, const trace::Op& op) const;

 private:
  using Kinds = std::unordered_map<uint64_t, bool>;  // by what is alike
  Kinds find(uint32_t process) const;

  const Index& index_;
  mutable std::vector<std::optional<Kinds>> of_;  // by process
};

}  // namespace rollcall::analysis
