// What a miniature NCCL leaves in the file, each time in a process of its own.
#pragma once

#include "tests/abi/mini_nccl.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall::test {

inline RingContents record_and_read(const std::function<void()>& body) {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), body)));
  REQUIRE(directory.files(".ring").size() == 1);
  return read_ring(directory.files(".ring")[0]);
}

}  // namespace rollcall::test
