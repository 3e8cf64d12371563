// Memory of the runtime API.
#include <cstring>

#include "emulator/cudart/runtime.h"
#include "emulator/device/device.h"

using namespace emu;

namespace {

bool valid_kind(cudaMemcpyKind kind) { return kind >= 0 && kind <= cudaMemcpyDefault; }

// Rows one by one, in stream order; programs that copy rectangles copy small ones.
CUresult copy_rows(void* destination, size_t destination_pitch, const void* source,
                   size_t source_pitch, size_t width, size_t height, cudaStream_t stream) {
  if (width > destination_pitch || width > source_pitch) return CUDA_ERROR_INVALID_VALUE;
  if (width == destination_pitch && width == source_pitch) {
    return cuMemcpyAsync(address_of(destination), address_of(source), width * height, stream);
  }
  for (size_t row = 0; row < height; ++row) {
    const CUresult status = cuMemcpyAsync(address_of(destination) + row * destination_pitch,
                                          address_of(source) + row * source_pitch, width, stream);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

CUresult fill_rows(void* address, size_t pitch, int value, size_t width, size_t height,
                   cudaStream_t stream) {
  for (size_t row = 0; row < height; ++row) {
    const CUresult status = cuMemsetD8Async(address_of(address) + row * pitch,
                                            static_cast<unsigned char>(value), width, stream);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

CUresult then_wait(CUresult status, cudaStream_t stream) {
  return status == CUDA_SUCCESS ? cuStreamSynchronize(stream) : status;
}

}  // namespace

extern "C" {

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return runtime_call([&] { return cuMemGetInfo_v2(free, total); });
}

cudaError_t cudaMalloc(void** out, size_t bytes) {
  return runtime_call([&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    if (bytes == 0) return CUDA_SUCCESS;
    return cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(out), bytes);
  });
}

cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr) return remember(cudaErrorInvalidValue);
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(out, *pitch * height);
}

cudaError_t cudaFree(void* address) {
  return runtime_call([&] { return cuMemFree_v2(address_of(address)); });
}

cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned int flags) {
  return runtime_call(
      [&] { return cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(out), bytes, flags); });
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned int flags) {
  return runtime_call([&] { return cuMemHostAlloc(out, bytes, flags); });
}

cudaError_t cudaMallocHost(void** out, size_t bytes) { return cudaHostAlloc(out, bytes, 0); }

cudaError_t cudaFreeHost(void* address) {
  return runtime_call([&] { return cuMemFreeHost(address); });
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int flags) {
  return runtime_call([&] { return cuMemHostRegister_v2(address, bytes, flags); });
}

cudaError_t cudaHostUnregister(void* address) {
  return runtime_call([&] { return cuMemHostUnregister(address); });
}

