#include "shim/python_frames.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/config.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/capture/recorder.h"
#include "core/format/call_site.h"
#include "shim/call_flags.h"
#include "shim/comm_config.h"
#include "shim/loader.h"

namespace rollcall::shim {
namespace {

// How a code object maps instructions to lines.
enum class Lines : unsigned char {
  kSteps,      // 3.9: pairs (bytes up to the next line, lines to it)
  kRanges,     // 3.10: pairs (bytes of a range, lines to it from the range before)
  kLocations,  // since 3.11: entries of several kinds, with columns
};

// Offsets in bytes, from the interpreters' own headers. A frame knows its code object and the
// instruction it executes: its address, before 3.11 its number. The thread's innermost frame hangs
// on the thread state, in 3.11 and 3.12 behind one more pointer. Since 3.14 low bits of a frame's
// reference say who counts it.
struct Layout {
  std::string_view version;
  Lines lines;
  unsigned thread_frame;
  bool is_indirect;
  unsigned indirect_frame;
  unsigned previous;
  unsigned code;
  unsigned code_tags;  // bits that are not of the address
  unsigned instruction;
  unsigned owner;  // 0: frames have none
  unsigned first_line;
  unsigned file_name;
  unsigned name;
  unsigned line_table;
  unsigned instructions;
  unsigned ascii_text;
};
constexpr Layout kLayouts[] = {
    {"3.9.", Lines::kSteps, 24, false, 0, 24, 32, 0, 104, 0, 40, 104, 112, 120, 0, 48},
    {"3.10.", Lines::kRanges, 24, false, 0, 24, 32, 0, 96, 0, 40, 104, 112, 120, 0, 48},
    {"3.11.", Lines::kLocations, 56, true, 8, 48, 32, 0, 56, 69, 72, 112, 120, 136, 184, 48},
    {"3.12.", Lines::kLocations, 56, true, 0, 8, 0, 0, 56, 70, 68, 112, 120, 136, 192, 40},
    {"3.13.", Lines::kLocations, 72, false, 0, 8, 0, 0, 56, 70, 68, 112, 120, 136, 200, 40},
    {"3.14.", Lines::kLocations, 72, false, 0, 8, 0, 3, 56, 74, 68, 112, 120, 136, 208, 40},
};
// The same in all of them.
constexpr unsigned kObjectType = 8;
constexpr unsigned kBytesLength = 16;
constexpr unsigned kBytesText = 32;
constexpr unsigned kTextLength = 16;
constexpr unsigned kTextState = 32;
constexpr uint32_t kStateCompactAscii = 0x60;
// From here on the owner is the interpreter or, in 3.14, the C stack: entry frames, no function's.
constexpr unsigned char kOwnedByInterpreter = 3;

constexpr int kInstructionBytes = 2;

// One step of the walk; code and instruction identify it. Before 3.11 the instructions are taken to
// begin at the code object itself.
struct Frame {
  const char* code = nullptr;
  const char* instruction = nullptr;
};

struct Stack {
  Frame frames[kFrameDepthMax];
  unsigned depth = 0;
  uint64_t hash = 0;
};

struct CallSite {
  uint64_t hash = 0;  // 0: free; stored last
  uint32_t number = 0;
};

using ThreadStateQuery = void* (*)();

constinit const Layout* layout = nullptr;
constinit ThreadStateQuery thread_state = nullptr;
constinit const void* code_type = nullptr;
constinit CallSite sites[kFrameSitesMax * 2]{};
constinit uint32_t site_count = 0;
constinit pthread_mutex_t site_mutex = PTHREAD_MUTEX_INITIALIZER;

template <typename Value>
Value value_at(const char* object, unsigned offset) noexcept {
  Value value;
  memcpy(&value, object + offset, sizeof value);
  return value;
}
const char* pointer_at(const char* object, unsigned offset) noexcept {
  return value_at<const char*>(object, offset);
}

const char* innermost_frame(const char* state) noexcept {
  const char* holder = pointer_at(state, layout->thread_frame);
  if (!layout->is_indirect || holder == nullptr) return holder;
  return pointer_at(holder, layout->indirect_frame);
}

const char* without_tags(const char* reference) noexcept {
  return reference - (reinterpret_cast<uintptr_t>(reference) & layout->code_tags);
}

bool is_code(const char* object) noexcept {
  return object != nullptr && pointer_at(object, kObjectType) == code_type;
}

uint64_t mix(uint64_t hash, uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

// An entry frame, or the frame of the interpreter's own code that 3.13 and later put around the
// __init__ of a class; that code is of no line.
bool is_interpreters_own(const char* frame, const char* code) noexcept {
  if (!is_code(code) || value_at<int>(code, layout->first_line) == 0) return true;
  return layout->owner != 0 && value_at<unsigned char>(frame, layout->owner) >= kOwnedByInterpreter;
}

const char* instruction_of(const char* frame, const char* code) noexcept {
  switch (layout->lines) {
    case Lines::kSteps:
      return code + value_at<int>(frame, layout->instruction);
    case Lines::kRanges:
      return code + value_at<int>(frame, layout->instruction) * kInstructionBytes;
    case Lines::kLocations:
      break;
  }
  return pointer_at(frame, layout->instruction);
}

void walk(const char* state, Stack& stack) noexcept {
  const char* frame = innermost_frame(state);
  for (unsigned step = 0; frame != nullptr && step < kFrameDepthMax; ++step) {
    const char* code = without_tags(pointer_at(frame, layout->code));
    if (!is_interpreters_own(frame, code)) {
      const char* instruction = instruction_of(frame, code);
      stack.frames[stack.depth++] = {code, instruction};
      stack.hash = mix(stack.hash, reinterpret_cast<uintptr_t>(instruction));
      // Another function may have got the memory of one that is gone.
      stack.hash = mix(stack.hash, reinterpret_cast<uintptr_t>(pointer_at(code, layout->name)));
    }
    frame = pointer_at(frame, layout->previous);
  }
  if (stack.hash == 0) stack.hash = 1;
}

// Text of a string object; only plain ASCII has its characters where we look.
std::string_view text_of(const char* object) noexcept {
  if (object == nullptr) return "?";
  const auto state = value_at<uint32_t>(object, kTextState);
  if ((state & kStateCompactAscii) != kStateCompactAscii) return "?";
  const auto length = value_at<int64_t>(object, kTextLength);
  if (length <= 0) return "?";
  return {object + layout->ascii_text, static_cast<size_t>(length)};
}

// --- the table that maps instructions to lines: PEP 626's successor, "Locations table" ----------
struct LineTable {
  const unsigned char* at;
  const unsigned char* end;

  bool is_over() const noexcept { return at >= end; }
  unsigned byte() noexcept { return is_over() ? 0u : *at++; }
  unsigned variable() noexcept {
    unsigned piece = byte();
    unsigned value = piece & 63;
    for (unsigned shift = 6; (piece & 64) != 0 && shift < 30; shift += 6) {
      piece = byte();
      value |= (piece & 63) << shift;
    }
    return value;
  }
  int signed_variable() noexcept {
    const unsigned value = variable();
    const int magnitude = static_cast<int>(value >> 1);
    return (value & 1) != 0 ? -magnitude : magnitude;
  }
  // How far the line moves with this entry; its columns are skipped.
  int line_step(unsigned kind) noexcept {
    if (kind == 15) return 0;
    if (kind == 14) {
      const int step = signed_variable();
      for (int skipped = 0; skipped < 3; ++skipped) variable();
      return step;
    }
    if (kind == 13) return signed_variable();
    if (kind >= 10) {
      at += 2;
      return static_cast<int>(kind) - 10;
    }
    ++at;
    return 0;
  }
};

// Up to 3.10: `wanted` is a number of bytes.
int line_in_pairs(LineTable pairs, int line, int64_t wanted) noexcept {
  constexpr int kNoLine = -128;
  int64_t reached = 0;
  while (!pairs.is_over()) {
    reached += pairs.byte();
    if (layout->lines == Lines::kSteps && reached > wanted) break;
    const int byte = static_cast<int>(pairs.byte());
    const int step = byte < 128 ? byte : byte - 256;  // a signed byte
    if (layout->lines == Lines::kSteps || step != kNoLine) line += step;
    if (layout->lines == Lines::kRanges && reached > wanted) break;
  }
  return line;
}

int line_of(const Frame& frame) noexcept {
  const char* table = pointer_at(frame.code, layout->line_table);
  int line = value_at<int>(frame.code, layout->first_line);
  if (table == nullptr) return line;
  const auto* bytes = reinterpret_cast<const unsigned char*>(table + kBytesText);
  LineTable entries{bytes, bytes + value_at<int64_t>(table, kBytesLength)};
  const int64_t wanted_bytes = frame.instruction - (frame.code + layout->instructions);
  if (layout->lines != Lines::kLocations) return line_in_pairs(entries, line, wanted_bytes);
  const int64_t wanted = wanted_bytes / kInstructionBytes;
  int64_t unit = 0;
  while (!entries.is_over()) {
    const unsigned head = entries.byte();
    line += entries.line_step(head >> 3 & 15);
    unit += (head & 7) + 1;
    if (wanted < unit) break;
  }
  return line;
}

using SiteText = TextBuffer<kFrameTextBytes>;

void write_frames(SiteText& text, const Stack& stack, bool only_user_code) noexcept {
  unsigned written = 0;
  for (unsigned i = 0; i < stack.depth && written < kFramesNamedMax; ++i) {
    const std::string_view file = text_of(pointer_at(stack.frames[i].code, layout->file_name));
    if (only_user_code && !is_user_code(file)) continue;
    if (written++ > 0) text.text(kCallerSeparator);
    text.text(file).character(':').signed_number(line_of(stack.frames[i])).character(' ');
    text.text(text_of(pointer_at(stack.frames[i].code, layout->name)));
  }
}

CallSite& slot_of(uint64_t hash) noexcept {
  constexpr size_t kSlots = sizeof(sites) / sizeof(sites[0]);
  size_t at = hash % kSlots;
  for (;; at = (at + 1) % kSlots) {  // ends: at most half of the slots are ever taken
    const uint64_t found = __atomic_load_n(&sites[at].hash, __ATOMIC_ACQUIRE);
    if (found == 0 || found == hash) return sites[at];
  }
}

[[gnu::noinline, gnu::cold]] uint32_t add_site(const Stack& stack) noexcept {
  if (!capture::enabled()) return 0;  // the file must be there before its meta
  pthread_mutex_lock(&site_mutex);
  CallSite& slot = slot_of(stack.hash);
  if (slot.hash == 0 && site_count < kFrameSitesMax) {
    SiteText text;
    write_frames(text, stack, true);
    if (text.view().empty()) write_frames(text, stack, false);
    TextBuffer<32> key;
    key.text("frame.").number(site_count + 1);
    capture::add_meta(key.c_str(), text.c_str());
    slot.number = site_count + 1;
    __atomic_store_n(&site_count, slot.number, __ATOMIC_RELAXED);
    __atomic_store_n(&slot.hash, stack.hash, __ATOMIC_RELEASE);
  }
  const uint32_t number = slot.number;
  pthread_mutex_unlock(&site_mutex);
  return number;
}

uint32_t read_frames() noexcept {
  const auto* state = static_cast<const char*>(thread_state());
  if (state == nullptr) return 0;  // not a thread of Python's, for example one of autograd's
  Stack stack;
  walk(state, stack);
  if (stack.depth == 0) return 0;
  const CallSite& slot = slot_of(stack.hash);
  if (__atomic_load_n(&slot.hash, __ATOMIC_ACQUIRE) == stack.hash) return slot.number;
  if (__atomic_load_n(&site_count, __ATOMIC_RELAXED) >= kFrameSitesMax) return 0;
  return add_site(stack);
}

// The numbers are those of one file, and the child writes another.
void forget_in_child() noexcept {
  site_mutex = PTHREAD_MUTEX_INITIALIZER;
  for (CallSite& site : sites) site = {};
  site_count = 0;
}

// Reads through the kernel, which answers with an error where a pointer leads nowhere.
bool safe_pointer(const char* object, unsigned offset, const char** value) noexcept {
  return object != nullptr &&
         copy_if_readable(value, object + offset, sizeof *value) == sizeof *value;
}

// True when the calling thread has a frame with a code object where the layout says so.
bool layout_holds() noexcept {
  const auto* state = static_cast<const char*>(thread_state());
  const char* frame = nullptr;
  if (!safe_pointer(state, layout->thread_frame, &frame)) return false;
  if (layout->is_indirect && !safe_pointer(frame, layout->indirect_frame, &frame)) return false;
  for (unsigned step = 0; step < kFrameDepthMax && frame != nullptr; ++step) {
    const char* code = nullptr;
    const char* type = nullptr;
    if (!safe_pointer(frame, layout->code, &code)) return false;
    code = without_tags(code);
    if (code != nullptr && !safe_pointer(code, kObjectType, &type)) return false;
    if (type == code_type) return true;
    if (!safe_pointer(frame, layout->previous, &frame)) return false;
  }
  return false;
}

bool is_free_threaded(std::string_view version) noexcept {
  return version.find("free-threading") != std::string_view::npos;
}

const Layout* layout_for(std::string_view version) noexcept {
  if (is_free_threaded(version)) return nullptr;
  for (const Layout& known : kLayouts) {
    if (part_of(version, 0, known.version.size()) == known.version) return &known;
  }
  return nullptr;
}

}  // namespace

void start_python_frames() noexcept {
  const char* setting = getenv("ROLLCALL_PYTHON_FRAMES");
  bool is_wanted = false;
  if (setting == nullptr || !parse_flag(setting, is_wanted) || !is_wanted ||
      g_call_flags.frame_reader.load(std::memory_order_relaxed) != nullptr) {
    return;
  }
  const auto version_of =
      reinterpret_cast<const char* (*)()>(real_dlsym()(RTLD_DEFAULT, "Py_GetVersion"));
  if (version_of == nullptr) return;  // not a Python program
  const std::string_view version = version_of();
  thread_state = reinterpret_cast<ThreadStateQuery>(
      real_dlsym()(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  code_type = real_dlsym()(RTLD_DEFAULT, "PyCode_Type");
  layout = layout_for(version);
  const bool is_known = layout != nullptr && thread_state != nullptr && code_type != nullptr;
  TextBuffer<64> note;
  if (!is_known || !layout_holds()) {
    note.text("not understood: Python ").text(part_of(version, 0, version.find(' ')));
    if (is_free_threaded(version)) note.text(", free-threaded");
    capture::add_meta("python_frames", note.c_str());
    return;
  }
  pthread_atfork(nullptr, nullptr, forget_in_child);
  note.text(part_of(version, 0, version.find(' ')));
  capture::add_meta("python_frames", note.c_str());
  // Other threads may be in NCCL already: who sees the reader sees what it reads with.
  g_call_flags.frame_reader.store(read_frames, std::memory_order_release);
}

}  // namespace rollcall::shim
