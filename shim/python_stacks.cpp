#include "shim/python_stacks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/capture/process.h"
#include "core/capture/stack_file.h"
#include "core/format/stack_request.h"
#include "shim/comm_config.h"
#include "shim/loader.h"
#include "shim/python_layout.h"

namespace rollcall::shim {
namespace {

using namespace python;

constexpr unsigned kInterpretersMax = 64;
constexpr unsigned kThreadsRead = 4096;
// A job that creates and ends threads all the time does not keep the flusher.
constexpr uint64_t kTimeMaxNs = 1'000'000'000;
constexpr int kWalksMax = 3;
constexpr size_t kNameBytes = 512;

using Address = uintptr_t;
using Step = Address (*)(const void*);

// What has been found out about the interpreter, once.
struct Interpreter {
  std::string_view version;
  const Layout* layout = nullptr;  // null: not understood
  Address code_type = 0;
  Address (*first_interpreter)() = nullptr;
  unsigned next_interpreter = 0;  // offsets
  unsigned first_thread = 0;
  unsigned next_thread = 0;
  Address (*holder)() = nullptr;  // up to 3.11: the thread state that holds the GIL
};
constinit Interpreter interpreter{};
constinit std::atomic<bool> is_offered{false};

template <typename Value>
bool read_at(Address object, unsigned offset, Value& value) noexcept {
  return object != 0 && copy_if_readable(&value, reinterpret_cast<const void*>(object + offset),
                                         sizeof value) == sizeof value;
}

// A piece of an object, copied at once; what lies behind it reads as nothing.
template <size_t kBytes>
class Piece {
 public:
  explicit Piece(Address object) noexcept
      : bytes_(copy_if_readable(copy_, reinterpret_cast<const void*>(object), kBytes)) {}
  template <typename Value>
  bool get(unsigned offset, Value& value) const noexcept {
    if (offset + sizeof value > bytes_) return false;
    memcpy(&value, copy_ + offset, sizeof value);
    return true;
  }

 private:
  char copy_[kBytes];
  size_t bytes_;
};

// Where a function that returns one field of a structure finds it: it is shown a structure of which
// each word holds its own offset. False: it does not read such a field.
bool offset_read_by(Step function, unsigned& offset) noexcept {
  constexpr size_t kBytes = 128 * 1024;
  constexpr Address kMark = 0x5a00000;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* words = static_cast<Address*>(memory);
  for (size_t at = 0; at < kBytes / sizeof(Address); ++at) words[at] = kMark + at * sizeof(Address);
  const Address answer = function(memory);
  munmap(memory, kBytes);
  offset = static_cast<unsigned>(answer - kMark);
  return answer >= kMark && answer - kMark < kBytes;
}

// --- threads ------------------------------------------------------------------------------------

bool is_thread_of_ours(int32_t number) noexcept {
  TextBuffer<64> path;
  path.text("/proc/self/task/").signed_number(number);
  return number > 0 && access(path.c_str(), F_OK) == 0;
}

// The C library keeps the kernel's number of a thread in what pthread_t points to: where, the
// calling thread shows. 0: not found.
unsigned number_in_handle() noexcept {
  constexpr unsigned kHandleBytes = 2048;
  const auto own = static_cast<int32_t>(syscall(SYS_gettid));
  const auto handle = static_cast<Address>(pthread_self());
  for (unsigned at = 0; at < kHandleBytes; at += sizeof own) {
    int32_t word = 0;
    if (!read_at(handle, at, word)) return 0;
    if (word == own) return at;
  }
  return 0;
}

// The states of all threads, of all interpreters.
unsigned list_threads(std::span<Address> states) noexcept {
  unsigned count = 0;
  Address one = interpreter.first_interpreter();
  for (unsigned i = 0; one != 0 && i < kInterpretersMax; ++i) {
    Address state = 0;
    if (!read_at(one, interpreter.first_thread, state)) break;
    while (state != 0 && count < states.size()) {
      states[count++] = state;
      if (!read_at(state, interpreter.next_thread, state)) break;
    }
    if (!read_at(one, interpreter.next_interpreter, one)) break;
  }
  return count;
}

// Which thread a state is of, by the handle in it.
struct ThreadNames {
  unsigned handle = 0;  // offset in a state
  unsigned number = 0;  // in what that points to

