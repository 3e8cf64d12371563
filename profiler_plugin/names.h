// What NCCL's descriptors spell as text, and the first version of the interface as small numbers,
// in the numbers of core/format/vocabulary.h. Texts are compared by content: NCCL's literals have
// another address in every copy of the library.
#pragma once

#include <cstdint>

#include "core/format/vocabulary.h"

namespace rollcall::profiler {

// False for a name that is no operation of ours ("Invalid", null, or newer than this table).
bool kind_of(const char* func, OpKind& kind) noexcept;
// NCCL's number; kUnknown8 for "Unknown" (which is what NCCL says for ncclUint8) and the like.
uint8_t datatype_of(const char* name) noexcept;
// Of OpRecord::method. `is_symmetric`, or an algorithm that is none of NCCL's list together with
// an empty protocol, is a kernel on symmetric memory.
uint8_t method_of_names(const char* algorithm, const char* protocol, bool is_symmetric) noexcept;

// Of a collective carried out by copies.
inline constexpr uint8_t kMethodOfCopyEngine = method_of(9, 4);
static_assert(kAlgorithms[9] == "copy_engine" && kProtocols[4] == "none");

// Version 1's numbers as the names that later versions use; null when out of range.
const char* func_name_of_v1(uint8_t number) noexcept;
const char* datatype_name_of_v1(uint8_t number) noexcept;
const char* algorithm_name_of_v1(uint8_t number) noexcept;
const char* protocol_name_of_v1(uint8_t number) noexcept;
// And back, for a plugin of version 1 behind this one; 0xff when there is none.
uint8_t func_number_of_v1(const char* name) noexcept;
uint8_t datatype_number_of_v1(const char* name) noexcept;
uint8_t algorithm_number_of_v1(const char* name) noexcept;
uint8_t protocol_number_of_v1(const char* name) noexcept;

}  // namespace rollcall::profiler
