// The dynamic loader as it was before this library put itself in front of it.
//
// This library exports `dlsym` and `dlvsym`, so it must not call either by name. The real ones are
// found by reading the symbol tables of the objects behind this one in link order; that takes no
// lock but the loader's own, allocates nothing and works before any constructor has run, because an
// allocator may be the first to ask.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace rollcall::shim {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);

// Never null on a working glibc; where it is null, symbol lookups answer "not found".
DlsymFunction real_dlsym() noexcept;
DlvsymFunction real_dlvsym() noexcept;

// Where an address belongs. Base 0: nowhere.
struct Owner {
  uintptr_t base = 0;
  const char* path = nullptr;  // the loader's; valid while the object is loaded
};
Owner owner_of(const void* address) noexcept;

}  // namespace rollcall::shim