  int32_t of(Address state) const noexcept {
    Address pointed = 0;
    int32_t found = 0;
    if (!read_at(state, handle, pointed) || !read_at(pointed, number, found)) return 0;
    return is_thread_of_ours(found) ? found : 0;
  }
};

// The offset of the handle is not the same in all versions: it is where most states point to a
// thread of ours. False: nowhere.
bool find_handle(std::span<const Address> states, ThreadNames& names) noexcept {
  constexpr unsigned kFirst = 64;
  constexpr unsigned kLast = 512;
  constexpr size_t kStatesTried = 8;
  names.number = number_in_handle();
  if (names.number == 0) return false;
  size_t most = 0;
  ThreadNames tried = names;
  for (unsigned at = kFirst; at < kLast; at += sizeof(Address)) {
    tried.handle = at;
    size_t found = 0;
    for (const Address state : states.first(std::min(states.size(), kStatesTried))) {
      found += tried.of(state) != 0 ? 1 : 0;
    }
    if (found <= most) continue;
    most = found;
    names.handle = at;
  }
  return most != 0;
}

bool holds_interpreter(Address state) noexcept {
  if (interpreter.holder != nullptr) return interpreter.holder() == state;
  uint32_t status = 0;
  return read_at(state, interpreter.layout->thread_status, status) &&
         (status & kStatusHoldsInterpreter) != 0;
}

// --- frames -------------------------------------------------------------------------------------

struct Frame {
  Address code;
  Address instruction;  // up to 3.10: its offset
  bool operator==(const Frame&) const = default;
};
struct Stack {
  Frame frames[kStackFramesMax];
  unsigned depth;
  bool is_cut;

