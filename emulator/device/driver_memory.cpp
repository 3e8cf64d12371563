// Memory of the driver API: allocation, pools, attributes of pointers, copies and fills.
#include <algorithm>
#include <cstring>

#include "emulator/device/gpu_model.h"
#include "emulator/device/graph.h"
#include "emulator/device/memory.h"
#include "emulator/device/settings.h"
#include "emulator/device/stream.h"

// What a CUmemoryPool points to. Pools differ by name only: blocks are mapped and unmapped one by
// one.
struct CUmemPoolHandle_st {
  int device = 0;
  uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};
};

using namespace emu;

namespace {

// Small enough that the thread which enqueues it may as well do it.
constexpr size_t kShortCopyBytes = 32 * 1024;
CUmemPoolHandle_st default_pools[64];
CUmemoryPool current_pools[64];

void* host(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
CUdeviceptr device_pointer(void* address) { return reinterpret_cast<CUdeviceptr>(address); }

uint64_t copy_duration_ns(size_t bytes) {
  return settings().copy_times != 0 ? emu_transfer_ns(bytes, 0) : 0;
}

MakeOp copy_op(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return [=] {
    return run_op([=] { memory_copy(host(destination), host(source), bytes); },
                  bytes <= kShortCopyBytes, copy_duration_ns(bytes));
  };
}

MakeOp fill_op(CUdeviceptr address, unsigned value, size_t value_bytes, size_t count) {
  return [=] {
    return run_op([=] { memory_fill(host(address), value, value_bytes, count); },
                  value_bytes * count <= kShortCopyBytes, 0);
  };
}

// Allocation may have to wait for the device, so CUDA forbids it while another stream captures.
CUresult enter_allocation(int* device) {
  if (const CUresult status = enter(device); status != CUDA_SUCCESS) return status;
  const Lock lock = Engine::get().lock();
  if (const CUresult status = check_unsafe_call(); status != CUDA_SUCCESS) return status;
  return Engine::get().sticky(*device);
}

CUresult allocate(CUdeviceptr* out, size_t bytes, MemoryKind kind, unsigned flags,
                  CUmemoryPool pool, int device) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* address = memory_allocate(bytes, kind, device, flags, pool);
  if (address == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = device_pointer(address);
  return CUDA_SUCCESS;
}

CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address,
                           const MemoryBlock* block) {
  const bool on_host = block != nullptr && (block->kind == MemoryKind::kPinned ||
                                            block->kind == MemoryKind::kRegistered);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = primary_context(block->device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (block->kind == MemoryKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(data) = host(address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = block->id;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<int*>(data) = block->kind == MemoryKind::kManaged ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = block->device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<void**>(data) = reinterpret_cast<void*>(block->address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = block->bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<int*>(data) = 1;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<uint64_t*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *static_cast<int*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *static_cast<int*>(data) = 3;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(data) = block->pool;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

size_t pointer_attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return 4;
    default:
      return 8;
  }
}

}  // namespace

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  int device = 0;
  if (const CUresult status = enter_healthy(&device); status != CUDA_SUCCESS) return status;
  const uint64_t used = std::min(memory_used(device), gpu_memory_bytes());
  if (free != nullptr) *free = gpu_memory_bytes() - used;
  if (total != nullptr) *total = gpu_memory_bytes();
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  int device = 0;
  if (const CUresult status = enter_allocation(&device); status != CUDA_SUCCESS) return status;
  return allocate(out, bytes, MemoryKind::kDevice, 0, nullptr, device);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                            unsigned int) {
  if (pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  return cuMemAlloc_v2(out, *pitch * height);
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  int device = 0;
  if (const CUresult status = enter_allocation(&device); status != CUDA_SUCCESS) return status;
  return allocate(out, bytes, MemoryKind::kManaged, flags, nullptr, device);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  int device = 0;
  if (const CUresult status = enter_allocation(&device); status != CUDA_SUCCESS) return status;
  if (address == 0) return CUDA_SUCCESS;
  MemoryBlock block;
  if (!memory_find(host(address), &block) || block.address != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  {
    // As on a GPU: what was enqueued before may still use the memory.
    Lock lock = Engine::get().lock();
    Engine::get().wait_device(lock, block.device);
  }
  return memory_free(host(address), MemoryKind::kDevice) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  int device = 0;
  if (const CUresult status = enter_allocation(&device); status != CUDA_SUCCESS) return status;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *out = nullptr;
    return CUDA_SUCCESS;
  }
  CUdeviceptr address = 0;
  const CUresult status = allocate(&address, bytes, MemoryKind::kPinned, flags, nullptr, device);
  if (status == CUDA_SUCCESS) *out = host(address);
  return status;
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }

CUresult cuMemFreeHost(void* address) {
  int device = 0;
  if (const CUresult status = enter_allocation(&device); status != CUDA_SUCCESS) return status;
  if (address == nullptr) return CUDA_SUCCESS;
  MemoryBlock block;
  if (!memory_find(address, &block) || block.kind != MemoryKind::kPinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  {
    Lock lock = Engine::get().lock();
    Engine::get().wait_device(lock, block.device);
  }
  return memory_free(address, MemoryKind::kPinned) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int flags) {
  int device = 0;
  if (const CUresult status = enter_allocation(&device); status != CUDA_SUCCESS) return status;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return memory_register(address, bytes, flags, device) ? CUDA_SUCCESS
                                                        : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* address) {
  int device = 0;
  if (const CUresult status = enter_allocation(&device); status != CUDA_SUCCESS) return status;
  return memory_unregister(address) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* address, unsigned int) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  MemoryBlock block;
  if (out == nullptr || !memory_find(address, &block)) return CUDA_ERROR_INVALID_VALUE;
  *out = device_pointer(address);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* address) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  MemoryBlock block;
  if (flags == nullptr || !memory_find(address, &block)) return CUDA_ERROR_INVALID_VALUE;
  *flags = block.flags;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  MemoryBlock block;
  if (!memory_find(host(address), &block)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = block.address;
  if (bytes != nullptr) *bytes = block.bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  MemoryBlock block;
  if (data == nullptr || !memory_find(host(address), &block)) return CUDA_ERROR_INVALID_VALUE;
  return pointer_attribute(data, attribute, address, &block);
}

// Unlike the single form this one succeeds for any address: what is unknown reads as zero.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MemoryBlock block;
  const bool known = memory_find(host(address), &block);
  for (unsigned i = 0; i < count; ++i) {
    const CUresult status =
        known ? pointer_attribute(data[i], attributes[i], address, &block) : CUDA_ERROR_NOT_FOUND;
    if (status == CUDA_SUCCESS) continue;
    std::memset(data[i], 0, pointer_attribute_bytes(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(data[i]) = -2;
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void*, CUpointer_attribute attribute, CUdeviceptr) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  return attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return submit_and_wait(nullptr, copy_op(destination, source, bytes));
}

CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMCPY, copy_op(destination, source, bytes));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void* source, size_t bytes) {
  return cuMemcpy(destination, reinterpret_cast<CUdeviceptr>(source), bytes);
}
CUresult cuMemcpyDtoH_v2(void* destination, CUdeviceptr source, size_t bytes) {
  return cuMemcpy(device_pointer(destination), source, bytes);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes) {
  return cuMemcpy(destination, source, bytes);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void* source, size_t bytes,
                              CUstream stream) {
  return cuMemcpyAsync(destination, reinterpret_cast<CUdeviceptr>(source), bytes, stream);
}
CUresult cuMemcpyDtoHAsync_v2(void* destination, CUdeviceptr source, size_t bytes,
                              CUstream stream) {
  return cuMemcpyAsync(device_pointer(destination), source, bytes, stream);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
                              CUstream stream) {
  return cuMemcpyAsync(destination, source, bytes, stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count) {
  return submit_and_wait(nullptr, fill_op(address, value, 1, count));
}
CUresult cuMemsetD16_v2(CUdeviceptr address, unsigned short value, size_t count) {
  return submit_and_wait(nullptr, fill_op(address, value, 2, count));
}
CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned int value, size_t count) {
  return submit_and_wait(nullptr, fill_op(address, value, 4, count));
}
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET, fill_op(address, value, 1, count));
}
CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count,
                          CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET, fill_op(address, value, 2, count));
}
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned int value, size_t count, CUstream stream) {
  return submit(stream, CU_GRAPH_NODE_TYPE_MEMSET, fill_op(address, value, 4, count));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  int device = 0;
  if (const CUresult status = enter_healthy(&device); status != CUDA_SUCCESS) return status;
  if (emu_stream_capturing(stream, nullptr) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return allocate(out, bytes, MemoryKind::kDevice, 0, pool,
                  pool != nullptr ? pool->device : device);
}

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  CUmemoryPool pool = nullptr;
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  if (const CUresult status = cuDeviceGetMemPool(&pool, device); status != CUDA_SUCCESS)
    return status;
  return cuMemAllocFromPoolAsync(out, bytes, pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  MemoryBlock block;
  if (address == 0 || !memory_find(host(address), &block) || block.address != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return submit(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, [=] {
    return run_op([=] { memory_free(host(address), MemoryKind::kDevice); }, true, 0);
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->handleTypes != 0) return CUDA_ERROR_NOT_SUPPORTED;  // not to be shared
  const int device =
      properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties->location.id : 0;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = new CUmemPoolHandle_st{device};
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (pool >= &default_pools[0] && pool < &default_pools[64]) return CUDA_ERROR_INVALID_VALUE;
  // Blocks name their pool for ever, so the handle stays; a pool is a few dozen bytes.
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    pool->release_threshold = *static_cast<uint64_t*>(value);
  } else if (attribute >= 1 && attribute <= 3) {
    pool->reuse[attribute - 1] = *static_cast<int*>(value);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute >= 1 && attribute <= 3) {
    *static_cast<int*>(value) = pool->reuse[attribute - 1];
  } else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    *static_cast<uint64_t*>(value) = pool->release_threshold;
  } else {
    *static_cast<uint64_t*>(value) = memory_used(pool->device);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const void*, size_t) {
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(int* flags, CUmemoryPool pool, CUmemLocation*) {
  if (flags == nullptr || pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = 3;  // read and write
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  default_pools[device].device = device;
  *out = &default_pools[device];
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  const CUresult status = cuDeviceGetDefaultMemPool(out, device);
  if (status == CUDA_SUCCESS && current_pools[device] != nullptr) *out = current_pools[device];
  return status;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (!valid_device(device) || pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  current_pools[device] = pool;
  return CUDA_SUCCESS;
}

}  // extern "C"
