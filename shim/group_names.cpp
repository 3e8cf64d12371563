// What the job calls its groups of ranks. NCCL is told a name by some callers and a bare number or
// a hash by others, PyTorch's newer backend among them; what the user called the group only the
// framework knows, and tells here (packaging/python/rollcall_nccl/torch.py does).
//
// Exported, and called by whoever finds it with dlsym. May be called before NCCL is, and from any
// thread; never from a signal handler. [cold]
#include <cstring>

#include "core/base/text.h"
#include "core/capture/process.h"
#include "core/format/ring_layout.h"

namespace rollcall::shim {
namespace {

// Of a description; what is longer is refused, for a part of it may be the name of another.
constexpr size_t kDescriptionBytesMax = 64;

// Keys of the meta area are not escaped.
bool is_plain(const char* text, size_t bytes) noexcept {
  for (size_t i = 0; i < bytes; ++i) {
    if (text[i] <= ' ' || text[i] > '~' || text[i] == '=') return false;
  }
  return bytes != 0;
}

}  // namespace
}  // namespace rollcall::shim

// `name`: what NCCL is told, ncclConfig_t::commName; as much of it counts as a record holds.
// Returns 1, or 0 where it is not taken: a null pointer, blanks or "=" in the name, an empty or
// long description. What finds no room in the record is left out, and counted there as all text is.
extern "C" __attribute__((visibility("default"))) int rollcall_name_group(
    const char* name, const char* description) noexcept {
  using namespace rollcall;
  if (name == nullptr || description == nullptr) return 0;
  const size_t bytes = strnlen(name, kCommNameBytes - 1);
  const size_t description_bytes = strnlen(description, shim::kDescriptionBytesMax + 1);
  const bool fits = description_bytes != 0 && description_bytes <= shim::kDescriptionBytesMax;
  if (!fits || !shim::is_plain(name, bytes)) return 0;
  TextBuffer<64> key;
  key.text("group.").text({name, bytes});
  // A forked child makes groups of its own.
  if (!capture::add_file_meta(key.c_str(), description)) {
    capture::add_meta(key.c_str(), description);
  }
  return 1;
}
