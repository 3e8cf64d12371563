#include "core/capture/library_facts.h"

#include <dlfcn.h>

#include "core/base/text.h"
#include "core/capture/process.h"

namespace rollcall::capture {
namespace {

using VersionQuery = int (*)(int* version);

// False where the query fails; success is 0 in NCCL and in CUDA.
bool add_version(VersionQuery query, const char* key) noexcept {
  int version = 0;
  if (query == nullptr || query(&version) != 0 || version < 0) return false;
  TextBuffer<16> text;
  add_meta(key, text.number(static_cast<uint64_t>(version)).c_str());
  return true;
}

// Both of CUDA's queries answer before anything is initialised.
bool add_version_of(const char* library, const char* function, const char* key,
                    SymbolSearch find) noexcept {
  void* handle = loaded_library(library, false);
  if (handle == nullptr) return false;
  return add_version(reinterpret_cast<VersionQuery>(find(handle, function)), key);
}

// Told from any thread, at any time. How many there are is bounded by the meta area.
void add_not_emulated(const char* function) noexcept {
  TextBuffer<128> key;
  key.text("not_emulated.").text(function);
  add_meta(key.c_str(), "1");
}

// The emulator shares no header with us: its driver exports this, and NVIDIA's does not.
void listen_to_emulator(SymbolSearch find) noexcept {
  using Listen = void (*)(void (*told)(const char* function));
  void* driver = loaded_library("libcuda.so.1", false);
  void* symbol = driver != nullptr ? find(driver, "rollcall_emulated_listen") : nullptr;
  if (symbol != nullptr) reinterpret_cast<Listen>(symbol)(add_not_emulated);
}

}  // namespace

void* loaded_library(const char* name, bool keeps) noexcept {
  void* handle = dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) {
    dlerror();  // ours to take: the job never asked
    return nullptr;
  }
  if (!keeps) dlclose(handle);
  return handle;
}

void add_library_facts(const NcclLibrary& nccl, SymbolSearch find) noexcept {
  if (nccl.path != nullptr) add_meta("nccl_path", nccl.path);
  add_version(nccl.get_version, "nccl_version");
  if (nccl.is_emulated) add_meta("emulated", "1");
  add_version_of("libcuda.so.1", "cuDriverGetVersion", "cuda_driver_version", find);
  for (const char* runtime : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    if (add_version_of(runtime, "cudaRuntimeGetVersion", "cuda_runtime_version", find)) break;
  }
  listen_to_emulator(find);
  dlerror();  // what was not found is no error of the job's
}

}  // namespace rollcall::capture
