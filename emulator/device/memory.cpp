#include "emulator/device/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "emulator/device/device.h"
#include "emulator/device/gpu_model.h"

namespace emu {
namespace {

// 4 KiB on most machines; some of aarch64 have 64.
size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}
// Below this a page-table look-up costs more than the copy it may save.
constexpr size_t kDropBytesMin = 64 * 1024;
constexpr int kDevicesMax = 64;

struct Table {
  std::mutex mutex;
  std::map<uintptr_t, MemoryBlock> blocks;
  uint64_t used_bytes[kDevicesMax] = {};
  uint64_t last_id = 0;
};

Table& table() {
  static Table* const made =
      new Table;  // never destroyed: workers may free while the process exits
  return *made;
}

size_t whole_pages(size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

bool counts_as_device(MemoryKind kind) {
  return kind == MemoryKind::kDevice || kind == MemoryKind::kManaged;
}

// One page-table entry per page, 8 bytes: bit 63 present, bit 62 swapped out.
int page_map_file() {
  static const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  return file;
}

// Device or pinned memory of ours: anonymous and private, so dropped pages read as zero.
bool is_ours(const void* address, size_t bytes) {
  MemoryBlock block;
  if (!memory_find(address, &block) || block.mapped_bytes == 0) return false;
  return reinterpret_cast<uintptr_t>(address) + bytes <= block.address + block.mapped_bytes;
}

}  // namespace

void* memory_allocate(size_t bytes, MemoryKind kind, int device, unsigned flags,
                      CUmemoryPool pool) {
  Table& all = table();
  const size_t mapped_bytes = whole_pages(bytes);
  if (mapped_bytes < bytes) return nullptr;
  {
    const std::lock_guard<std::mutex> guard(all.mutex);
    if (counts_as_device(kind)) {
      if (mapped_bytes >
          gpu_memory_bytes() - std::min(gpu_memory_bytes(), all.used_bytes[device])) {
        return nullptr;
      }
      all.used_bytes[device] += mapped_bytes;
    }
  }
  void* address = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const std::lock_guard<std::mutex> guard(all.mutex);
  if (address == MAP_FAILED) {
    if (counts_as_device(kind)) all.used_bytes[device] -= mapped_bytes;
    return nullptr;
  }
  MemoryBlock block;
  block.address = reinterpret_cast<uintptr_t>(address);
  block.bytes = bytes;
  block.mapped_bytes = mapped_bytes;
  block.kind = kind;
  block.device = device;
  block.flags = flags;
  block.id = ++all.last_id;
  block.pool = pool;
  all.blocks[block.address] = block;
  return address;
}

bool memory_free(void* address, MemoryKind kind) {
  Table& all = table();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto found = all.blocks.find(reinterpret_cast<uintptr_t>(address));
  if (found == all.blocks.end()) return false;
  const MemoryBlock block = found->second;
  if (block.kind == MemoryKind::kRegistered) return false;
  if (counts_as_device(block.kind) != counts_as_device(kind)) return false;
  all.blocks.erase(found);
  if (counts_as_device(block.kind)) all.used_bytes[block.device] -= block.mapped_bytes;
  // Under the lock: the address must not be given out again before it has left the table.
  munmap(address, block.mapped_bytes);
  return true;
}

bool memory_register(void* address, size_t bytes, unsigned flags, int device) {
  Table& all = table();
  const std::lock_guard<std::mutex> guard(all.mutex);
  MemoryBlock block;
  block.address = reinterpret_cast<uintptr_t>(address);
  block.bytes = bytes;
  block.kind = MemoryKind::kRegistered;
  block.device = device;
  block.flags = flags;
  block.id = ++all.last_id;
  return all.blocks.emplace(block.address, block).second;
}

bool memory_unregister(void* address) {
  Table& all = table();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto found = all.blocks.find(reinterpret_cast<uintptr_t>(address));
  if (found == all.blocks.end() || found->second.kind != MemoryKind::kRegistered) return false;
  all.blocks.erase(found);
  return true;
}

bool memory_find(const void* address, MemoryBlock* block) {
  Table& all = table();
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> guard(all.mutex);
  auto after = all.blocks.upper_bound(wanted);
  if (after == all.blocks.begin()) return false;
  const MemoryBlock& candidate = std::prev(after)->second;
  if (wanted >= candidate.address + std::max(candidate.bytes, size_t{1})) return false;
  *block = candidate;
  return true;
}

uint64_t memory_used(int device) {
  Table& all = table();
  const std::lock_guard<std::mutex> guard(all.mutex);
  return all.used_bytes[device];
}

void memory_copy(void* destination, const void* source, size_t bytes) {
  if (bytes >= kDropBytesMin && is_ours(destination, bytes) &&
      emu_memory_is_untouched(source, bytes) != 0) {
    emu_memory_drop(destination, bytes);
    return;
  }
  std::memmove(destination, source, bytes);
}

void memory_fill(void* address, unsigned value, size_t value_bytes, size_t count) {
  const size_t bytes = value_bytes * count;
  if (value == 0) {
    emu_memory_drop(address, bytes);
  } else if (value_bytes == 1) {
    std::memset(address, static_cast<int>(value), bytes);
  } else if (value_bytes == 2) {
    std::fill_n(static_cast<uint16_t*>(address), count, static_cast<uint16_t>(value));
  } else {
    std::fill_n(static_cast<uint32_t*>(address), count, value);
  }
}

}  // namespace emu

