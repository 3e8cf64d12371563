// Sound runs to begin with, small and of many kinds: what the analysis looks at is rare in a file
// of equal calls.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rollcall::fuzz {

struct RingFile {
  std::string name;
  std::vector<std::byte> bytes;
};
using World = std::vector<RingFile>;  // a ring for each process

std::vector<World> sound_worlds();

}  // namespace rollcall::fuzz
