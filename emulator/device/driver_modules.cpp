// Modules of the driver API: device code that programs compile themselves and load, as XLA does.
//
// A kernel is known by its module only and does nothing when launched. Of an image we read the
// symbols, where it is an ELF file (a cubin is one): a variable has memory of its size, zeroed. Of
// other images (PTX, fat binaries) nothing is read: they have every function, and no variable.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "emulator/device/gpu_model.h"
#include "emulator/device/memory.h"
#include "emulator/device/stream.h"

using namespace emu;

// Only its address matters.
struct CUfunc_st {};

struct CUmod_st {
  std::mutex mutex;
  bool is_elf = false;
  int device = 0;
  std::map<std::string, CUfunc_st> functions;
  std::map<std::string, size_t> variable_bytes;
  std::map<std::string, void*> variables;
};

namespace {

template <typename Header>
Header at(const char* image, uint64_t offset) {
  Header header;
  std::memcpy(&header, image + offset, sizeof header);
  return header;
}

// The driver is given no size either: the image is believed.
void read_symbols(const char* image, CUmod_st& module) {
  if (std::strncmp(image, ELFMAG, SELFMAG) != 0 || image[EI_CLASS] != ELFCLASS64) return;
  const auto file = at<Elf64_Ehdr>(image, 0);
  if (file.e_shentsize != sizeof(Elf64_Shdr)) return;
  module.is_elf = true;
  for (unsigned i = 0; i < file.e_shnum; ++i) {
    const auto table = at<Elf64_Shdr>(image, file.e_shoff + i * sizeof(Elf64_Shdr));
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= file.e_shnum) continue;
    const auto names = at<Elf64_Shdr>(image, file.e_shoff + table.sh_link * sizeof(Elf64_Shdr));
    for (uint64_t read = 0; read + sizeof(Elf64_Sym) <= table.sh_size; read += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(image, table.sh_offset + read);
      const char* const name = image + names.sh_offset + symbol.st_name;
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names.sh_size) continue;
      const unsigned type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FUNC) module.functions[name];
      if (type == STT_OBJECT) module.variable_bytes[name] = symbol.st_size;
    }
  }
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  int device = 0;
  if (const CUresult status = enter_healthy(&device); status != CUDA_SUCCESS) return status;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* const module = new CUmod_st;
  module->device = device;
  read_symbols(static_cast<const char*>(image), *module);
  *out = module;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, int*, void**) {
  return cuModuleLoadData(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadData(out, image);
}

CUresult cuModuleUnload(CUmodule module) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!module->variables.empty()) {
    // As cuMemFree: what was enqueued before may still use the memory.
    Lock lock = Engine::get().lock();
    Engine::get().wait_device(lock, module->device);
  }
  for (const auto& [name, address] : module->variables) memory_free(address, MemoryKind::kDevice);
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard<std::mutex> guard(module->mutex);
  if (module->is_elf && module->functions.count(name) == 0) return CUDA_ERROR_NOT_FOUND;
  *out = &module->functions[name];
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module,
                              const char* name) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard<std::mutex> guard(module->mutex);
  const auto found = module->variable_bytes.find(name);
  if (found == module->variable_bytes.end() || found->second == 0) return CUDA_ERROR_NOT_FOUND;
  void*& memory = module->variables[name];
  if (memory == nullptr) {
    memory = memory_allocate(found->second, MemoryKind::kDevice, module->device, 0, nullptr);
  }
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (address != nullptr) *address = reinterpret_cast<CUdeviceptr>(memory);
  if (bytes != nullptr) *bytes = found->second;
  return CUDA_SUCCESS;
}

// Kernels of the runtime come here too, under whatever address it knows them by, so that no
// function is looked into. The answers are those of cudaFuncGetAttributes.
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = gpu_model().major * 10 + gpu_model().minor;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = gpu_model().shared_bytes_per_block_optin;
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return CUDA_SUCCESS;
  }
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute, int) {
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction function, int) {
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     size_t) {
  if (blocks == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = std::min(gpu_model().threads_per_multiprocessor / threads,
                     gpu_model().blocks_per_multiprocessor);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                              int threads, size_t shared,
                                                              unsigned int) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

}  // extern "C"
