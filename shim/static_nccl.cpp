#include "shim/static_nccl.h"

#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/base/check.h"
#include "core/capture/background_thread.h"
#include "core/capture/library_facts.h"
#include "core/capture/operations.h"
#include "core/capture/process.h"
#include "shim/comm_config.h"
#include "shim/real_functions.h"

namespace rollcall::shim {
namespace {

// More than any framework's library holds in read-only data.
constexpr size_t kSearchBytesMax = 512u << 20;
// Objects of one process, three pieces each; PyTorch loads about 150.
constexpr unsigned kPiecesMax = 1024;

constexpr char kVersionText[] = "NCCL version 2.";
// With the numbers and "+cuda". So much of a piece is looked at twice, for a text that lies across.
constexpr size_t kWholeTextBytes = 64;

std::atomic<bool> g_reported{false};

struct Piece {
  const char* start;
  size_t bytes;
};
Piece g_pieces[kPiecesMax];
unsigned g_piece_count = 0;

int collect_pieces(dl_phdr_info* info, size_t, void* data) {
  size_t& bytes_left = *static_cast<size_t*>(data);
  for (int i = 0; i < info->dlpi_phnum && g_piece_count < kPiecesMax; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) || !(header.p_flags & PF_R)) continue;
    if (header.p_memsz > bytes_left) continue;
    bytes_left -= header.p_memsz;
    g_pieces[g_piece_count++] = {reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr),
                                 header.p_memsz};
  }
  return 0;
}

bool bytes_look_like_nccl(const char* bytes, size_t size) {
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

bool piece_looks_like_nccl(const Piece& piece) {
  static char bytes[kReadableBytesMax];
  for (size_t at = 0; at < piece.bytes; at += sizeof(bytes) - kWholeTextBytes) {
    const size_t wanted = std::min(piece.bytes - at, sizeof(bytes));
    const size_t readable = copy_if_readable(bytes, piece.start + at, wanted);
    if (bytes_look_like_nccl(bytes, readable)) return true;
    if (readable != wanted) return false;  // its library was unloaded
  }
  return false;
}

void* search_pieces(void*) {
  Piece* end = g_pieces + g_piece_count;
  if (std::none_of(g_pieces, end, piece_looks_like_nccl) || process_has_called()) return nullptr;
  g_reported.store(true, std::memory_order_relaxed);
  capture::add_coverage("static_nccl");
  capture::add_meta("warning",
                    "NCCL is linked statically into this program: its calls cannot be recorded by "
                    "preloading. Use a build that loads libnccl.so.2.");
  maybe(capture::enabled());  // starts the recorder: no call will
  return nullptr;
}

// Once per process. The pieces are searched by a thread of its own, and read as what may be gone by
// then: they may have to come over a network first, and neither the job's look-up nor the loader's
// lock waits for that. A program that ends before it is through leaves no record.
void look_for_static_nccl() {
  static std::atomic<bool> searched{false};
  if (disabled() || process_has_called()) return;
  if (searched.exchange(true, std::memory_order_relaxed)) return;
  if (capture::loaded_library("libnccl.so.2", false) != nullptr) return;
  size_t bytes_left = kSearchBytesMax;
  dl_iterate_phdr(collect_pieces, &bytes_left);
  capture::start_background_thread("rollcall-search", search_pieces, nullptr);
}

}  // namespace

bool has_reported_static_nccl() noexcept { return g_reported.load(std::memory_order_relaxed); }

void watch_symbol_for_static_nccl(const char* name) noexcept {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u') return;
  if (strncmp(name, "cuGetProcAddress", 16) != 0 && strcmp(name, "cuInit") != 0) return;
  look_for_static_nccl();
}

}  // namespace rollcall::shim
