// Device memory: anonymous host mappings that cost nothing until touched.
//
// An address of device memory is a host address; the process, its "GPUs" and NVIDIA-free test
// programs all read it directly. What makes dry runs of large models possible: a mapping is
// reserved, not committed; a large zero fill gives the pages back instead of touching them; a copy
// from pages that were never touched gives the destination's pages back. Blocks live in one table
// with its own lock (never taken while the engine's is waited for).
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/include/cuda.h"

namespace emu {

enum class MemoryKind { kDevice, kManaged, kPinned, kRegistered };

struct MemoryBlock {
  uintptr_t address = 0;
  size_t bytes = 0;         // as asked for
  size_t mapped_bytes = 0;  // whole pages; 0 for registered memory, which is the caller's
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  unsigned flags = 0;
  uint64_t id = 0;
  CUmemoryPool pool = nullptr;
};

// Null when the device has not that much left. Zeroed, page-aligned.
void* memory_allocate(size_t bytes, MemoryKind kind, int device, unsigned flags, CUmemoryPool pool);
// False if `address` is not the start of a block of that kind (kManaged is freed as kDevice).
bool memory_free(void* address, MemoryKind kind);
bool memory_register(void* address, size_t bytes, unsigned flags, int device);
bool memory_unregister(void* address);
// The block that contains `address`.
bool memory_find(const void* address, MemoryBlock* block);
// Bytes allocated on a device now.
uint64_t memory_used(int device);

// Moves or fills bytes with the shortcuts above. Any host addresses, known to the table or not.
void memory_copy(void* destination, const void* source, size_t bytes);
void memory_fill(void* address, unsigned value, size_t value_bytes, size_t count);

}  // namespace emu
