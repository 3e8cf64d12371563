// What a process left out beside all others, whose calls are its own but for some of one
// communicator.
//
// Ranks that are in communicators of the same sizes, made in one order, play the same part. So held
// against each other they tell of a slip in the first step, too, which no step before does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

class Beside {
 public:
  explicit Beside(const Facts& facts) : facts_(facts) {}

  struct Omission {
    uint32_t op = kNoRecord;  // of the process: its call where the others have another one
    OpRef left_out;           // the record of that one, of one of them
    uint32_t length = 0;      // calls left out
    uint32_t behind = 0;      // calls on other communicators that it went on with
  };
  // Nothing where it did something else as well, where the others do not agree about it, and where
  // not all of its calls are on file, from the first one on.
  std::optional<Omission> omission_of(uint32_t process);

 private:
  struct Call {
    Signature signature;  // with the place of its communicator
    uint32_t op;
  };
  using Calls = std::vector<Call>;
  const Calls& calls_of(uint32_t process);
  std::optional<Omission> compare(uint32_t process, uint32_t other);
  // Of one communicator, at one place in the calls of the process.
  bool is_same(const Omission& a, const Omission& b) const;
  // Its own steps before have the call there: who did what it always does left nothing out.
  bool is_usual(uint32_t process, uint32_t op);

  const Facts& facts_;
  std::map<uint32_t, Calls> calls_;
  std::map<uint32_t, std::optional<Omission>> known_;
};

}  // namespace rollcall::analysis
