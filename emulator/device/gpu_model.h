// The GPUs that the emulator can pretend to have. Every GPU of a process is of one model
// (ROLLCALL_EMULATE_GPU_NAME).
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu {

struct GpuModel {
  const char* key;   // what the user writes
  const char* name;  // what cudaGetDeviceProperties reports
  int major;
  int minor;
  int multiprocessors;
  uint64_t memory_bytes;
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  int shared_bytes_per_multiprocessor;
  int shared_bytes_per_block_optin;
  int l2_bytes;
  int memory_bus_bits;
  int memory_clock_khz;
  int clock_khz;
};

const GpuModel& gpu_model();
// What one device holds: the setting, else the model's.
uint64_t gpu_memory_bytes();
// The value of a device attribute (CUdevice_attribute and cudaDeviceAttr have the same numbers); 0
// for what a model does not have or the emulator does not do.
int gpu_attribute(int attribute, int device);
bool gpu_attribute_known(int attribute);
// "0000:%02x:00.0" and 16 bytes, invented, different for each device.
void gpu_pci_bus_id(int device, char* text, size_t bytes);
void gpu_uuid(int device, char uuid[16]);

}  // namespace emu
