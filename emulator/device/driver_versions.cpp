// Look-up of driver functions by name, and the functions that exist in several versions.
//
// A caller asks for a short name and the CUDA version it was written for ("cuMemAlloc", 12000) and
// must get the version of the function that cuda.h of that release means. Most have one signature
// since long; the exceptions are in the table. The old versions themselves are at the end.
#include <dlfcn.h>

#include <climits>
#include <cstdio>
#include <cstring>

#include "emulator/device/stream.h"

using namespace emu;

namespace {

struct NewerVersion {
  const char* name;
  const char* symbol;
  int since;  // CUDA version from which the short name means `symbol`
};

// Latest first among the entries of one name.
constexpr NewerVersion kNewer[] = {
    {"cuGetProcAddress", "cuGetProcAddress_v2", 12000},
    {"cuDeviceGetUuid", "cuDeviceGetUuid_v2", 11040},
    {"cuDeviceTotalMem", "cuDeviceTotalMem_v2", 3020},
    {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 11000},
    {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2", 11000},
    {"cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2", 11000},
    {"cuCtxPushCurrent", "cuCtxPushCurrent_v2", 4000},
    {"cuCtxPopCurrent", "cuCtxPopCurrent_v2", 4000},
    {"cuStreamDestroy", "cuStreamDestroy_v2", 4000},
    {"cuStreamWriteValue32", "cuStreamWriteValue32_v2", 11070},
    {"cuStreamWriteValue64", "cuStreamWriteValue64_v2", 11070},
    {"cuStreamWaitValue32", "cuStreamWaitValue32_v2", 11070},
    {"cuStreamWaitValue64", "cuStreamWaitValue64_v2", 11070},
    {"cuEventDestroy", "cuEventDestroy_v2", 4000},
    {"cuEventElapsedTime", "cuEventElapsedTime_v2", 12080},
    {"cuMemGetInfo", "cuMemGetInfo_v2", 3020},
    {"cuMemAlloc", "cuMemAlloc_v2", 3020},
    {"cuMemAllocPitch", "cuMemAllocPitch_v2", 3020},
    {"cuMemAllocHost", "cuMemAllocHost_v2", 3020},
    {"cuMemFree", "cuMemFree_v2", 3020},
    {"cuMemHostRegister", "cuMemHostRegister_v2", 6050},
    {"cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2", 3020},
    {"cuMemGetAddressRange", "cuMemGetAddressRange_v2", 3020},
    {"cuMemcpyHtoD", "cuMemcpyHtoD_v2", 3020},
    {"cuMemcpyDtoH", "cuMemcpyDtoH_v2", 3020},
    {"cuMemcpyDtoD", "cuMemcpyDtoD_v2", 3020},
    {"cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", 3020},
    {"cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 3020},
    {"cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2", 3020},
    {"cuMemsetD8", "cuMemsetD8_v2", 3020},
    {"cuMemsetD16", "cuMemsetD16_v2", 3020},
    {"cuMemsetD32", "cuMemsetD32_v2", 3020},
    {"cuModuleGetGlobal", "cuModuleGetGlobal_v2", 3020},
    {"cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010},
    {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v3", 12030},
    {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030},
    {"cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_v2", 12030},
    {"cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000},
    {"cuGraphInstantiate", "cuGraphInstantiate_v2", 11000},
    {"cuGraphAddKernelNode", "cuGraphAddKernelNode_v2", 12000},
    {"cuGraphAddDependencies", "cuGraphAddDependencies_v2", 12030},
};

const char* versioned_symbol(const char* name, int version) {
  for (const NewerVersion& newer : kNewer) {
    if (std::strcmp(newer.name, name) == 0 && version >= newer.since) return newer.symbol;
  }
  return name;
}

// The C library's own: a driver does not look up its functions by a dlsym that a preloaded library
// has put in front of it, so that library must see the program's look-ups alone.
void* look_up(void* handle, const char* symbol) {
  static const auto real = [] {
    void* library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void* found = library == nullptr ? nullptr : dlsym(library, "dlsym");
    return found == nullptr ? &dlsym : reinterpret_cast<decltype(&dlsym)>(found);
  }();
  return real(handle, symbol);
}

// In this very library, wherever the program loaded it from.
void* own_symbol(const char* symbol) {
  static void* const handle = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&cuInit), &info) == 0) return static_cast<void*>(nullptr);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return handle == nullptr ? nullptr : look_up(handle, symbol);
}

}  // namespace

// What a generated stub of a driver function answers (CMakeLists.txt): the function exists, so that
// a program finds it as in a real driver, and cannot do its work.
namespace emu {
int driver_not_emulated(const char* function);
int driver_not_emulated(const char* function) {
  emu_not_emulated(function, "CUDA_ERROR_NOT_SUPPORTED");
  return CUDA_ERROR_NOT_SUPPORTED;
}
}  // namespace emu

#undef cuGetProcAddress
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies
#undef cuGraphAddDependencies
#undef cuEventElapsedTime
#undef cuStreamWriteValue32
#undef cuStreamWaitValue32

extern "C" {

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* found) {
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  constexpr cuuint64_t kPerThreadDefaultStream = 2;
  const char* exported = versioned_symbol(symbol, version);
  if ((flags & kPerThreadDefaultStream) != 0) {
    char per_thread[128];
    std::snprintf(per_thread, sizeof per_thread, "%s_ptsz", exported);
    *function = own_symbol(per_thread);
  }
  if (*function == nullptr && std::strncmp(exported, "cu", 2) == 0)
    *function = own_symbol(exported);
  // Only the newer version of some functions is here; their signatures agree.
  if (*function == nullptr) *function = own_symbol(versioned_symbol(symbol, INT_MAX));
  if (found != nullptr) {
    *found =
        *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

// The tables are documented nowhere. NVIDIA's own runtime asks for them, in libcudart (replaced
// here) and where it was linked into a program or a library (which nothing can replace).
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  emu_not_emulated(
      "cuGetExportTable",
      "CUDA_ERROR_NOT_SUPPORTED. Who asks for it mostly has the CUDA runtime linked in "
      "statically (as CuPy and cuDNN have) and needs a real GPU for that part");
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** waits, size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, waits, nullptr, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* waits, size_t count,
                                           unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, waits, nullptr, count, flags);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  return cuStreamWriteValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  return cuStreamWaitValue32_v2(stream, address, value, flags);
}

}  // extern "C"
