// One of a few sound runs on disk, in which a fuzzer's input writes over the fields of entries that
// are in use, as the loader reads it.
//
// The input: which run; what is asked of it and what the kernel says of its processes; then
// patches. ROLLCALL_FUZZ_RUN=DIR takes the rings of a recorded run instead.
//
// Threads: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trace/model.h"

namespace rollcall::fuzz {

// nullopt: the input is too short. The files are as they were again when it returns.
std::optional<trace::Run> changed_run(const uint8_t* data, size_t size);

}  // namespace rollcall::fuzz