  bool equals(const Stack& other) const noexcept {
    return depth == other.depth && std::equal(frames, frames + depth, other.frames);
  }
};
using FramePiece = Piece<128>;
using CodePiece = Piece<160>;

// Too large for a thread's stack; mapped while it is needed.
struct Scratch {
  Address states[kThreadsRead];
  Stack stack;
  Stack before;
  unsigned char lines[kReadableBytesMax];
};

bool is_users(const FramePiece& frame, Address code) noexcept {
  const Layout& layout = *interpreter.layout;
  Address type = 0;
  int32_t first_line = 0;
  if (!read_at(code, kObjectType, type) || type != interpreter.code_type) return false;
  if (!read_at(code, layout.first_line, first_line) || first_line == 0) return false;
  unsigned char owner = 0;
  return layout.owner == 0 || (frame.get(layout.owner, owner) && owner < kOwnedByInterpreter);
}

// In bytes behind the code object: before 3.11 the frame has a number of bytes, or of instructions.
bool read_instruction(const FramePiece& frame, Address code, Address& instruction) noexcept {
  const Layout& layout = *interpreter.layout;
  if (layout.lines == Lines::kLocations) return frame.get(layout.instruction, instruction);
  int32_t number = 0;
  if (!frame.get(layout.instruction, number)) return false;
  const int bytes = layout.lines == Lines::kRanges ? kInstructionBytes : 1;
  instruction = code + static_cast<Address>(int64_t{number} * bytes);
  return true;
}

void walk(Address state, Stack& stack) noexcept {
  // As many entry frames again, which are not shown.
  constexpr unsigned kSteps = 2 * kStackFramesMax;
  const Layout& layout = *interpreter.layout;
  stack.depth = 0;
  stack.is_cut = false;
  Address frame = 0;
  if (!read_at(state, layout.thread_frame, frame)) return;
  if (layout.is_indirect && !read_at(frame, layout.indirect_frame, frame)) return;
  for (unsigned step = 0; frame != 0; ++step) {
    if (step == kSteps || stack.depth == kStackFramesMax) {
      stack.is_cut = true;
      return;
    }
    const FramePiece piece(frame);
    Address code = 0;
    Address instruction = 0;
    if (!piece.get(layout.code, code)) return;
    code &= ~Address{layout.code_tags};
    if (is_users(piece, code) && read_instruction(piece, code, instruction)) {
      stack.frames[stack.depth++] = {code, instruction};
    }
    if (!piece.get(layout.previous, frame)) return;
  }
}

// True where two looks in a row found the same.
bool walk_until_still(Address state, Stack& stack, Stack& before) noexcept {
  walk(state, stack);
  for (int walks = 1; walks < kWalksMax; ++walks) {
    before = stack;
    walk(state, stack);
    if (stack.equals(before)) return true;
  }
  return false;
}

// Of a string object of plain ASCII; "?" of others.
std::string_view read_text(Address object, char (&text)[kNameBytes]) noexcept {
  const Piece<40> head(object);
  uint32_t state = 0;
  int64_t length = 0;
  if (!head.get(kTextState, state) || !head.get(kTextLength, length) || length <= 0 ||
      (state & kStateCompactAscii) != kStateCompactAscii) {
    return "?";
  }
  const size_t wanted = std::min(static_cast<size_t>(length), sizeof text);
  const auto* from = reinterpret_cast<const void*>(object + interpreter.layout->ascii_text);
  return {text, copy_if_readable(text, from, wanted)};
}

// 0: not known, for the table was not read to its end.
int read_line(const CodePiece& code, const Frame& frame, Scratch& scratch) noexcept {
  const Layout& layout = *interpreter.layout;
  int first_line = 0;
  Address table = 0;
  int64_t bytes = 0;
  if (!code.get(layout.first_line, first_line) || !code.get(layout.line_table, table) ||
      !read_at(table, kBytesLength, bytes) || bytes < 0 ||
      static_cast<uint64_t>(bytes) > sizeof scratch.lines) {
    return 0;
  }
  const auto wanted = static_cast<size_t>(bytes);
  const size_t got =
      copy_if_readable(scratch.lines, reinterpret_cast<const void*>(table + kBytesText), wanted);
  if (got != wanted) return 0;
  const auto behind = static_cast<int64_t>(frame.instruction - (frame.code + layout.instructions));
  return python::line_of(layout, {scratch.lines, got}, first_line, behind);
}

void write_frame(capture::StackFile& file, const Frame& frame, Scratch& scratch) noexcept {
  const CodePiece code(frame.code);
  Address file_name = 0;
  Address name = 0;
  char text[kNameBytes];
  TextBuffer<2 * kNameBytes + 32> line;
  if (code.get(interpreter.layout->file_name, file_name)) line.text(read_text(file_name, text));
  line.character(':');
  const int number = read_line(code, frame, scratch);
  if (number != 0) {
    line.signed_number(number);
  } else {
    line.character('?');
  }
  line.character(' ');
  if (code.get(interpreter.layout->name, name)) line.text(read_text(name, text));
  file.line("frame", line.view());
}

void write_thread(capture::StackFile& file, Address state, int32_t number,
                  Scratch& scratch) noexcept {
  const Stack& stack = scratch.stack;
  const bool is_still = walk_until_still(state, scratch.stack, scratch.before);
  if (stack.depth == 0) return;
  file.line("python_thread", static_cast<uint64_t>(number));
  if (holds_interpreter(state)) file.line("holds_gil", 1);
  if (!is_still) file.line("moving", 1);
  for (unsigned i = 0; i < stack.depth; ++i) write_frame(file, stack.frames[i], scratch);
  if (stack.is_cut) file.line("outer_frames_cut", 1);
}

void write_threads(capture::StackFile& file, Scratch& scratch) noexcept {
  const std::span<const Address> all(scratch.states, list_threads(scratch.states));
  ThreadNames names;
  if (!find_handle(all, names)) {
    file.line("python_unread", "the threads of the interpreter were not found");
    return;
  }
  const uint64_t until_ns = monotonic_now_ns() + kTimeMaxNs;
  for (const Address state : all) {
    if (monotonic_now_ns() > until_ns) {
      file.line("python_unread", "some threads: there are too many");
      return;
    }
    const int32_t number = names.of(state);
    if (number != 0) write_thread(file, state, number, scratch);
  }
}

// By the flusher's thread.
void write_all(capture::StackFile& file) noexcept {
  file.line("python", interpreter.version);
  if (interpreter.layout == nullptr) {
    file.line("python_unread", "this version's frames are not understood");
    return;
  }
  void* memory =
      mmap(nullptr, sizeof(Scratch), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  write_threads(file, *static_cast<Scratch*>(memory));
  munmap(memory, sizeof(Scratch));
}

template <typename Function>
Function symbol(const char* name) noexcept {
  return reinterpret_cast<Function>(real_dlsym()(RTLD_DEFAULT, name));
}

// The flusher calls into the interpreter's library much later: a job that has loaded it for a while
// does not unload it under that call.
void keep_loaded(const void* function) noexcept {
  Dl_info info{};
  if (dladdr(function, &info) != 0 && info.dli_fname != nullptr) {
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

bool understand(Interpreter& found) noexcept {
  found.code_type = reinterpret_cast<Address>(symbol<void*>("PyCode_Type"));
  found.first_interpreter = symbol<Address (*)()>("PyInterpreterState_Head");
  const auto next = symbol<Step>("PyInterpreterState_Next");
  const auto first_thread = symbol<Step>("PyInterpreterState_ThreadHead");
  const auto next_thread = symbol<Step>("PyThreadState_Next");
  if (found.code_type == 0 || found.first_interpreter == nullptr || next == nullptr ||
      first_thread == nullptr || next_thread == nullptr) {
    return false;
  }
  return offset_read_by(next, found.next_interpreter) &&
         offset_read_by(first_thread, found.first_thread) &&
         offset_read_by(next_thread, found.next_thread);
}

}  // namespace

void start_python_stacks() noexcept {
  const auto version_of = symbol<const char* (*)()>("Py_GetVersion");
  if (version_of == nullptr || is_offered.exchange(true)) return;
  keep_loaded(reinterpret_cast<const void*>(version_of));
  Interpreter found;
  const std::string_view version = version_of();
  found.version = part_of(version, 0, version.find(' '));
  const Layout* layout = layout_for(version);
  if (layout != nullptr && understand(found)) {
    found.layout = layout;
    if (layout->thread_status == 0) {
      found.holder = symbol<Address (*)()>("_PyThreadState_UncheckedGet");
    }
  }
  interpreter = found;
  capture::set_frame_source(write_all);
}

}  // namespace rollcall::shim
