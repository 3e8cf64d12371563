#include "profiler_plugin/names.h"

#include <cstring>

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
static_assert(kAlgorithms[1] == "TREE" && kAlgorithms[7] == "PAT");
static_assert(kProtocols[1] == "LL" && kProtocols[3] == "SIMPLE");
constexpr uint8_t kSymmetric = 8;
constexpr uint8_t kNoProtocol = 4;
static_assert(kAlgorithms[kSymmetric] == "symmetric" && kProtocols[kNoProtocol] == "none");

template <size_t kCount>
const char* at(const char* const (&names)[kCount], uint8_t number) {
  return number < kCount ? names[number] : nullptr;
}

template <size_t kCount>
uint8_t index_in(const char* const (&names)[kCount], const char* name) {
  for (uint8_t i = 0; name != nullptr && i < kCount; ++i) {
    if (strcmp(names[i], name) == 0) return i;
  }
  return 0xff;
}

bool same(const char* text, const char* candidate) { return strcmp(text, candidate) == 0; }

// The one operation that a name can be, by its length's worth of letters: one comparison, not
// fourteen.
OpKind candidate_of(const char* func) {
  switch (func[0]) {
    case 'A':
      if (func[1] != 'l' || func[2] != 'l') return OpKind::Count;
      return func[3] == 'R' ? OpKind::AllReduce
                            : (func[3] == 'G' ? OpKind::AllGather : OpKind::AlltoAll);
    case 'B':
      return OpKind::Broadcast;
    case 'G':
      return OpKind::Gather;
    case 'R':
      if (func[1] == 'e' && func[2] == 'c') return OpKind::Recv;
      return strlen(func) > 6 ? OpKind::ReduceScatter : OpKind::Reduce;
    case 'S':
      if (func[1] == 'c') return OpKind::Scatter;
      return func[1] == 'e' ? OpKind::Send : OpKind::Signal;
    case 'P':
      return OpKind::PutSignal;
    case 'W':
      return OpKind::WaitSignal;
    default:
      return OpKind::Count;
  }
}

}  // namespace

bool kind_of(const char* func, OpKind& kind) noexcept {
  if (func == nullptr) return false;
  const OpKind candidate = candidate_of(func);
  // The table's names are literals, so they end where C strings end.
  if (candidate == OpKind::Count || !same(func, name_of(candidate).data())) return false;
  kind = candidate;
  return true;
}

uint8_t datatype_of(const char* name) noexcept {
  if (name == nullptr || strncmp(name, "ncclFloat32", 12) == 0) return name != nullptr ? 7 : 0xff;
  if (strncmp(name, "ncclBfloat16", 13) == 0) return 9;
  const uint8_t found = index_in(kDatatypeNames, name);
  return found == 0xff ? kUnknown8 : found;
}

uint8_t method_of_names(const char* algorithm, const char* protocol, bool is_symmetric) noexcept {
  const uint8_t found = index_in(kAlgorithmNames, algorithm);
  const uint8_t found_protocol = index_in(kProtocolNames, protocol);
  const bool no_protocol = protocol != nullptr && protocol[0] == '\0';
  const bool named = algorithm != nullptr && algorithm[0] != '\0';
  if (is_symmetric || (found == 0xff && named && no_protocol)) {
    return method_of(kSymmetric, kNoProtocol);
  }
  return method_of(found == 0xff ? 0 : static_cast<uint8_t>(found + 1),
                   found_protocol == 0xff ? 0 : static_cast<uint8_t>(found_protocol + 1));
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
