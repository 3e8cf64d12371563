// Where CPython keeps what a reader of frames needs, by version: 3.9 to 3.14, not the free-threaded
// builds. Whoever reads shares it: the frames of the calling thread (shim/python_frames.h), those
// of all threads (shim/python_stacks.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rollcall::shim::python {

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
  unsigned thread_status;  // of the thread state, see kStatusHoldsInterpreter; 0: there is none
};
// The same in all of them.
inline constexpr unsigned kObjectType = 8;
inline constexpr unsigned kBytesLength = 16;
inline constexpr unsigned kBytesText = 32;
inline constexpr unsigned kTextLength = 16;
inline constexpr unsigned kTextState = 32;
inline constexpr uint32_t kStateCompactAscii = 0x60;
// From here on the owner is the interpreter or, in 3.14, the C stack: entry frames, no function's.
inline constexpr unsigned char kOwnedByInterpreter = 3;

inline constexpr int kInstructionBytes = 2;

// Of a thread state's status: the thread is the one that executes Python, and holds the lock for
// it.
inline constexpr uint32_t kStatusHoldsInterpreter = 1 << 4;

// As Py_GetVersion tells it.
bool is_free_threaded(std::string_view version) noexcept;
// Null: not known.
const Layout* layout_for(std::string_view version) noexcept;

// The line of the instruction that lies so many bytes behind the first, by the code object's table.
int line_of(const Layout& layout, std::span<const unsigned char> table, int first_line,
            int64_t instruction_bytes) noexcept;

}  // namespace rollcall::shim::python
