#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "cuda_runtime_api.h"
#include "emulator/device/device.h"
#include "tests/catch.h"

namespace {

size_t resident_bytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file != nullptr);
  unsigned long total = 0;
  unsigned long resident = 0;
  REQUIRE(std::fscanf(file, "%lu %lu", &total, &resident) == 2);
  std::fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

constexpr size_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("a TiB of device memory costs nothing until it is touched") {
  const size_t before = resident_bytes();
  std::vector<void*> blocks(16);
  for (void*& block : blocks) REQUIRE(cudaMalloc(&block, size_t{64} << 30) == cudaSuccess);
  REQUIRE(cudaMemset(blocks[0], 0, size_t{64} << 30) == cudaSuccess);
  REQUIRE(cudaMemcpy(blocks[1], blocks[2], 256 * kMiB, cudaMemcpyDefault) == cudaSuccess);
  CHECK(resident_bytes() < before + 64 * kMiB);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  REQUIRE(cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess);
  CHECK(total_bytes - free_bytes >= size_t{1} << 40);
  void* too_much = nullptr;
  CHECK(cudaMalloc(&too_much, size_t{2} << 40) == cudaErrorMemoryAllocation);
  CHECK(too_much == nullptr);
  for (void* block : blocks) CHECK(cudaFree(block) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("clearing a large block gives its pages back") {
  char* block = nullptr;
  constexpr size_t kBytes = 64 * kMiB;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&block), kBytes) == cudaSuccess);
  REQUIRE(cudaMemset(block, 7, kBytes) == cudaSuccess);
  const size_t touched = resident_bytes();
  REQUIRE(cudaMemset(block + 100, 0, kBytes - 200) == cudaSuccess);
  CHECK(resident_bytes() + kBytes / 2 < touched);
  CHECK(block[99] == 7);
  CHECK(block[100] == 0);
  CHECK(block[kBytes / 2] == 0);
  CHECK(block[kBytes - 101] == 0);
  CHECK(block[kBytes - 100] == 7);
  CHECK(cudaFree(block) == cudaSuccess);
}

TEST_CASE("copying from memory that was never touched clears the destination") {
  char* from = nullptr;
  char* to = nullptr;
  constexpr size_t kBytes = 4 * kMiB;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&from), kBytes) == cudaSuccess);
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&to), kBytes) == cudaSuccess);
  REQUIRE(cudaMemset(to, 1, kBytes) == cudaSuccess);
  CHECK(emu_memory_is_untouched(from, kBytes) == 1);
  CHECK(emu_memory_is_untouched(to, kBytes) == 0);
  REQUIRE(cudaMemcpy(to, from, kBytes, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(emu_memory_is_untouched(to, kBytes) == 1);
  from[kBytes - 1] = 5;
  REQUIRE(cudaMemcpy(to, from, kBytes, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(to[kBytes - 1] == 5);
  CHECK(to[0] == 0);
  cudaFree(from);
  cudaFree(to);
}

TEST_CASE("memory that was freed is no longer device memory") {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, 1000) == cudaSuccess);
  cudaPointerAttributes attributes;
  REQUIRE(cudaPointerGetAttributes(&attributes, static_cast<char*>(block) + 999) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 0);
  CHECK(emu_memory_is_device(block) == 1);
  REQUIRE(cudaFree(block) == cudaSuccess);
  CHECK(emu_memory_is_device(block) == 0);
  CHECK(cudaFree(block) == cudaErrorInvalidValue);
  REQUIRE(cudaPointerGetAttributes(&attributes, block) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  cudaGetLastError();
}

TEST_CASE("pinned, managed and registered memory are told apart") {
  void* pinned = nullptr;
  void* managed = nullptr;
  char plain[256];
  REQUIRE(cudaMallocHost(&pinned, 4096) == cudaSuccess);
  REQUIRE(cudaMallocManaged(&managed, 4096) == cudaSuccess);
  REQUIRE(cudaHostRegister(plain, sizeof plain, 0) == cudaSuccess);
  CHECK(cudaHostRegister(plain, sizeof plain, 0) == cudaErrorHostMemoryAlreadyRegistered);
  cudaPointerAttributes attributes;
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  REQUIRE(cudaPointerGetAttributes(&attributes, managed) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeManaged);
  REQUIRE(cudaPointerGetAttributes(&attributes, plain) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(cudaFree(managed) == cudaSuccess);
  CHECK(cudaHostUnregister(plain) == cudaSuccess);
  CHECK(cudaHostUnregister(plain) == cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
}
