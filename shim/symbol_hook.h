// `dlsym` and `dlvsym` as this library exports them.
//
// Programs that load NCCL with dlopen and ask for its functions by name (JAX, ctypes users,
// nccl4py) never meet the exported nccl* functions; they meet this. The exported symbols are a few
// instructions of assembly (symbol_hook.S): they ask `rollcall_dlsym_decide` and then either jump
// to the real function with everything as it was, return address included, because RTLD_NEXT and
// RTLD_DEFAULT are defined by who called; or return what was decided.
#pragma once

#include <cstdint>

namespace rollcall::shim {

// Two registers, so that the assembly finds both without memory.
struct SymbolDecision {
  void* jump_to;  // the real dlsym or dlvsym; null: return `result`
  void* result;
};
static_assert(sizeof(SymbolDecision) == 16);

extern "C" {
SymbolDecision rollcall_dlsym_decide(void* handle, const char* name) noexcept;
SymbolDecision rollcall_dlvsym_decide(void* handle, const char* name, const char* version) noexcept;
}

}  // namespace rollcall::shim
