// Memory, registration, windows, run-time parameters.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/nccl/api.h"
#include "emulator/nccl/log.h"

extern "C" {
int cuMemAlloc_v2(unsigned long long* address, size_t bytes);
int cuMemFree_v2(unsigned long long address);
}

// What an ncclWindow_t points to. The data goes the same way with and without a window.
struct ncclWindow_vidmem {
  void* buffer;
  size_t bytes;
};
struct ncclParamHandle {
  std::string key;
  std::string value;
};

namespace emu_nccl {
namespace {

// NCCL rounds to the granularity of the driver's physical memory.
constexpr size_t kGranularity = 2 * 1024 * 1024;

// The parameters of the emulator that a program may ask for, all read from the environment.
constexpr const char* kParameters[] = {
    "NCCL_DEBUG",         "NCCL_DEBUG_SUBSYS",          "NCCL_DEBUG_FILE",
    "NCCL_COMM_BLOCKING", "NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_HOSTID"};

template <typename Integer>
ncclResult_t get_integer(ncclParamHandle_t handle, Integer* out, const char* function) {
  if (const ncclResult_t result = require(handle, function, "handle")) return result;
  if (const ncclResult_t result = require(out, function, "out")) return result;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(handle->value.c_str(), &end, 0);
  if (errno != 0 || *end != '\0' || handle->value.empty() ||
      static_cast<long long>(static_cast<Integer>(value)) != value) {
    warn("%s : %s is '%s', not a number that fits", function, handle->key.c_str(),
         handle->value.c_str());
    return ncclInvalidArgument;
  }
  *out = static_cast<Integer>(value);
  return ncclSuccess;
}

ncclResult_t check_window(ncclComm_t comm, const void* pointer, const char* function) {
  ncclResult_t result = ncclSuccess;
  if (!ready(comm, function, &result)) return result;
  return require(pointer, function, "window");
}

}  // namespace
}  // namespace emu_nccl

using namespace emu_nccl;

EMU_NCCL_API(ncclResult_t, MemAlloc, (void** ptr, size_t size)) {
  if (ptr == nullptr || size == 0) {
    warn("ncclMemAlloc : ptr is NULL or size is 0");
    return ncclInvalidArgument;
  }
  unsigned long long address = 0;
  const size_t rounded = (size + kGranularity - 1) / kGranularity * kGranularity;
  if (const int error = cuMemAlloc_v2(&address, rounded); error != 0) {
    warn("ncclMemAlloc : cuMemAlloc of %zu bytes failed with CUresult %d", rounded, error);
    return ncclUnhandledCudaError;
  }
  *ptr = reinterpret_cast<void*>(address);
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, MemFree, (void* ptr)) {
  if (ptr == nullptr) return ncclSuccess;
  if (const int error = cuMemFree_v2(reinterpret_cast<unsigned long long>(ptr)); error != 0) {
    warn("ncclMemFree : cuMemFree failed with CUresult %d", error);
    return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommRegister,
             (const ncclComm_t comm, void* buff, size_t size, void** handle)) {
  if (const ncclResult_t result = check_window(comm, handle, "ncclCommRegister")) return result;
  *handle = new ncclWindow_vidmem{buff, size};
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommDeregister, (const ncclComm_t comm, void* handle)) {
  ncclResult_t result = ncclSuccess;
  if (!usable(comm, "ncclCommDeregister", &result)) return result;
  delete static_cast<ncclWindow_vidmem*>(handle);
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommWindowRegister,
             (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags)) {
  if (const ncclResult_t result = check_window(comm, win, "ncclCommWindowRegister")) return result;
  if ((winFlags & ~(NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING)) != 0) {
    warn("ncclCommWindowRegister : flags %d are unknown", winFlags);
    return ncclInvalidArgument;
  }
  *win = new ncclWindow_vidmem{buff, size};
  if ((winFlags & NCCL_WIN_COLL_SYMMETRIC) != 0) find_communicator(comm)->windows.add(buff, size);
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  ncclResult_t result = ncclSuccess;
  const CommunicatorPointer communicator = usable(comm, "ncclCommWindowDeregister", &result);
  if (!communicator) return result;
  if (win != nullptr) communicator->windows.remove(win->buffer);
  delete win;
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, WinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr)) {
  if (const ncclResult_t result = check_window(comm, win, "ncclWinGetUserPtr")) return result;
  if (const ncclResult_t result = require(outUserPtr, "ncclWinGetUserPtr", "outUserPtr")) {
    return result;
  }
  *outUserPtr = win->buffer;
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, ParamBind, (ncclParamHandle_t * out, const char* key)) {
  if (const ncclResult_t result = require(out, "ncclParamBind", "out")) return result;
  if (const ncclResult_t result = require(key, "ncclParamBind", "key")) return result;
  const char* const value = std::getenv(key);
  // Never freed: handles live as long as the library, as in NCCL.
  *out = new ncclParamHandle{key, value != nullptr ? value : ""};
  return ncclSuccess;
}

