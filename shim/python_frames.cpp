#include "shim/python_frames.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/config.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/capture/operations.h"
#include "core/capture/process.h"
#include "core/format/call_site.h"
#include "shim/call_flags.h"
#include "shim/comm_config.h"
#include "shim/frame_budget.h"
#include "shim/loader.h"
#include "shim/python_layout.h"

namespace rollcall::shim {
namespace {

using namespace python;

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
constinit uint32_t site_bytes = 0;  // of their lines in the meta area
constinit uint32_t budget_percent = 100;
constexpr char kNoRoom[] = "more places than there is room for";
// What is said once: some calls have no lines, and why.
constinit bool has_said_left_out = false;
constinit pthread_mutex_t site_mutex = PTHREAD_MUTEX_INITIALIZER;
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): constinit says that it is not
thread_local constinit FrameBudget t_budget __attribute__((tls_model("initial-exec")));

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

int line_of(const Frame& frame) noexcept {
  const char* table = pointer_at(frame.code, layout->line_table);
  const int line = value_at<int>(frame.code, layout->first_line);
  if (table == nullptr) return line;
  const auto* bytes = reinterpret_cast<const unsigned char*>(table + kBytesText);
  const auto size =
      static_cast<size_t>(std::max<int64_t>(value_at<int64_t>(table, kBytesLength), 0));
  return python::line_of(*layout, {bytes, size}, line,
                         frame.instruction - (frame.code + layout->instructions));
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

// Who compares the lines of ranks has to know that some are missing. Where there is no room for
// that either, SelfStatistics::meta_truncated says so.
[[gnu::noinline]] void say_left_out(const char* why) noexcept {
  if (!capture::enabled()) return;  // the file must be there before its meta
  if (__atomic_load_n(&has_said_left_out, __ATOMIC_RELAXED) ||
      __atomic_exchange_n(&has_said_left_out, true, __ATOMIC_RELAXED)) {
    return;
  }
  capture::add_file_meta(kFramesLeftOutKey, why);
}

bool has_room() noexcept {
  return __atomic_load_n(&site_count, __ATOMIC_RELAXED) < kFrameSitesMax &&
         __atomic_load_n(&site_bytes, __ATOMIC_RELAXED) < kFrameSitesBytesMax - kFrameTextBytes;
}

// site_mutex held, and room. A site that does not come into the file gets no number.
void write_site(const Stack& stack, CallSite& slot) noexcept {
  SiteText text;
  write_frames(text, stack, true);
  if (text.view().empty()) write_frames(text, stack, false);
  TextBuffer<32> key;
  key.text("frame.").number(site_count + 1);
  if (!capture::add_file_meta(key.c_str(), text.c_str())) {
    __atomic_store_n(&site_bytes, kFrameSitesBytesMax, __ATOMIC_RELAXED);
    return;
  }
  const size_t line_bytes = key.view().size() + text.view().size() + 2;
  __atomic_store_n(&site_bytes, site_bytes + static_cast<uint32_t>(line_bytes), __ATOMIC_RELAXED);
  slot.number = site_count + 1;
  __atomic_store_n(&site_count, slot.number, __ATOMIC_RELAXED);
  __atomic_store_n(&slot.hash, stack.hash, __ATOMIC_RELEASE);
}

[[gnu::noinline, gnu::cold]] uint32_t add_site(const Stack& stack) noexcept {
  if (!capture::enabled()) return 0;  // the file must be there before its meta
  pthread_mutex_lock(&site_mutex);
  CallSite& slot = slot_of(stack.hash);
  if (slot.hash == 0 && has_room()) write_site(stack, slot);
  const uint32_t number = slot.number;
  pthread_mutex_unlock(&site_mutex);
  if (number == 0) say_left_out(kNoRoom);
  return number;
}

uint32_t site_of_caller() noexcept {
  const auto* state = static_cast<const char*>(thread_state());
  if (state == nullptr) return 0;  // not a thread of Python's, for example one of autograd's
  Stack stack;
  walk(state, stack);
  if (stack.depth == 0) return 0;
  const CallSite& slot = slot_of(stack.hash);
  if (__atomic_load_n(&slot.hash, __ATOMIC_ACQUIRE) == stack.hash) return slot.number;
  if (has_room()) return add_site(stack);
  say_left_out(kNoRoom);
  return 0;
}

uint32_t read_all_frames() noexcept { return site_of_caller(); }

uint32_t read_frames_within_budget() noexcept {
  FrameBudget& budget = t_budget;
  if (!budget.affords_next()) {
    say_left_out("to keep the overhead budget");
    return 0;
  }
  const bool is_measured = budget.is_measured();
  const uint64_t before = is_measured ? ticks_now() : 0;
  const uint32_t number = site_of_caller();
  budget.note_read(is_measured ? ticks_now() - before : 0, budget_percent, ticks_now);
  return number;
}

// The numbers are those of one file, and the child writes another.
void forget_in_child() noexcept {
  site_mutex = PTHREAD_MUTEX_INITIALIZER;
  for (CallSite& site : sites) site = {};
  site_count = site_bytes = 0;
  has_said_left_out = false;
  t_budget = {};
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

}  // namespace

void start_python_frames() noexcept {
  if (g_call_flags.frame_reader.load(std::memory_order_relaxed) != nullptr) return;
  const auto version_of =
      reinterpret_cast<const char* (*)()>(real_dlsym()(RTLD_DEFAULT, "Py_GetVersion"));
  if (version_of == nullptr) return;  // not a Python program
  // The recorder complains about bad values when it starts, which may be later.
  const rollcall::Config config = rollcall::read_config([](std::string_view) {});
  if (config.python_frames == PythonFrames::off) return capture::add_meta("python_frames", "off");
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
  budget_percent = config.overhead_budget_percent;
  const bool has_budget =
      config.python_frames == PythonFrames::within_budget && budget_percent < 100;
  // Other threads may be in NCCL already: who sees the reader sees what it reads with.
  g_call_flags.frame_reader.store(has_budget ? read_frames_within_budget : read_all_frames,
                                  std::memory_order_release);
}

}  // namespace rollcall::shim