extern "C" {

int emu_memory_is_device(const void* address) {
  emu::MemoryBlock block;
  return emu::memory_find(address, &block) ? 1 : 0;
}

int emu_memory_is_untouched(const void* address, size_t bytes) {
  const size_t page_bytes = emu::page_bytes();
  if (bytes == 0 || !emu::is_ours(address, bytes)) return 0;
  const int file = emu::page_map_file();
  if (file < 0) return 0;
  constexpr size_t kEntriesPerRead = 512;
  constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62;
  uint64_t entries[kEntriesPerRead];
  const auto first = reinterpret_cast<uintptr_t>(address) / page_bytes;
  const auto last = (reinterpret_cast<uintptr_t>(address) + bytes - 1) / page_bytes;
  for (uintptr_t page = first; page <= last;) {
    const size_t wanted = std::min<size_t>(kEntriesPerRead, last - page + 1);
    const ssize_t got = pread(file, entries, wanted * sizeof(uint64_t),
                              static_cast<off_t>(page * sizeof(uint64_t)));
    if (got < static_cast<ssize_t>(sizeof(uint64_t))) return 0;
    const size_t count = static_cast<size_t>(got) / sizeof(uint64_t);
    for (size_t i = 0; i < count; ++i) {
      if ((entries[i] & kPresentOrSwapped) != 0) return 0;
    }
    page += count;
  }
  return 1;
}

void emu_memory_drop(void* address, size_t bytes) {
  const size_t page_bytes = emu::page_bytes();
  if (bytes < emu::kDropBytesMin || !emu::is_ours(address, bytes)) {
    std::memset(address, 0, bytes);
    return;
  }
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + bytes;
  const uintptr_t first_page = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const uintptr_t end_page = end / page_bytes * page_bytes;
  // An untouched edge page stays untouched: it reads as zero already.
  if (first_page > begin && emu_memory_is_untouched(address, first_page - begin) == 0) {
    std::memset(address, 0, first_page - begin);
  }
  if (end > end_page &&
      emu_memory_is_untouched(reinterpret_cast<void*>(end_page), end - end_page) == 0) {
    std::memset(reinterpret_cast<void*>(end_page), 0, end - end_page);
  }
  void* pages = reinterpret_cast<void*>(first_page);
  if (madvise(pages, end_page - first_page, MADV_DONTNEED) != 0) {
    std::memset(pages, 0, end_page - first_page);  // locked pages cannot be dropped
  }
}

}  // extern "C"