cudaError_t cudaHostGetDevicePointer(void** out, void* address, unsigned int flags) {
  return runtime_call([&] {
    return cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr*>(out), address, flags);
  });
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* address) {
  return runtime_call([&] { return cuMemHostGetFlags(flags, address); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* address) {
  return runtime_call([&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned type = 0;
    int device = 0;
    int managed = 0;
    void* host = nullptr;
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&type, &device, &managed, &host};
    const CUresult status = cuPointerGetAttributes(4, wanted, values, address_of(address));
    if (status != CUDA_SUCCESS) return status;
    std::memset(out, 0, sizeof *out);
    out->type = managed != 0                 ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                : type == 0                  ? cudaMemoryTypeUnregistered
                                             : cudaMemoryTypeDevice;
    out->device = type == 0 ? -2 : device;
    out->hostPointer = type == 0 ? const_cast<void*>(address) : host;
    out->devicePointer = type == 0 ? nullptr : const_cast<void*>(address);
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaMemcpy(void* destination, const void* source, size_t bytes, cudaMemcpyKind kind) {
  return runtime_call([&] {
    if (!valid_kind(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
    if (bytes == 0) return CUDA_SUCCESS;
    return cuMemcpy(address_of(destination), address_of(source), bytes);
  });
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return runtime_call([&] {
    if (!valid_kind(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
    if (bytes == 0) return CUDA_SUCCESS;
    return cuMemcpyAsync(address_of(destination), address_of(source), bytes, stream);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* destination, int, const void* source, int, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream);
}

cudaError_t cudaMemcpyPeer(void* destination, int, const void* source, int, size_t bytes) {
  return cudaMemcpy(destination, source, bytes, cudaMemcpyDefault);
}

cudaError_t cudaMemcpy2DAsync(void* destination, size_t destination_pitch, const void* source,
                              size_t source_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return runtime_call([&] {
    if (!valid_kind(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
    return copy_rows(destination, destination_pitch, source, source_pitch, width, height, stream);
  });
}

cudaError_t cudaMemcpy2D(void* destination, size_t destination_pitch, const void* source,
                         size_t source_pitch, size_t width, size_t height, cudaMemcpyKind) {
  return runtime_call([&] {
    return then_wait(
        copy_rows(destination, destination_pitch, source, source_pitch, width, height, nullptr),
        nullptr);
  });
}

static CUresult copy_batch(void* const* destinations, const void* const* sources,
                           const size_t* sizes, size_t count, cudaStream_t stream) {
  for (size_t i = 0; i < count; ++i) {
    const CUresult status =
        cuMemcpyAsync(address_of(destinations[i]), address_of(sources[i]), sizes[i], stream);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

#if EMU_CUDART < 13
cudaError_t cudaMemcpyBatchAsync(void** destinations, void** sources, size_t* sizes, size_t count,
                                 void*, size_t*, size_t, size_t* failed, cudaStream_t stream) {
  if (failed != nullptr) *failed = SIZE_MAX;
  return runtime_call([&] { return copy_batch(destinations, sources, sizes, count, stream); });
}

cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t) {
  return runtime_call([] { return CUDA_SUCCESS; });
}
cudaError_t cudaMemAdvise(const void*, size_t, int, int) {
  return runtime_call([] { return CUDA_SUCCESS; });
}
#else
cudaError_t cudaMemcpyBatchAsync(void* const* destinations, const void* const* sources,
                                 const size_t* sizes, size_t count, void*, size_t*, size_t,
                                 cudaStream_t stream) {
  return runtime_call([&] { return copy_batch(destinations, sources, sizes, count, stream); });
}

cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned int, cudaStream_t) {
  return runtime_call([] { return CUDA_SUCCESS; });
}
cudaError_t cudaMemAdvise(const void*, size_t, int, cudaMemLocation) {
  return runtime_call([] { return CUDA_SUCCESS; });
}
#endif

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  return runtime_call([&] {
    if (bytes == 0) return CUDA_SUCCESS;
    return cuMemsetD8_v2(address_of(address), static_cast<unsigned char>(value), bytes);
  });
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  return runtime_call([&] {
    if (bytes == 0) return CUDA_SUCCESS;
    return cuMemsetD8Async(address_of(address), static_cast<unsigned char>(value), bytes, stream);
  });
}

cudaError_t cudaMemset2DAsync(void* address, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return runtime_call([&] { return fill_rows(address, pitch, value, width, height, stream); });
}

cudaError_t cudaMemset2D(void* address, size_t pitch, int value, size_t width, size_t height) {
  return runtime_call(
      [&] { return then_wait(fill_rows(address, pitch, value, width, height, nullptr), nullptr); });
}

cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) {
  return runtime_call(
      [&] { return cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(out), bytes, stream); });
}

cudaError_t cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return runtime_call([&] {
    return cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(out), bytes, pool, stream);
  });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return runtime_call([&] { return cuMemFreeAsync(address_of(address), stream); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* out, const cudaMemPoolProps* properties) {
  return runtime_call(
      [&] { return cuMemPoolCreate(out, reinterpret_cast<const CUmemPoolProps*>(properties)); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return runtime_call([&] { return cuMemPoolDestroy(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  return runtime_call([&] { return cuMemPoolTrimTo(pool, bytes); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return runtime_call([&] {
    return cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return runtime_call([&] {
    return cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const void*, size_t) {
  return runtime_call([&] { return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; });
}

cudaError_t cudaMemPoolGetAccess(int* flags, cudaMemPool_t pool, cudaMemLocation*) {
  return runtime_call([&] {
    if (flags == nullptr || pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = 3;
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int device) {
  return runtime_call([&] { return cuDeviceGetDefaultMemPool(out, device); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* out, int device) {
  return runtime_call([&] { return cuDeviceGetMemPool(out, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return runtime_call([&] { return cuDeviceSetMemPool(device, pool); });
}

}  // extern "C"
