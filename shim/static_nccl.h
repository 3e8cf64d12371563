// A NCCL that is linked into the program cannot be interposed. It can be noticed and reported.
#pragma once

namespace rollcall::shim {

// Called for every symbol lookup: a program that uses a GPU without linking the CUDA driver asks
// for the driver's entry points by name, once. That is the first moment at which a NCCL inside the
// program is worth a search, in the background. Where one is found, and no libnccl.so.2 is loaded,
// coverage "static_nccl" and a warning go to the meta area. One comparison otherwise.
void watch_symbol_for_static_nccl(const char* name) noexcept;

// True when one was reported: then there is a record to complete at exit although no call was made.
bool has_reported_static_nccl() noexcept;

}  // namespace rollcall::shim
