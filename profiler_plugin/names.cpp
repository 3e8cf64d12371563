#include "profiler_plugin/names.h"

#include <cstring>
#include <string_view>
#include <utility>

namespace rollcall::profiler {
namespace {

// Version 1's order of functions, algorithms and protocols; datatypes by NCCL's number.
constexpr const char* kFuncs[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                  "AllReduce", "SendRecv", "Send",      "Recv"};
constexpr const char* kDatatypeNames[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                          "ncclUint32",   "ncclInt64",      "ncclUint64",
                                          "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                          "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
constexpr const char* kAlgorithmNames[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr const char* kProtocolNames[] = {"LL", "LL128", "SIMPLE"};
static_assert(sizeof(kDatatypeNames) / sizeof(kDatatypeNames[0]) == kDatatypeCount);
// kAlgorithms and kProtocols begin with `unknown`, then NCCL's in this order.
static_assert(kAlgorithms[1] == "TREE" && kAlgorithms[2] == "RING" && kAlgorithms[7] == "PAT");
static_assert(kProtocols[1] == "LL" && kProtocols[2] == "LL128" && kProtocols[3] == "SIMPLE");
constexpr uint8_t kSymmetric = 8;
constexpr uint8_t kNoProtocol = 4;
static_assert(kAlgorithms[kSymmetric] == "symmetric" && kProtocols[kNoProtocol] == "none");

template <size_t kCount>
const char* at(const char* const (&names)[kCount], uint8_t number) {
  return number < kCount ? names[number] : nullptr;
}

// Not inlined: what the common names take is a dozen instructions.
template <size_t kCount>
[[gnu::noinline]] uint8_t index_in(const char* const (&names)[kCount], const char* name) {
  for (uint8_t i = 0; name != nullptr && i < kCount; ++i) {
    if (strcmp(names[i], name) == 0) return i;
  }
  return 0xff;
}

// Letter by letter and no call: half a dozen names are read per collective, and a name mostly
// differs from another in its first letters. `name` ends like a C string, too.
template <size_t... kAt>
inline bool starts_equal(const char* text, const char* name, std::index_sequence<kAt...>) {
  return ((text[kAt] == name[kAt]) && ...);
}
template <size_t kBytes>
inline bool is(const char* text, const char (&name)[kBytes]) {
  return starts_equal(text, name, std::make_index_sequence<kBytes>());
}
template <OpKind kKind>
inline bool is_kind(const char* text) {
  constexpr std::string_view kName = name_of(kKind);
  return starts_equal(text, kName.data(), std::make_index_sequence<kName.size() + 1>());
}

// The first of the kinds that has this name.
template <OpKind... kKinds>
inline OpKind first_named(const char* func) {
  OpKind kind = OpKind::Count;
  ((is_kind<kKinds>(func) && (kind = kKinds, true)) || ...);
  return kind;
}

// Indices into kAlgorithms and kProtocols: 0 for what is unknown. The commonest ones in front.
uint8_t algorithm_index(const char* name) {
  if (name == nullptr) return 0;
  if (is(name, "RING")) return 2;
  if (is(name, "TREE")) return 1;
  return static_cast<uint8_t>(index_in(kAlgorithmNames, name) + 1);
}

uint8_t protocol_index(const char* name) {
  if (name == nullptr) return 0;
  if (is(name, "LL")) return 1;
  if (is(name, "LL128")) return 2;
  return is(name, "SIMPLE") ? 3 : 0;
}

}  // namespace

bool kind_of(const char* func, OpKind& kind) noexcept {
  if (func == nullptr) return false;
  using enum OpKind;
  kind = first_named<AllReduce, AllGather, ReduceScatter, Send, Recv, Broadcast, Reduce, AlltoAll,
                     Gather, Scatter, PutSignal, Signal, WaitSignal>(func);
  return kind != Count;
}

uint8_t datatype_of(const char* name) noexcept {
  if (name == nullptr) return kUnknown8;
  if (is(name, "ncclFloat32")) return 7;
  if (is(name, "ncclBfloat16")) return 9;
  const uint8_t found = index_in(kDatatypeNames, name);
  return found == 0xff ? kUnknown8 : found;
}

uint8_t method_of_names(const char* algorithm, const char* protocol, bool is_symmetric) noexcept {
  if (is_symmetric) return method_of(kSymmetric, kNoProtocol);
  const uint8_t index = algorithm_index(algorithm);
  // The name of a symmetric kernel stands where the others have their algorithm's.
  const bool is_kernel = index == 0 && algorithm != nullptr && algorithm[0] != '\0' &&
                         protocol != nullptr && protocol[0] == '\0';
  if (is_kernel) return method_of(kSymmetric, kNoProtocol);
  return method_of(index, protocol_index(protocol));
}

const char* func_name_of_v1(uint8_t number) noexcept { return at(kFuncs, number); }
const char* datatype_name_of_v1(uint8_t number) noexcept { return at(kDatatypeNames, number); }
const char* algorithm_name_of_v1(uint8_t number) noexcept { return at(kAlgorithmNames, number); }
const char* protocol_name_of_v1(uint8_t number) noexcept { return at(kProtocolNames, number); }
uint8_t func_number_of_v1(const char* name) noexcept { return index_in(kFuncs, name); }
uint8_t datatype_number_of_v1(const char* name) noexcept { return index_in(kDatatypeNames, name); }
uint8_t algorithm_number_of_v1(const char* name) noexcept {
  return index_in(kAlgorithmNames, name);
}
uint8_t protocol_number_of_v1(const char* name) noexcept { return index_in(kProtocolNames, name); }

}  // namespace rollcall::profiler
