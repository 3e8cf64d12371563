// A minimal NVML: devices, their names, PCI addresses, memory and versions. What NCCL and PyTorch
// ask for and an emulated GPU has not (NVLink, most fields, processes) exists and answers "not
// supported", because callers use those functions without a look whether they were found.
//
// Structures are written at the offsets that nvml.h documents; no header of NVIDIA's is needed.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "emulator/device/device.h"
#include "emulator/include/cuda.h"

namespace {

enum NvmlReturn {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kUnknown = 999
};

// A handle is the device's number + 1: never null.
using Handle = void*;
Handle handle_of(int device) { return reinterpret_cast<Handle>(static_cast<intptr_t>(device) + 1); }

bool device_of(Handle handle, int* device) {
  const auto number = reinterpret_cast<intptr_t>(handle) - 1;
  if (number < 0 || number >= emu_gpu_count()) return false;
  *device = static_cast<int>(number);
  return true;
}

NvmlReturn put_text(const char* text, char* out, unsigned bytes) {
  if (out == nullptr) return kInvalidArgument;
  const size_t needed = std::strlen(text) + 1;
  if (needed > bytes) return kInsufficientSize;
  std::memcpy(out, text, needed);
  return kSuccess;
}

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68, "nvmlPciInfo_t of nvml.h has 68 bytes");

struct FieldValue {
  uint32_t field;
  uint32_t scope;
  int64_t timestamp_us;
  int64_t latency_us;
  int32_t value_type;
  int32_t status;
  uint64_t value;
};
static_assert(sizeof(FieldValue) == 40, "nvmlFieldValue_t of nvml.h has 40 bytes");
constexpr uint32_t kFieldRecoveryAction = 230;  // NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
constexpr int32_t kUnsignedInt = 1;
constexpr uint64_t kRecoveryNone = 0;

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct MemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

unsigned long long total_bytes(int device) {
  size_t bytes = 0;
  cuInit(0);
  cuDeviceTotalMem_v2(&bytes, device);
  return bytes;
}

NvmlReturn by_index(unsigned index, Handle* out) {
  if (out == nullptr || index >= static_cast<unsigned>(emu_gpu_count())) return kInvalidArgument;
  *out = handle_of(static_cast<int>(index));
  return kSuccess;
}

NvmlReturn pci_info(Handle handle, PciInfo* out) {
  int device = 0;
  if (out == nullptr || !device_of(handle, &device)) return kInvalidArgument;
  std::memset(out, 0, sizeof *out);
  out->bus = 0x10 + static_cast<unsigned>(device);
  out->pci_device_id = 0x233010de;
  const auto bus = static_cast<unsigned char>(out->bus);
  std::snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "0000:%02X:00.0", bus);
  std::snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", bus);
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2(void) { return emu_gpu_count() > 0 ? kSuccess : kNotFound; }
int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return kSuccess; }

const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* out, unsigned bytes) {
  return put_text("595.00.emulated", out, bytes);
}
int nvmlSystemGetNVMLVersion(char* out, unsigned bytes) {
  return put_text("13.595.00.emulated", out, bytes);
}
int nvmlSystemGetCudaDriverVersion(int* version) {
  return cuDriverGetVersion(version) == CUDA_SUCCESS ? kSuccess : kInvalidArgument;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(emu_gpu_count());
  return kSuccess;
}
int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle* out) { return by_index(index, out); }
int nvmlDeviceGetHandleByIndex(unsigned index, Handle* out) { return by_index(index, out); }

int nvmlDeviceGetHandleByPciBusId_v2(const char* text, Handle* out) {
  if (text == nullptr || out == nullptr) return kInvalidArgument;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) return kInvalidArgument;
  if (domain != 0 || bus < 0x10 || slot != 0) return kNotFound;
  return by_index(bus - 0x10, out) == kSuccess ? kSuccess : kNotFound;
}
int nvmlDeviceGetHandleByPciBusId(const char* text, Handle* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, out);
}

int nvmlDeviceGetIndex(Handle handle, unsigned* index) {
  int device = 0;
  if (index == nullptr || !device_of(handle, &device)) return kInvalidArgument;
  *index = static_cast<unsigned>(device);
  return kSuccess;
}
int nvmlDeviceGetMinorNumber(Handle handle, unsigned* minor) {
  return nvmlDeviceGetIndex(handle, minor);
}

int nvmlDeviceGetName(Handle handle, char* out, unsigned bytes) {
  int device = 0;
  char name[96];
  if (!device_of(handle, &device)) return kInvalidArgument;
  cuInit(0);
  if (cuDeviceGetName(name, sizeof name, device) != CUDA_SUCCESS) return kUnknown;
  return put_text(name, out, bytes);
}

