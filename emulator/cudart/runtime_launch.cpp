// What compiled CUDA programs call behind the scenes: registration of device code and kernel
// launches. Device code is never looked at: a launch takes its place in the stream and does
// nothing.
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "emulator/cudart/runtime.h"
#include "emulator/device/device.h"

using namespace emu;

namespace {

struct Variable {
  std::string name;
  size_t bytes = 0;
  CUdeviceptr address[64] = {};  // allocated per device when first asked for
};

struct Registry {
  std::mutex mutex;
  std::map<const void*, std::string> kernels;
  std::map<const void*, Variable> variables;
};

Registry& registry() {
  static Registry* const made =
      new Registry;  // used by destructors of every library: never destroyed
  return *made;
}

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local CallConfiguration pushed;

CUresult launch(const void* stub, cudaStream_t stream) {
  if (stub == nullptr) return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
  return cuLaunchKernel(function_of(stub), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
}

CUresult variable_address(const void* symbol, CUdeviceptr* address, size_t* bytes) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto found = all.variables.find(symbol);
  if (found == all.variables.end()) return static_cast<CUresult>(cudaErrorInvalidSymbol);
  CUdeviceptr& mine = found->second.address[emu_current_device()];
  if (mine == 0) {
    const CUresult status =
        cuMemAlloc_v2(&mine, found->second.bytes == 0 ? 1 : found->second.bytes);
    if (status != CUDA_SUCCESS) return status;
  }
  *address = mine;
  *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

CUresult copy_symbol(const void* symbol, const void* other, size_t bytes, size_t offset,
                     bool to_symbol, cudaStream_t stream) {
  CUdeviceptr address = 0;
  size_t size = 0;
  const CUresult status = variable_address(symbol, &address, &size);
  if (status != CUDA_SUCCESS) return status;
  if (offset > size || bytes > size - offset) return CUDA_ERROR_INVALID_VALUE;
  return to_symbol ? cuMemcpyAsync(address + offset, address_of(other), bytes, stream)
                   : cuMemcpyAsync(address_of(other), address + offset, bytes, stream);
}

int current_attribute(int number) {
  int value = 0;
  cuDeviceGetAttribute(&value, number, emu_current_device());
  return value;
}

CUresult occupancy(int* blocks, int block_threads) {
  if (blocks == nullptr || block_threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  const int by_threads = current_attribute(39) / block_threads;
  const int limit = current_attribute(106);
  *blocks = by_threads < limit ? by_threads : limit;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* binary) {
  // The handle is only ever handed back to us.
  return static_cast<void**>(::operator new(sizeof(void*) + 0 * sizeof binary));
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { ::operator delete(handle); }
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.kernels[stub] = name;
}

void __cudaRegisterVar(void**, char* host, char*, const char* name, int, size_t bytes, int, int) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> guard(all.mutex);
  Variable& variable = all.variables[host];
  variable.name = name;
  variable.bytes = bytes;
}

void __cudaRegisterManagedVar(void**, void** host, char*, const char* name, int, size_t bytes, int,
                              int) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> guard(all.mutex);
  Variable& variable = all.variables[host];
  variable.name = name;
  variable.bytes = bytes;
}

void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
void __cudaRegisterUnifiedTable(void**, void*) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  pushed = {grid, block, shared_bytes, static_cast<cudaStream_t>(stream)};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_bytes = pushed.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* stub, dim3, dim3, void**, size_t, cudaStream_t stream) {
  return runtime_call([&] { return launch(stub, stream); });
}

cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3, dim3, void**, size_t,
                                        cudaStream_t stream) {
  return runtime_call([&] { return launch(stub, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void**) {
  return runtime_call(
      [&] { return config == nullptr ? CUDA_ERROR_INVALID_VALUE : launch(stub, config->stream); });
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t,
                               cudaStream_t stream) {
  return runtime_call([&] { return launch(kernel, stream); });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  return remember(__cudaGetKernel(kernel, stub));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* stub) {
  if (function == nullptr || stub == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  *function = function_of(stub);
  return cudaSuccess;
}

cudaError_t cudaFuncGetName(const char** name, const void* stub) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> guard(all.mutex);
  const auto found = all.kernels.find(stub);
  if (name == nullptr || found == all.kernels.end())
    return remember(cudaErrorInvalidDeviceFunction);
  *name = found->second.c_str();
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* stub) {
  return runtime_call([&] {
    if (out == nullptr || stub == nullptr) {
      return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
    }
    std::memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = current_attribute(1);
    out->numRegs = 32;
    // Kernels compiled for an older GPU are refused by some libraries.
    out->ptxVersion = current_attribute(75) * 10 + current_attribute(76);
    out->binaryVersion = out->ptxVersion;
    out->maxDynamicSharedSizeBytes = current_attribute(97);
    out->preferredShmemCarveout = -1;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute, int) {
  return runtime_call([&] {
    return stub == nullptr ? static_cast<CUresult>(cudaErrorInvalidDeviceFunction) : CUDA_SUCCESS;
  });
}

cudaError_t cudaFuncSetCacheConfig(const void*, int) { return cudaSuccess; }
cudaError_t cudaFuncSetSharedMemConfig(const void*, int) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t) {
  return runtime_call([&] { return occupancy(blocks, threads); });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int threads, size_t, unsigned) {
  return runtime_call([&] { return occupancy(blocks, threads); });
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void*, int, int) {
  return runtime_call([&] {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = static_cast<size_t>(current_attribute(8));
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
  return runtime_call([&] {
    if (clusters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *clusters = current_attribute(16);
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void*,
                                                 const cudaLaunchConfig_t*) {
  return runtime_call([&] {
    if (size == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *size = 8;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return runtime_call([&] {
    size_t bytes = 0;
    return variable_address(symbol, reinterpret_cast<CUdeviceptr*>(address), &bytes);
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return runtime_call([&] {
    CUdeviceptr address = 0;
    return variable_address(symbol, &address, bytes);
  });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t bytes,
                                    size_t offset, cudaMemcpyKind, cudaStream_t stream) {
  return runtime_call([&] { return copy_symbol(symbol, source, bytes, offset, true, stream); });
}

cudaError_t cudaMemcpyFromSymbolAsync(void* destination, const void* symbol, size_t bytes,
                                      size_t offset, cudaMemcpyKind, cudaStream_t stream) {
  return runtime_call(
      [&] { return copy_symbol(symbol, destination, bytes, offset, false, stream); });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t bytes, size_t offset,
                               cudaMemcpyKind) {
  return runtime_call([&] {
    const CUresult status = copy_symbol(symbol, source, bytes, offset, true, nullptr);
    return status == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : status;
  });
}

cudaError_t cudaMemcpyFromSymbol(void* destination, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind) {
  return runtime_call([&] {
    const CUresult status = copy_symbol(symbol, destination, bytes, offset, false, nullptr);
    return status == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : status;
  });
}

}  // extern "C"
