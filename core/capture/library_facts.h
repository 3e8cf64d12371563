// What the meta area says about the NCCL and CUDA libraries of this process: the part that can be
// asked of the loaded libraries, so that the shim and the profiler plugin say the same.
#pragma once

namespace rollcall::capture {

// dlsym as the C library has it: librollcall.so exports one of its own, which must not be asked.
using SymbolSearch = void* (*)(void* library, const char* name);

// The handle of a library that is already loaded, null otherwise; a null name is the program. Does
// not load. The library stays loaded for good when `keeps`, otherwise the count is given back at
// once. [cold]
void* loaded_library(const char* name, bool keeps) noexcept;

struct NcclLibrary {
  const char* path = nullptr;
  int (*get_version)(int* version) = nullptr;
  bool is_emulated = false;
};

// nccl_version, nccl_path, emulated; the versions of CUDA's driver and runtime where they are
// loaded already (they are never loaded or initialised here); what the emulated GPU is asked for
// and does not do. [cold]
void add_library_facts(const NcclLibrary& nccl, SymbolSearch find) noexcept;

}  // namespace rollcall::capture
