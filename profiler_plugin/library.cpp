// The plugin's library as such: one recorder per process, and an orderly exit.
//
// librollcall.so contains the plugin too. Where it is preloaded, or where a second copy of this
// library is loaded under another name, the copy that comes later gives its exported structures the
// contents of the first one's: NCCL, which finds the structures by name in the file it was told
// to load, then calls the first copy, and there is one recorder. That is done while the library is
// loaded, before anybody can look the structures up.
#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "core/capture/process.h"
#include "core/capture/warning.h"
#include "profiler_plugin/exports.h"

namespace rollcall::profiler {
namespace {

// Objects of one process that are looked at; PyTorch loads about 150.
constexpr unsigned kObjectsMax = 1024;
struct Objects {
  const char* names[kObjectsMax];
  unsigned count = 0;
};
constinit Objects objects{};

// Every version's exported structure begins with the same pointer and has the same size.
struct AnyProfiler {
  const char* name;
  void* functions[5];
};
static_assert(sizeof(AnyProfiler) == sizeof(v7::Profiler));

bool is_rollcall(const AnyProfiler* profiler) {
  return profiler != nullptr && profiler->name != nullptr && strcmp(profiler->name, kName) == 0;
}
// Behind the name's end stands the version: both copies must agree on everything.
const char* version_behind(const char* name) { return name + strlen(name) + 1; }

bool is_same_version(const AnyProfiler* profiler) {
  return strcmp(version_behind(profiler->name), version_behind(kName)) == 0;
}

AnyProfiler* own(unsigned version) {
  return static_cast<AnyProfiler*>(exported_profilers()[version - 1]);
}

void adopt(void* library) {
  for (unsigned version = 1; version <= kVersions; ++version) {
    char symbol[] = "ncclProfiler_v0";
    symbol[sizeof(symbol) - 2] = static_cast<char>('0' + version);
    const auto* theirs = static_cast<const AnyProfiler*>(dlsym(library, symbol));
    if (is_rollcall(theirs)) memcpy(own(version), theirs, sizeof(*theirs));
  }
}

// True when the object holds another copy of this plugin, which then is the one in use.
bool join_copy(const char* file) {
  void* library = dlopen(file, RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) {
    dlerror();
    return false;
  }
  const auto* found = static_cast<const AnyProfiler*>(dlsym(library, "ncclProfiler_v7"));
  const bool is_other = is_rollcall(found) && found != own(7);
  if (is_other && !is_same_version(found)) {
    capture::write_warning(1,
                           "another version of Rollcall is in this process; this profiler plugin "
                           "stays off: use one version for LD_PRELOAD and NCCL_PROFILER_PLUGIN");
    switch_off();
  } else if (is_other) {
    adopt(library);
  }
  dlclose(library);
  return is_other;
}

int collect(dl_phdr_info* info, size_t, void*) {
  // The program itself has no name; LD_PRELOAD may have named a file from the working directory.
  const bool has_name = info->dlpi_name != nullptr && info->dlpi_name[0] != '\0';
  if (has_name && objects.count < kObjectsMax) objects.names[objects.count++] = info->dlpi_name;
  return 0;
}

// Loading: the loader's lock is ours, so that the list of objects holds still.
__attribute__((constructor)) void join_first_copy() {
  dl_iterate_phdr(collect, nullptr);
  for (unsigned i = 0; i < objects.count; ++i) {
    if (join_copy(objects.names[i])) break;
  }
}

__attribute__((destructor)) void at_exit() { capture::flush_at_exit(); }

}  // namespace
}  // namespace rollcall::profiler
