// Devices, errors and versions of the runtime API.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "emulator/cudart/runtime.h"
#include "emulator/device/device.h"
#include "emulator/device/errors.h"

namespace emu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t set_primary(int device) {
  CUcontext context = nullptr;
  int active = 0;
  CUresult status = cuDevicePrimaryCtxGetState(device, nullptr, &active);
  if (status != CUDA_SUCCESS) return static_cast<cudaError_t>(status);
  status = cuDevicePrimaryCtxRetain(&context, device);
  if (status != CUDA_SUCCESS) return static_cast<cudaError_t>(status);
  // One reference keeps it active; the runtime of a process needs no more.
  if (active != 0) cuDevicePrimaryCtxRelease_v2(device);
  return static_cast<cudaError_t>(cuCtxSetCurrent(context));
}

int attribute(int number, int device) {
  int value = 0;
  cuDeviceGetAttribute(&value, number, device);
  return value;
}

void fill_limits(cudaDeviceProp* prop, int device) {
  prop->sharedMemPerBlock = static_cast<size_t>(attribute(8, device));
  prop->regsPerBlock = attribute(12, device);
  prop->warpSize = attribute(10, device);
  prop->memPitch = static_cast<size_t>(attribute(11, device));
  prop->maxThreadsPerBlock = attribute(1, device);
  for (int i = 0; i < 3; ++i) {
    prop->maxThreadsDim[i] = attribute(2 + i, device);
    prop->maxGridSize[i] = attribute(5 + i, device);
  }
  prop->totalConstMem = static_cast<size_t>(attribute(9, device));
  prop->textureAlignment = static_cast<size_t>(attribute(14, device));
  prop->texturePitchAlignment = static_cast<size_t>(attribute(51, device));
  prop->surfaceAlignment = static_cast<size_t>(attribute(30, device));
  prop->sharedMemPerMultiprocessor = static_cast<size_t>(attribute(81, device));
  prop->regsPerMultiprocessor = attribute(82, device);
  prop->sharedMemPerBlockOptin = static_cast<size_t>(attribute(97, device));
  prop->maxBlocksPerMultiProcessor = attribute(106, device);
  prop->reservedSharedMemPerBlock = static_cast<size_t>(attribute(111, device));
  prop->maxThreadsPerMultiProcessor = attribute(39, device);
  prop->maxTexture1D = attribute(21, device);
  for (int i = 0; i < 2; ++i) prop->maxTexture2D[i] = attribute(22 + i, device);
  for (int i = 0; i < 3; ++i) prop->maxTexture3D[i] = attribute(24 + i, device);
}

void fill_abilities(cudaDeviceProp* prop, int device) {
  prop->canMapHostMemory = attribute(19, device);
  prop->concurrentKernels = attribute(31, device);
  prop->ECCEnabled = attribute(32, device);
  prop->pciBusID = attribute(33, device);
  prop->pciDeviceID = attribute(34, device);
  prop->pciDomainID = attribute(50, device);
  prop->asyncEngineCount = attribute(40, device);
  prop->unifiedAddressing = attribute(41, device);
  prop->streamPrioritiesSupported = attribute(78, device);
  prop->globalL1CacheSupported = attribute(79, device);
  prop->localL1CacheSupported = attribute(80, device);
  prop->managedMemory = attribute(83, device);
  prop->concurrentManagedAccess = attribute(89, device);
  prop->computePreemptionSupported = attribute(90, device);
  prop->canUseHostPointerForRegisteredMem = attribute(91, device);
  prop->cooperativeLaunch = attribute(95, device);
  prop->accessPolicyMaxWindowSize = attribute(109, device);
#if EMU_CUDART > 11
  prop->hostRegisterSupported = attribute(99, device);
  prop->memoryPoolsSupported = attribute(115, device);
  prop->clusterLaunch = attribute(120, device);
#endif
}