// A list of parameters is no expression. NOLINTBEGIN(bugprone-macro-parentheses)
#define EMU_NCCL_PARAM_GET(suffix, type)                                            \
  EMU_NCCL_API(ncclResult_t, ParamGet##suffix, (ncclParamHandle_t h, type * out)) { \
    return get_integer(h, out, "ncclParamGet" #suffix);                             \
  }
// NOLINTEND(bugprone-macro-parentheses)
EMU_NCCL_PARAM_GET(I8, int8_t)
EMU_NCCL_PARAM_GET(I16, int16_t)
EMU_NCCL_PARAM_GET(I32, int32_t)
EMU_NCCL_PARAM_GET(I64, int64_t)
EMU_NCCL_PARAM_GET(U8, uint8_t)
EMU_NCCL_PARAM_GET(U16, uint16_t)
EMU_NCCL_PARAM_GET(U32, uint32_t)
EMU_NCCL_PARAM_GET(U64, uint64_t)
#undef EMU_NCCL_PARAM_GET

EMU_NCCL_API(ncclResult_t, ParamGetStr, (ncclParamHandle_t h, const char** out)) {
  if (const ncclResult_t result = require(h, "ncclParamGetStr", "handle")) return result;
  if (const ncclResult_t result = require(out, "ncclParamGetStr", "out")) return result;
  *out = h->value.c_str();
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, ParamGet, (ncclParamHandle_t h, void* out, int maxLen, int* len)) {
  if (const ncclResult_t result = require(h, "ncclParamGet", "handle")) return result;
  if (const ncclResult_t result = require(out, "ncclParamGet", "out")) return result;
  const size_t bytes = h->value.size() + 1;
  if (maxLen < 0 || static_cast<size_t>(maxLen) < bytes) {
    warn("ncclParamGet : %s needs %zu bytes", h->key.c_str(), bytes);
    return ncclInvalidArgument;
  }
  std::memcpy(out, h->value.c_str(), bytes);
  if (len != nullptr) *len = static_cast<int>(bytes);
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, ParamGetParameter,
             (const char* key, const char** value, int* valueLen)) {
  if (const ncclResult_t result = require(key, "ncclParamGetParameter", "key")) return result;
  if (const ncclResult_t result = require(value, "ncclParamGetParameter", "value")) return result;
  const char* const text = std::getenv(key);
  *value = text != nullptr ? text : "";
  if (valueLen != nullptr) *valueLen = static_cast<int>(std::strlen(*value));
  return ncclSuccess;
}

EMU_NCCL_API(ncclResult_t, ParamGetAllParameterKeys, (const char*** table, int* tableLen)) {
  if (const ncclResult_t result = require(table, "ncclParamGetAllParameterKeys", "table")) {
    return result;
  }
  *table = const_cast<const char**>(kParameters);
  if (tableLen != nullptr) *tableLen = static_cast<int>(std::size(kParameters));
  return ncclSuccess;
}

EMU_NCCL_API(void, ParamDumpAll, (void)) {
  for (const char* const key : kParameters) {
    const char* const value = std::getenv(key);
    info(kLogEnv, "%s=%s", key, value != nullptr ? value : "(unset)");
  }
}
