// Where CUPTI's library is. dlsym is the C library's own here, not the shim's.
#include <dlfcn.h>
#include <stdlib.h>

#include "core/gpu/cupti.h"

namespace rollcall::gpu {

namespace {

struct Version {
  int driver_least;
  const char* name;
  const char* runtime;
  const char* runtime_function;
  const char* beside;  // from the folder of the runtime, as PyPI's packages lay them out
};
// Newest first. Before CUDA 12 there is no way to be told of the launches of graphs.
constexpr Version kVersions[] = {
    {13000, "libcupti.so.13", "libcudart.so.13", "cudaDriverGetVersion", ""},
    {12000, "libcupti.so.12", "libcudart.so.12", "cudaDriverGetVersion", "../../cuda_cupti/lib/"},
};
constexpr const char* kToolkitFolders[] = {"/lib64/", "/extras/CUPTI/lib64/"};

class Search {
 public:
  explicit Search(int driver_version) noexcept : driver_version_(driver_version) {}

  // The first that is there, in the order of the header's comment.
  void* find() noexcept {
    for (const Version& version : kVersions) {
      if (void* found = dlopen(version.name, RTLD_NOLOAD | RTLD_NOW)) return found;
    }
    for (const Version& version : kVersions) {
      if (void* found = beside_runtime(version)) return found;
    }
    for (const Version& version : kVersions) {
      if (void* found = open("", "", version)) return found;
    }
    for (const char* home : {static_cast<const char*>(getenv("CUDA_HOME")),
                             static_cast<const char*>("/usr/local/cuda")}) {
      if (void* found = home != nullptr ? in_toolkit(home) : nullptr) return found;
    }
    return nullptr;
  }

 private:
  bool fits(const Version& version) const noexcept {
    return driver_version_ == 0 || driver_version_ >= version.driver_least;
  }

  void* open(std::string_view folder, std::string_view rest, const Version& version) noexcept {
    if (!fits(version)) return nullptr;
    static constinit char room[4096];  // a thread may have little stack; one in a process is here
    TextWriter path{std::span<char>(room)};
    path.text(folder).text(rest).text(version.name);
    return path.cut_bytes() == 0 ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  }

  void* in_toolkit(const char* home) noexcept {
    for (const Version& version : kVersions) {
      for (const char* folder : kToolkitFolders) {
        if (void* found = open(home, folder, version)) return found;
      }
    }
    return nullptr;
  }

  void* beside_runtime(const Version& version) noexcept {
    void* runtime = dlopen(version.runtime, RTLD_NOLOAD | RTLD_LAZY);
    if (runtime == nullptr) return nullptr;
    Dl_info place{};
    const void* function = dlsym(runtime, version.runtime_function);
    const bool is_known = function != nullptr && dladdr(function, &place) != 0;
    dlclose(runtime);
    if (!is_known || place.dli_fname == nullptr) return nullptr;
    const std::string_view file(place.dli_fname);
    const size_t slash = file.rfind('/');
    if (slash == std::string_view::npos) return nullptr;
    const std::string_view folder = part_of(file, 0, slash + 1);
    void* found = open(folder, "", version);
    return found != nullptr || *version.beside == '\0' ? found
                                                       : open(folder, version.beside, version);
  }

  int driver_version_;
};

}  // namespace

bool load_cupti(const char* wanted, int driver_version, CuptiLibrary& library,
                TextWriter& why) noexcept {
  library = {.handle = nullptr, .find = dlsym};
  if (wanted != nullptr && *wanted != '\0') {
    library.handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
    if (library.handle != nullptr) return true;
    const char* error = dlerror();
    why.text("cannot be loaded: ").text(error != nullptr ? error : "unknown error");
    return false;
  }
  library.handle = Search(driver_version).find();
  // What did not work is nobody's business but ours: the job may ask dlerror() for its own.
  dlerror();
  if (library.handle == nullptr) {
    why.text("libcupti.so.13 and libcupti.so.12 were not found; name the file in ROLLCALL_CUPTI");
  }
  return library.handle != nullptr;
}

}  // namespace rollcall::gpu
