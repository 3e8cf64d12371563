// Devices, versions, errors and kernels of the driver API.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/device/gpu_model.h"
#include "emulator/device/graph.h"
#include "emulator/device/settings.h"
#include "emulator/device/stream.h"

using namespace emu;

namespace {

CUresult check_device(CUdevice device) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  return valid_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// A kernel of the program's own: nothing is known of it.
Op kernel_op() {
  Op op;
  op.kernel = "kernel";
  return op;
}

}  // namespace

extern "C" {

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = static_cast<int>(settings().driver_version);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (const CUresult status = check_device(ordinal); status != CUDA_SUCCESS) return status;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = emu_gpu_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  if (const CUresult status = check_device(device); status != CUDA_SUCCESS) return status;
  if (name == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<size_t>(bytes), "%s", gpu_model().name);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (const CUresult status = check_device(device); status != CUDA_SUCCESS) return status;
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  gpu_uuid(device, uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (const CUresult status = check_device(device); status != CUDA_SUCCESS) return status;
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = gpu_memory_bytes();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (const CUresult status = check_device(device); status != CUDA_SUCCESS) return status;
  if (value == nullptr || !gpu_attribute_known(attribute)) return CUDA_ERROR_INVALID_VALUE;
  *value = gpu_attribute(attribute, device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int bytes, CUdevice device) {
  if (const CUresult status = check_device(device); status != CUDA_SUCCESS) return status;
  if (text == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  gpu_pci_bus_id(device, text, static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(text, "%x:%x", &bus, &slot) != 2) return CUDA_ERROR_INVALID_VALUE;
  }
  const int found = static_cast<int>(bus) - 0x10;
  if (domain != 0 || slot != 0 || !valid_device(found)) return CUDA_ERROR_INVALID_DEVICE;
  *device = found;
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (const CUresult status = check_device(device); status != CUDA_SUCCESS) return status;
  if (const CUresult status = check_device(peer); status != CUDA_SUCCESS) return status;
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  if (peer == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext) {
  int device = 0;
  return enter(&device);
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  Lock lock = Engine::get().lock();
  if (const CUresult status = check_device_wait(device); status != CUDA_SUCCESS) return status;
  return Engine::get().wait_device(lock, device);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int, unsigned int, unsigned int, unsigned int,
                        unsigned int, unsigned int, unsigned int, CUstream stream, void**, void**) {
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  emu_kernel_skipped();
  return submit(stream, CU_GRAPH_NODE_TYPE_KERNEL, kernel_op);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  emu_kernel_skipped();
  return submit(config->hStream, CU_GRAPH_NODE_TYPE_KERNEL, kernel_op);
}

// The driver's log of errors stays empty: nothing is ever called back.
CUresult cuLogsRegisterCallback(void (*)(void*, int, char*, size_t), void*, void** callback) {
  if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static char registered;
  *callback = &registered;
  return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(void*) { return CUDA_SUCCESS; }

}  // extern "C"