void fill_properties(cudaDeviceProp* prop, int device) {
  std::memset(prop, 0, sizeof *prop);
  cuDeviceGetName(prop->name, sizeof prop->name, device);
  cuDeviceGetUuid_v2(reinterpret_cast<CUuuid*>(&prop->uuid), device);
  cuDeviceTotalMem_v2(&prop->totalGlobalMem, device);
  prop->major = attribute(75, device);
  prop->minor = attribute(76, device);
  prop->multiProcessorCount = attribute(16, device);
  prop->memoryBusWidth = attribute(37, device);
  prop->l2CacheSize = attribute(38, device);
  prop->persistingL2CacheMaxSize = attribute(108, device);
#if EMU_CUDART < 13
  prop->clockRate = attribute(13, device);
  prop->memoryClockRate = attribute(36, device);
  prop->deviceOverlap = attribute(15, device);
  prop->singleToDoublePrecisionPerfRatio = attribute(87, device);
#endif
  fill_limits(prop, device);
  fill_abilities(prop, device);
}

}  // namespace

cudaError_t runtime_ready() {
  static thread_local bool ready = false;
  if (ready) return cudaSuccess;
  const CUresult status = cuInit(0);
  if (status != CUDA_SUCCESS) return static_cast<cudaError_t>(status);
  CUcontext current = nullptr;
  cuCtxGetCurrent(&current);
  if (current == nullptr) {
    const cudaError_t primary = set_primary(0);
    if (primary != cudaSuccess) return primary;
  }
  ready = true;
  return cudaSuccess;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// CUDA 11 has no second version of the look-up; its last argument is left out there.
void* driver_function(const char* name) {
  using GetProcAddress = decltype(&cuGetProcAddress_v2);
  static const auto get_address = [] {
    constexpr const char* kLookUp = EMU_CUDART == 11 ? "cuGetProcAddress" : "cuGetProcAddress_v2";
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void* found = library == nullptr ? nullptr : dlsym(library, kLookUp);
    return reinterpret_cast<GetProcAddress>(found);
  }();
  constexpr int kVersion = EMU_CUDART == 11 ? 11070 : EMU_CUDART * 1000;
  void* function = nullptr;
  if (get_address != nullptr) get_address(name, &function, kVersion, 0, nullptr);
  return function;
}

int not_emulated(const char* function) {
  emu_not_emulated(function, "cudaErrorNotSupported");
  return remember(cudaErrorNotSupported);
}

}  // namespace emu

using namespace emu;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  return remember(static_cast<cudaError_t>(cuDriverGetVersion(version)));
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return remember(cudaErrorInvalidValue);
  *version = EMU_CUDART == 11 ? 11070 : EMU_CUDART == 12 ? 12090 : 13020;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return remember(cudaErrorInvalidValue);
  *count = 0;
  if (const CUresult status = cuInit(0); status != CUDA_SUCCESS) {
    return remember(static_cast<cudaError_t>(status));
  }
  return remember(static_cast<cudaError_t>(cuDeviceGetCount(count)));
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return remember(cudaErrorInvalidValue);
  if (const CUresult status = cuInit(0); status != CUDA_SUCCESS) {
    return remember(static_cast<cudaError_t>(status));
  }
  // Asking makes no context: PyTorch counts on that.
  *device = emu_current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const CUresult status = cuInit(0); status != CUDA_SUCCESS) {
    return remember(static_cast<cudaError_t>(status));
  }
  if (device < 0 || device >= emu_gpu_count()) return remember(cudaErrorInvalidDevice);
  return remember(set_primary(device));
}

cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) {
  if (const CUresult status = cuInit(0); status != CUDA_SUCCESS) {
    return remember(static_cast<cudaError_t>(status));
  }
  return remember(device < 0 || device >= emu_gpu_count() ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t cudaSetDeviceFlags(unsigned int) { return cudaSuccess; }

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  if (flags == nullptr) return remember(cudaErrorInvalidValue);
  *flags = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  if (const CUresult status = cuInit(0); status != CUDA_SUCCESS) {
    return remember(static_cast<cudaError_t>(status));
  }
  if (prop == nullptr) return remember(cudaErrorInvalidValue);
  if (device < 0 || device >= emu_gpu_count()) return remember(cudaErrorInvalidDevice);
  fill_properties(prop, device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr number, int device) {
  return runtime_call([&] { return cuDeviceGetAttribute(value, number, device); });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  return runtime_call([&] { return cuDeviceGetPCIBusId(text, bytes, device); });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return runtime_call([&] { return cuDeviceGetByPCIBusId(device, text); });
}

cudaError_t cudaDeviceSynchronize(void) {
  return runtime_call([] { return cuCtxSynchronize(); });
}

cudaError_t cudaDeviceReset(void) {
  return runtime_call([] {
    const auto reset = reinterpret_cast<decltype(&cuDevicePrimaryCtxReset_v2)>(
        emu::driver_function("cuDevicePrimaryCtxReset"));
    return reset == nullptr ? CUDA_ERROR_NOT_FOUND : reset(emu_current_device());
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return runtime_call([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return runtime_call([&] {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (peer < 0 || peer >= emu_gpu_count()) return CUDA_ERROR_INVALID_DEVICE;
    static std::atomic<uint64_t> enabled[64];
    const uint64_t bit = uint64_t{1} << peer;
    const uint64_t before = enabled[emu_current_device()].fetch_or(bit);
    return (before & bit) != 0 ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return runtime_call([&] {
    return peer < 0 || peer >= emu_gpu_count() ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, int kind, int, int) {
  if (value == nullptr) return remember(cudaErrorInvalidValue);
  constexpr int kAccessSupported = 2;
  constexpr int kNativeAtomics = 3;
  *value = kind == kAccessSupported || kind == kNativeAtomics ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  return runtime_call([] { return CUDA_SUCCESS; });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (value == nullptr) return remember(cudaErrorInvalidValue);
  *value = limit == cudaLimitStackSize ? 1024 : size_t{8} << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetCacheConfig(int) { return cudaSuccess; }
cudaError_t cudaDeviceGetCacheConfig(int* config) {
  *config = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return runtime_call([&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case 0:
      return "cudaSuccess";
    case 9:
      return "cudaErrorInvalidConfiguration";
    case 13:
      return "cudaErrorInvalidSymbol";
    case 21:
      return "cudaErrorInvalidMemcpyDirection";
    case 35:
      return "cudaErrorInsufficientDriver";
    case 98:
      return "cudaErrorInvalidDeviceFunction";
#define EMU_NAME(number, driver, runtime, meaning) \
  case number:                                     \
    return "cudaError" #runtime;
      EMU_ERRORS(EMU_NAME)
#undef EMU_NAME
    default:
      return "unrecognized error code";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case 0:
      return "no error";
    case 9:
      return "invalid configuration argument";
    case 13:
      return "invalid device symbol";
    case 21:
      return "invalid copy direction for memcpy";
    case 35:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case 98:
      return "invalid device function";
#define EMU_TEXT(number, driver, runtime, meaning) \
  case number:                                     \
    return meaning;
      EMU_ERRORS(EMU_TEXT)
#undef EMU_TEXT
    default:
      return "unrecognized error code";
  }
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                             unsigned int version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found) {
  return runtime_call([&] {
    CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult status =
        cuGetProcAddress_v2(symbol, function, static_cast<int>(version), flags, &result);
    if (found == nullptr) return status;
    *found = static_cast<cudaDriverEntryPointQueryResult>(result);
    return status == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : status;
  });
}

#if EMU_CUDART == 11
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 11070, flags, nullptr);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
  return cudaGetDriverEntryPointByVersion(symbol, function, EMU_CUDART * 1000, flags, found);
}
#endif

cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

}  // extern "C"
