#include "profiler_plugin/names.h"

#include <iterator>
#include <string_view>
#include <utility>

namespace rollcall::profiler {
namespace {

// Version 1's order of functions, algorithms and protocols; datatypes by NCCL's number.
constexpr std::string_view kFuncs[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                       "AllReduce", "SendRecv", "Send",      "Recv"};
constexpr std::string_view kDatatypeTexts[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                               "ncclUint32",   "ncclInt64",      "ncclUint64",
                                               "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                               "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
constexpr std::string_view kAlgorithmTexts[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr std::string_view kProtocolTexts[] = {"LL", "LL128", "SIMPLE"};
constexpr std::string_view kKinds[] = {
#define ROLLCALL_X(name, family, rooted, reduces) #name,
    ROLLCALL_OPERATIONS(ROLLCALL_X)
#undef ROLLCALL_X
};
static_assert(std::size(kDatatypeTexts) == kDatatypeCount);
// kAlgorithms and kProtocols begin with `unknown`, then NCCL's in this order.
static_assert(kAlgorithms[1] == "TREE" && kAlgorithms[2] == "RING" && kAlgorithms[7] == "PAT");
static_assert(kProtocols[1] == "LL" && kProtocols[2] == "LL128" && kProtocols[3] == "SIMPLE");
constexpr uint8_t kSymmetric = 8;
constexpr uint8_t kNoProtocol = 4;
static_assert(kAlgorithms[kSymmetric] == "symmetric" && kProtocols[kNoProtocol] == "none");

// The index of a text among kTexts; their number where it is none of them.
template <const auto& kTexts, size_t... kAt>
size_t index_in(ShortText text, std::index_sequence<kAt...>) noexcept {
  size_t index = sizeof...(kAt);
  ((text.equals<kTexts[kAt].size() + 1>(kTexts[kAt].data()) && (index = kAt, true)) || ...);
  return index;
}
template <const auto& kTexts>
size_t index_in(const char* text) noexcept {
  constexpr size_t kCount = std::size(kTexts);
  return text == nullptr ? kCount
                         : index_in<kTexts>(ShortText(text), std::make_index_sequence<kCount>());
}

// Into kAlgorithms or kProtocols.
template <const auto& kTexts>
uint8_t index_behind_unknown(const char* text) noexcept {
  return static_cast<uint8_t>((index_in<kTexts>(text) + 1) % (std::size(kTexts) + 1));
}

template <const auto& kTexts>
const char* text_of_v1(uint8_t number) noexcept {
  return number < std::size(kTexts) ? kTexts[number].data() : nullptr;
}
template <const auto& kTexts>
uint8_t number_of_v1(const char* text) noexcept {
  const size_t index = index_in<kTexts>(text);
  return index < std::size(kTexts) ? static_cast<uint8_t>(index) : uint8_t{0xff};
}

}  // namespace

namespace names_detail {

OpKind rarer_kind_of(const char* func) noexcept {
  const size_t index = index_in<kKinds>(func);
  const auto kind = static_cast<OpKind>(index);
  return kind < OpKind::Count && !is_mark(kind) ? kind : OpKind::Count;
}

uint8_t rarer_datatype_of(const char* name) noexcept {
  const size_t number = index_in<kDatatypeTexts>(name);
  return number < kDatatypeCount ? static_cast<uint8_t>(number) : kUnknown8;
}

uint8_t rarer_method_of(const char* algorithm, const char* protocol, bool is_symmetric) noexcept {
  const uint8_t index = index_behind_unknown<kAlgorithmTexts>(algorithm);
  // The name of a symmetric kernel stands where the others have their algorithm's.
  const bool is_kernel = index == 0 && algorithm != nullptr && algorithm[0] != '\0' &&
                         protocol != nullptr && protocol[0] == '\0';
  if (is_symmetric || is_kernel) return method_of(kSymmetric, kNoProtocol);
  return method_of(index, index_behind_unknown<kProtocolTexts>(protocol));
}

}  // namespace names_detail

const char* func_name_of_v1(uint8_t number) noexcept { return text_of_v1<kFuncs>(number); }
const char* datatype_name_of_v1(uint8_t number) noexcept {
  return text_of_v1<kDatatypeTexts>(number);
}
const char* algorithm_name_of_v1(uint8_t number) noexcept {
  return text_of_v1<kAlgorithmTexts>(number);
}
const char* protocol_name_of_v1(uint8_t number) noexcept {
  return text_of_v1<kProtocolTexts>(number);
}
uint8_t func_number_of_v1(const char* name) noexcept { return number_of_v1<kFuncs>(name); }
uint8_t datatype_number_of_v1(const char* name) noexcept {
  return number_of_v1<kDatatypeTexts>(name);
}
uint8_t algorithm_number_of_v1(const char* name) noexcept {
  return number_of_v1<kAlgorithmTexts>(name);
}
uint8_t protocol_number_of_v1(const char* name) noexcept {
  return number_of_v1<kProtocolTexts>(name);
}

}  // namespace rollcall::profiler