int nvmlDeviceGetUUID(Handle handle, char* out, unsigned bytes) {
  int device = 0;
  if (!device_of(handle, &device)) return kInvalidArgument;
  char text[64];
  std::snprintf(text, sizeof text, "GPU-726f6c6c-6361-6c6c-2d65-6d752d6770%02x", device);
  return put_text(text, out, bytes);
}

int nvmlDeviceGetPciInfo_v3(Handle handle, PciInfo* out) { return pci_info(handle, out); }
int nvmlDeviceGetPciInfo_v2(Handle handle, PciInfo* out) { return pci_info(handle, out); }
int nvmlDeviceGetPciInfo(Handle handle, PciInfo* out) { return pci_info(handle, out); }

int nvmlDeviceGetMemoryInfo(Handle handle, Memory* out) {
  int device = 0;
  if (out == nullptr || !device_of(handle, &device)) return kInvalidArgument;
  const unsigned long long total = total_bytes(device);
  *out = {total, total, 0};
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo_v2(Handle handle, MemoryV2* out) {
  int device = 0;
  if (out == nullptr || !device_of(handle, &device)) return kInvalidArgument;
  const unsigned long long total = total_bytes(device);
  *out = {out->version, total, 0, total, 0};
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(Handle handle, Utilization* out) {
  int device = 0;
  if (out == nullptr || !device_of(handle, &device)) return kInvalidArgument;
  *out = {0, 0};
  return kSuccess;
}

int nvmlDeviceGetCudaComputeCapability(Handle handle, int* major, int* minor) {
  int device = 0;
  if (major == nullptr || minor == nullptr || !device_of(handle, &device)) return kInvalidArgument;
  constexpr int kMajor = 75;
  constexpr int kMinor = 76;
  cuInit(0);
  cuDeviceGetAttribute(major, kMajor, device);
  cuDeviceGetAttribute(minor, kMinor, device);
  return kSuccess;
}

int nvmlDeviceGetP2PStatus(Handle first, Handle second, int, int* status) {
  int device = 0;
  if (status == nullptr || !device_of(first, &device) || !device_of(second, &device)) {
    return kInvalidArgument;
  }
  *status = 0;  // OK
  return kSuccess;
}

int nvmlDeviceGetTemperature(Handle, int, unsigned* degrees) {
  if (degrees == nullptr) return kInvalidArgument;
  *degrees = 40;
  return kSuccess;
}

// An emulated GPU needs no recovery: launchers start no job on one that does. Whatever else is
// asked for it has not.
int nvmlDeviceGetFieldValues(Handle handle, int count, FieldValue* values) {
  int device = 0;
  if (values == nullptr || count < 1 || !device_of(handle, &device)) return kInvalidArgument;
  for (int i = 0; i < count; ++i) {
    if (values[i].field != kFieldRecoveryAction) return kNotSupported;
  }
  for (int i = 0; i < count; ++i) {
    values[i].value_type = kUnsignedInt;
    values[i].status = kSuccess;
    values[i].value = kRecoveryNone;
  }
  return kSuccess;
}

#define EMU_NOT_SUPPORTED(name) \
  int name(void) { return kNotSupported; }

EMU_NOT_SUPPORTED(nvmlDeviceGetNvLinkState)
EMU_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo)
EMU_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
EMU_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
EMU_NOT_SUPPORTED(nvmlDeviceGetNvLinkCapability)
EMU_NOT_SUPPORTED(nvmlDeviceGetNvLinkVersion)
EMU_NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfo)
EMU_NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfoV)
EMU_NOT_SUPPORTED(nvmlDeviceGetPlatformInfo)
EMU_NOT_SUPPORTED(nvmlDeviceGetConfComputeCapabilities)
EMU_NOT_SUPPORTED(nvmlSystemGetConfComputeCapabilities)
EMU_NOT_SUPPORTED(nvmlSystemGetConfComputeState)
EMU_NOT_SUPPORTED(nvmlSystemGetConfComputeSettings)
EMU_NOT_SUPPORTED(nvmlDeviceGetComputeRunningProcesses)
EMU_NOT_SUPPORTED(nvmlDeviceGetComputeRunningProcesses_v2)
EMU_NOT_SUPPORTED(nvmlDeviceGetComputeRunningProcesses_v3)
EMU_NOT_SUPPORTED(nvmlDeviceGetPowerUsage)
EMU_NOT_SUPPORTED(nvmlDeviceGetClockInfo)
EMU_NOT_SUPPORTED(nvmlDeviceGetTopologyCommonAncestor)
EMU_NOT_SUPPORTED(nvmlDeviceSetCpuAffinity)
EMU_NOT_SUPPORTED(nvmlDeviceClearCpuAffinity)
EMU_NOT_SUPPORTED(nvmlDeviceGetCpuAffinity)
EMU_NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkWidth)
EMU_NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration)
EMU_NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkWidth)
EMU_NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration)
#undef EMU_NOT_SUPPORTED

}  // extern "C"
