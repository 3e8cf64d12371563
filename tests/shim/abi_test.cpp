// Holds every declaration of shim/api_table.h against the real nccl.h of ROLLCALL_NCCL_INCLUDE, at
// compile time. Two types agree when the machine passes them alike: pointers with pointers, enums
// and integers by size, structs by size and alignment.
//
// Compiled by the build where nccl.h is found, and by scripts/check_api.py against many releases.
#include <nccl.h>

#include <type_traits>

#include "core/format/vocabulary.h"
#include "shim/api_table.h"

namespace {
using namespace rollcall;

template <typename A, typename B>
constexpr bool passes_alike() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>)
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  else if constexpr (std::is_class_v<A> || std::is_class_v<B>)
    // NOLINTNEXTLINE(misc-redundant-expression): A and B differ in what this is compiled to find
    return std::is_class_v<A> && std::is_class_v<B> && sizeof(A) == sizeof(B) &&
           alignof(A) == alignof(B);
  else
    return sizeof(A) == sizeof(B) && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
}

template <typename A, typename B>
struct SameAbi : std::false_type {};
template <typename R, typename... Rs, typename S, typename... Ss>
struct SameAbi<R (*)(Rs...), S (*)(Ss...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(Rs) == sizeof...(Ss))
      return passes_alike<R, S>() && (passes_alike<Rs, Ss>() && ...);
    else
      return false;
  }
  static constexpr bool value = compare();
};

// A list of parameters is no expression. NOLINTBEGIN(bugprone-macro-parentheses)
#define ROLLCALL_X(class, name, parameters, arguments)                         \
  static_assert(SameAbi<nccl::Result(*) parameters, decltype(&::name)>::value, \
                #name " is declared otherwise in this nccl.h");
// NOLINTEND(bugprone-macro-parentheses)
ROLLCALL_NCCL_2_3(ROLLCALL_X)
ROLLCALL_NCCL_2_4(ROLLCALL_X)
#if NCCL_VERSION_CODE >= 2703
ROLLCALL_NCCL_2_7(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 21104
ROLLCALL_NCCL_2_11(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 21403
ROLLCALL_NCCL_2_14(ROLLCALL_X)
static_assert(sizeof(ncclConfig_t) >= nccl::kConfigBytesBlocking);
static_assert(offsetof(ncclConfig_t, size) == offsetof(nccl::ConfigHead, size));
static_assert(offsetof(ncclConfig_t, magic) == offsetof(nccl::ConfigHead, magic));
static_assert(offsetof(ncclConfig_t, version) == offsetof(nccl::ConfigHead, version));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(nccl::ConfigHead, blocking));
static_assert(static_cast<int>(ncclInProgress) == nccl::kInProgress);
#endif
#if NCCL_VERSION_CODE >= 21801
ROLLCALL_NCCL_2_18(ROLLCALL_X)
static_assert(NCCL_SPLIT_NOCOLOR == nccl::kSplitNoColor);
#endif
#if NCCL_VERSION_CODE >= 21901
ROLLCALL_NCCL_2_19(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 22203
ROLLCALL_NCCL_2_22(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 22304
ROLLCALL_NCCL_2_23(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 22703
ROLLCALL_NCCL_2_27(ROLLCALL_X)
static_assert(offsetof(ncclConfig_t, commName) == offsetof(nccl::ConfigHead, comm_name));
#endif
#if NCCL_VERSION_CODE >= 22803
ROLLCALL_NCCL_2_28(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 22807
ROLLCALL_NCCL_2_28_7(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 22902
ROLLCALL_NCCL_2_29(ROLLCALL_X)
static_assert(sizeof(ncclWaitSignalDesc_t) == sizeof(nccl::WaitSignalDesc));
static_assert(offsetof(ncclWaitSignalDesc_t, opCnt) == offsetof(nccl::WaitSignalDesc, count));
static_assert(offsetof(ncclWaitSignalDesc_t, peer) == offsetof(nccl::WaitSignalDesc, peer));
static_assert(offsetof(ncclWaitSignalDesc_t, sigIdx) == offsetof(nccl::WaitSignalDesc, signal));
static_assert(offsetof(ncclWaitSignalDesc_t, ctx) == offsetof(nccl::WaitSignalDesc, context));
#endif
#if NCCL_VERSION_CODE >= 22907
ROLLCALL_NCCL_2_29_7(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 23102
ROLLCALL_NCCL_2_31(ROLLCALL_X)
#endif
#if NCCL_VERSION_CODE >= 23203
ROLLCALL_NCCL_2_32(ROLLCALL_X)
#endif
#undef ROLLCALL_X

static_assert(sizeof(::ncclUniqueId) == sizeof(nccl::UniqueId));
static_assert(alignof(::ncclUniqueId) == alignof(nccl::UniqueId));
static_assert(static_cast<int>(ncclSuccess) == nccl::kSuccess);
static_assert(static_cast<int>(ncclSystemError) == nccl::kSystemError);

// The numbers that stand in files are NCCL's own.
static_assert(kDatatypes[ncclInt8].name == "int8" && kDatatypes[ncclUint64].name == "uint64");
static_assert(kDatatypes[ncclFloat16].name == "float16" && kDatatypes[ncclFloat64].bytes == 8);
static_assert(kReductions[ncclSum] == "sum" && kReductions[ncclMin] == "min");
#if NCCL_VERSION_CODE >= 21003
static_assert(kReductions[ncclAvg] == "avg");
#endif
#if NCCL_VERSION_CODE >= 22403
static_assert(kDatatypes[ncclBfloat16].name == "bfloat16");
static_assert(kDatatypes[ncclFloat8e5m2].name == "float8e5m2" && kDatatypeCount == ncclNumTypes);
#endif

}  // namespace
