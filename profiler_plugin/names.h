// What NCCL's descriptors spell as text, and the first version of the interface as small numbers,
// in the numbers of core/format/vocabulary.h. Texts are compared by content: NCCL's literals have
// another address in every copy of the library.
#pragma once

#include <cstdint>

#include "core/format/vocabulary.h"
#include "profiler_plugin/short_text.h"

namespace rollcall::profiler {

namespace names_detail {
OpKind rarer_kind_of(const char* func) noexcept;
uint8_t rarer_datatype_of(const char* name) noexcept;
uint8_t rarer_method_of(const char* algorithm, const char* protocol, bool is_symmetric) noexcept;
}  // namespace names_detail

// OpKind::Count for a name that is no operation of ours ("Invalid", null, or newer than this
// table). Here and below, what is commonest is found inline.
inline OpKind kind_of(const char* func) noexcept {
  if (func == nullptr) return OpKind::Count;
  const bool is_commonest = ShortText(func).is("AllReduce");
  return __builtin_expect(is_commonest, 1) ? OpKind::AllReduce : names_detail::rarer_kind_of(func);
}
// NCCL's number; kUnknown8 for "Unknown" (which is what NCCL says for ncclUint8) and the like.
inline uint8_t datatype_of(const char* name) noexcept {
  if (name == nullptr) return kUnknown8;
  const ShortText text(name);
  if (text.is("ncclFloat32")) return 7;
  return text.is("ncclBfloat16") ? uint8_t{9} : names_detail::rarer_datatype_of(name);
}
// Of OpRecord::method. `is_symmetric`, or an algorithm that is none of NCCL's list together with
// an empty protocol, is a kernel on symmetric memory.
inline uint8_t method_of_names(const char* algorithm, const char* protocol,
                               bool is_symmetric) noexcept {
  const bool is_named = !is_symmetric && algorithm != nullptr && protocol != nullptr;
  if (__builtin_expect(is_named && ShortText(algorithm).is("RING"), 1)) {
    const ShortText text(protocol);
    if (text.is("LL")) return method_of(2, 1);
    if (text.is("SIMPLE")) return method_of(2, 3);
  }
  return names_detail::rarer_method_of(algorithm, protocol, is_symmetric);
}
static_assert(name_of(OpKind::AllReduce) == "AllReduce");
static_assert(kDatatypes[7].name == "float32" && kDatatypes[9].name == "bfloat16");
static_assert(kAlgorithms[2] == "RING" && kProtocols[1] == "LL" && kProtocols[3] == "SIMPLE");

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
