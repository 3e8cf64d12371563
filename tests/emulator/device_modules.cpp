// Device code that a program brings along: found by name, launched, and never run.
#include <elf.h>

#include <cstring>
#include <string>
#include <vector>

#include "cuda.h"
#include "cuda_runtime_api.h"
#include "tests/catch.h"

namespace {

// As much of a cubin as names a kernel and a variable: an ELF file with a table of symbols.
std::vector<char> made_cubin(size_t variable_bytes) {
  const char names[] = "\0kernel\0variable\0missing";
  Elf64_Sym symbols[4] = {};
  symbols[1].st_name = 1;
  symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbols[1].st_shndx = 1;
  symbols[2].st_name = 8;
  symbols[2].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  symbols[2].st_shndx = 1;
  symbols[2].st_size = variable_bytes;
  symbols[3].st_name = 17;
  symbols[3].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbols[3].st_shndx = SHN_UNDEF;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_type = SHT_SYMTAB;
  sections[1].sh_link = 2;
  sections[1].sh_offset = sizeof(Elf64_Ehdr) + sizeof sections;
  sections[1].sh_size = sizeof symbols;
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = sections[1].sh_offset + sizeof symbols;
  sections[2].sh_size = sizeof names;
  Elf64_Ehdr file = {};
  std::memcpy(file.e_ident, ELFMAG, SELFMAG);
  file.e_ident[EI_CLASS] = ELFCLASS64;
  file.e_shoff = sizeof file;
  file.e_shentsize = sizeof(Elf64_Shdr);
  file.e_shnum = 3;
  std::vector<char> image;
  const auto append = [&image](const void* part, size_t bytes) {
    const auto* const begin = static_cast<const char*>(part);
    image.insert(image.end(), begin, begin + bytes);
  };
  append(&file, sizeof file);
  append(sections, sizeof sections);
  append(symbols, sizeof symbols);
  append(names, sizeof names);
  return image;
}

}  // namespace

TEST_CASE("a kernel of a loaded cubin launches and leaves memory as it was") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  const std::vector<char> image = made_cubin(16);
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadData(&module, image.data()) == CUDA_SUCCESS);
  CUfunction kernel = nullptr;
  REQUIRE(cuModuleGetFunction(&kernel, module, "kernel") == CUDA_SUCCESS);
  int value = 0;
  CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel) ==
        CUDA_SUCCESS);
  CHECK(value == 1024);
  CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024) ==
        CUDA_SUCCESS);
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, kernel, 256, 0) == CUDA_SUCCESS);
  CHECK(value == 8);
  char* memory = nullptr;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&memory), 16) == cudaSuccess);
  REQUIRE(cudaMemset(memory, 3, 16) == cudaSuccess);
  void* parameters[] = {&memory};
  CHECK(cuLaunchKernel(kernel, 1, 1, 1, 16, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_SUCCESS);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(memory[0] == 3);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
}

TEST_CASE("a module has the functions and variables that its cubin defines, and no others") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  constexpr size_t kBytes = 4096;
  const std::vector<char> image = made_cubin(kBytes);
  size_t free_before = 0;
  REQUIRE(cuMemGetInfo(&free_before, nullptr) == CUDA_SUCCESS);
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadDataEx(&module, image.data(), 0, nullptr, nullptr) == CUDA_SUCCESS);
  CUfunction kernel = nullptr;
  CHECK(cuModuleGetFunction(&kernel, module, "missing") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetFunction(&kernel, module, "variable") == CUDA_ERROR_NOT_FOUND);
  CHECK(kernel == nullptr);
  CUdeviceptr address = 0;
  CUdeviceptr again = 0;
  size_t bytes = 0;
  CHECK(cuModuleGetGlobal(&address, &bytes, module, "kernel") == CUDA_ERROR_NOT_FOUND);
  REQUIRE(cuModuleGetGlobal(&address, &bytes, module, "variable") == CUDA_SUCCESS);
  CHECK(bytes == kBytes);
  CHECK(cuModuleGetGlobal(&again, nullptr, module, "variable") == CUDA_SUCCESS);
  CHECK(again == address);
  CHECK(cuMemsetD8(address, 7, kBytes) == CUDA_SUCCESS);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
  size_t free_after = 0;
  REQUIRE(cuMemGetInfo(&free_after, nullptr) == CUDA_SUCCESS);
  CHECK(free_after == free_before);
}

TEST_CASE("of PTX nothing is read: it has every function and no variable") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CUmodule module = nullptr;
  REQUIRE(cuModuleLoadData(&module, ".version 8.0") == CUDA_SUCCESS);
  CUfunction kernel = nullptr;
  CHECK(cuModuleGetFunction(&kernel, module, "kernel") == CUDA_SUCCESS);
  CHECK(kernel != nullptr);
  CUdeviceptr address = 0;
  CHECK(cuModuleGetGlobal(&address, nullptr, module, "variable") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
  CHECK(cuModuleLoadData(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleGetFunction(&kernel, nullptr, "kernel") == CUDA_ERROR_INVALID_HANDLE);
}
