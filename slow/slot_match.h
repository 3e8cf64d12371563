// Which calls of a step of one run are which of a step of another one, by role.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rollcall::slow {

// What a call looks like in every run, whatever its communicator is called there.
struct CallLook {
  uint64_t look = 0;
  uint64_t sizeless = 0;  // the same without the number of elements
};

struct SlotMatch {
  // (place in the old step, place in the new one), rising in both but for a rotation.
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::vector<uint32_t> removed;  // places of the old step that the new one has not
  std::vector<uint32_t> added;    // the other way round
  bool sizes_differ = false;      // the pairs are of calls that need not be of one size
  bool is_alike() const { return 2 * pairs.size() > removed.size() + added.size(); }
};

// The longest common subsequence of two steps, each in the order of its calls. A step that begins
// elsewhere in its period is rotated first. Of steps that differ by too much for a table of a few
// million entries nothing is matched.
SlotMatch match_slots(const std::vector<CallLook>& before, const std::vector<CallLook>& after);

}  // namespace rollcall::slow
