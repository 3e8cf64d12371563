#include "emulator/device/gpu_model.h"

#include <strings.h>

#include <cstdio>
#include <cstring>

#include "emulator/device/settings.h"

namespace emu {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;

constexpr GpuModel kModels[] = {
    {"H100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 81559 * kMiB, 2048, 32, 233472, 232448, 52428800,
     5120, 2619000, 1980000},
    {"H200", "NVIDIA H200", 9, 0, 132, 143771 * kMiB, 2048, 32, 233472, 232448, 62914560, 6144,
     3201000, 1980000},
    {"A100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 81920 * kMiB, 2048, 32, 167936, 166912, 41943040,
     5120, 1593000, 1410000},
    {"V100", "Tesla V100-SXM2-32GB", 7, 0, 80, 32768 * kMiB, 2048, 32, 98304, 98304, 6291456, 4096,
     877000, 1530000},
    {"B200", "NVIDIA B200", 10, 0, 148, 183359 * kMiB, 2048, 32, 233472, 232448, 132644864, 8192,
     3996000, 1965000},
};

const GpuModel* find_model() {
  const std::string& wanted = settings().gpu_name;
  for (const GpuModel& model : kModels) {
    if (strcasecmp(wanted.c_str(), model.key) == 0 || wanted == model.name) return &model;
  }
  std::fprintf(stderr,
               "rollcall emulator: ROLLCALL_EMULATE_GPU_NAME=%s is not one of H100, H200, A100, "
               "V100, B200; using H100\n",
               wanted.c_str());
  return &kModels[0];
}

constexpr int kAttributeMax = 147;

}  // namespace

const GpuModel& gpu_model() {
  static const GpuModel* const model = find_model();
  return *model;
}

uint64_t gpu_memory_bytes() {
  const uint64_t gib = settings().gpu_memory_gib;
  return gib != 0 ? gib << 30 : gpu_model().memory_bytes;
}

bool gpu_attribute_known(int attribute) { return attribute >= 1 && attribute <= kAttributeMax; }

int gpu_attribute(int attribute, int device) {
  const GpuModel& model = gpu_model();
  switch (attribute) {
    case 1:
      return 1024;  // threads per block
    case 2:
    case 3:
      return 1024;  // block x, y
    case 4:
      return 64;  // block z
    case 5:
      return 2147483647;  // grid x
    case 6:
    case 7:
      return 65535;  // grid y, z
    case 8:
      return 49152;  // shared memory per block
    case 9:
      return 65536;  // constant memory
    case 10:
      return 32;  // warp
    case 11:
      return 2147483647;  // pitch
    case 12:
      return 65536;  // registers per block
    case 13:
      return model.clock_khz;
    case 14:
      return 512;  // texture alignment
    case 15:
      return 1;  // copy and compute overlap
    case 16:
      return model.multiprocessors;
    case 19:
      return 1;  // can map host memory
    case 21:
    case 22:
    case 24:
      return attribute == 24 ? 16384 : 131072;  // texture sizes
    case 23:
      return 65536;
    case 25:
    case 26:
      return 16384;
    case 30:
      return 512;  // surface alignment
    case 31:
      return 1;  // concurrent kernels
    case 32:
      return 1;  // ECC
    case 33:
      return 0x10 + device;  // PCI bus
    case 36:
      return model.memory_clock_khz;
    case 37:
      return model.memory_bus_bits;
    case 38:
      return model.l2_bytes;
    case 39:
      return model.threads_per_multiprocessor;
    case 40:
      return 3;  // copy engines
    case 41:
      return 1;  // unified addressing
    case 51:
      return 32;  // texture pitch alignment
    case 75:
      return model.major;
    case 76:
      return model.minor;
    case 78:
      return 1;  // stream priorities
    case 79:
    case 80:
      return 1;  // L1 caches
    case 81:
      return model.shared_bytes_per_multiprocessor;
    case 82:
      return 65536;  // registers per multiprocessor
    case 83:
      return 1;  // managed memory
    case 87:
      return 2;  // single to double precision
    case 89:
      return 1;  // concurrent managed access
    case 90:
      return 1;  // compute preemption
    case 91:
      return 1;  // host pointer of registered memory
    case 92:
    case 93:
    case 94:
      return 1;  // stream memory operations, first version
    case 95:
      return 1;  // cooperative launch
    case 97:
      return model.shared_bytes_per_block_optin;
    case 99:
      return 1;  // host register
    case 106:
      return model.blocks_per_multiprocessor;
    case 108:
      return model.l2_bytes * 5 / 8;  // persisting L2
    case 109:
      return 128 * 1024 * 1024;  // access policy window
    case 111:
      return 1024;  // reserved shared memory per block
    case 115:
      return 1;  // memory pools
    case 120:
      return model.major >= 9 ? 1 : 0;  // cluster launch
    case 122:
    case 123:
      return 1;  // stream memory operations
    case 126:
      return model.major >= 9 ? 4 : 1;  // memory synchronisation domains
    case 131:
      return -1;  // NUMA id: none
    case 134:
      return 0;  // host NUMA node
    default:
      return 0;  // among them cuMem, multicast, GPUDirect, IPC events: the emulator has none
  }
}

void gpu_pci_bus_id(int device, char* text, size_t bytes) {
  std::snprintf(text, bytes, "0000:%02X:00.0", 0x10 + device);
}

void gpu_uuid(int device, char uuid[16]) {
  std::memcpy(uuid, "rollcall-emu-gpu", 16);
  uuid[15] = static_cast<char>(device);
}

}  // namespace emu
