#include "shim/static_nccl.h"

#include <link.h>

#include <atomic>
#include <cstring>

#include "core/base/check.h"
#include "core/capture/library_facts.h"
#include "core/capture/recorder.h"
#include "shim/loader.h"
#include "shim/real_functions.h"

namespace rollcall::shim {
namespace {

// More than any framework's library holds in read-only data; a search this long takes some tens of
// milliseconds, once, in a process that is about to create a CUDA context.
constexpr size_t kSearchBytesMax = 512u << 20;

constexpr char kVersionText[] = "NCCL version 2.";

std::atomic<bool> g_reported{false};

struct Search {
  size_t bytes_left = kSearchBytesMax;
  bool found = false;
};

int search_object(dl_phdr_info* info, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) || !(header.p_flags & PF_R)) continue;
    if (header.p_memsz > search.bytes_left) continue;
    search.bytes_left -= header.p_memsz;
    const char* start = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    if (bytes_look_like_nccl(start, header.p_memsz)) {
      search.found = true;
      return 1;
    }
  }
  return 0;
}

}  // namespace

bool bytes_look_like_nccl(const char* bytes, unsigned long size) noexcept {
  // The library carries its own version with the CUDA it was built for, "NCCL version 2.X.Y+cuda";
  // programs that merely print a version carry the words with a format in place of the numbers.
  const char* end = bytes + size;
  while (bytes < end) {
    const char* hit = static_cast<const char*>(
        memmem(bytes, static_cast<size_t>(end - bytes), kVersionText, sizeof(kVersionText) - 1));
    if (hit == nullptr) return false;
    const char* at = hit + sizeof(kVersionText) - 1;
    while (at < end && ((*at >= '0' && *at <= '9') || *at == '.')) ++at;
    if (end - at >= 5 && memcmp(at, "+cuda", 5) == 0) return true;
    bytes = at;
  }
  return false;
}

bool has_reported_static_nccl() noexcept { return g_reported.load(std::memory_order_relaxed); }

void look_for_static_nccl() noexcept {
  static std::atomic<bool> searched{false};
  if (disabled() || process_has_called()) return;
  if (searched.exchange(true, std::memory_order_relaxed)) return;
  if (capture::loaded_library("libnccl.so.2", false) != nullptr) return;
  Search search;
  dl_iterate_phdr(search_object, &search);
  if (!search.found) return;
  g_reported.store(true, std::memory_order_relaxed);
  capture::add_coverage("static_nccl");
  capture::add_meta("warning",
                    "NCCL is linked statically into this program: its calls cannot be recorded by "
                    "preloading. Use a build that loads libnccl.so.2.");
  maybe(capture::enabled());  // starts the recorder: no call will
}

void watch_symbol_for_static_nccl(const char* name) noexcept {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u') return;
  if (strncmp(name, "cuGetProcAddress", 16) != 0 && strcmp(name, "cuInit") != 0) return;
  look_for_static_nccl();
}

}  // namespace rollcall::shim
