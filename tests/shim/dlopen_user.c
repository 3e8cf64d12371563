/* Uses NCCL as JAX and ctypes users do: dlopen and dlsym, several copies, and checks that every
   other symbol is looked up as without Rollcall. Exit status: the number of checks that failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char internal[128];
} UniqueId;
typedef int (*InitRank)(void**, int, UniqueId, int);
typedef int (*AllReduce)(const void*, void*, size_t, int, int, void*, void*);
typedef int (*Version)(void);

static int failures;
static void check(int holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("failed: %s\n", what);
}

static void use_copy(const char* path, int version) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  check(library != NULL, path);
  if (library == NULL) return;
  InitRank init = (InitRank)dlsym(library, "ncclCommInitRank");
  AllReduce all_reduce = (AllReduce)dlvsym(library, "ncclAllReduce", "ANY");
  if (all_reduce == NULL) all_reduce = (AllReduce)dlsym(library, "ncclAllReduce");
  const int* calls = dlsym(library, "fake_calls_all_reduce");
  Version version_of = (Version)dlsym(library, "fake_version");
  check(init != NULL && all_reduce != NULL && calls != NULL, "the functions are found");
  check(version_of() == version, "this is the copy that was asked for");
  check(dlsym(library, "ncclCommNotYetInvented") == NULL, "an unknown function stays unknown");
  check(dlerror() != NULL, "and dlerror says so");
  check(dlsym(library, "ncclAlltoAll") == NULL, "a function this NCCL lacks stays absent");
  check(dlerror() != NULL, "and dlerror says so too");
  UniqueId id;
  memset(&id, 7, sizeof(id));
  void* comm = NULL;
  check(init(&comm, 1, id, 0) == 0, "init reaches the library, its id by value");
  const int before = *calls;
  typedef int (*Ponder)(void*, double, const char*);
  Ponder ponder = (Ponder)dlsym(library, "ncclPonderRank");
  check(ponder != NULL && ponder(comm, 0.5, "nothing") == 4, "a later release's function works");
  check(all_reduce(NULL, NULL, 10, 7, 0, comm, NULL) == 0, "the call succeeds");
  check(*calls == before + 1, "the call reached this copy, once");
}

int main(int argc, char** argv) {
  check(dlsym(RTLD_DEFAULT, "ncclAllReduce") == NULL, "no NCCL is pretended before one is loaded");
  check(dlerror() != NULL, "and dlerror says so");
  check(dlsym(dlopen(NULL, RTLD_NOW), "ncclAllReduce") == NULL, "nor through the program's handle");
  dlerror();
  for (int i = 1; i + 1 < argc; i += 2) {
    int version = 0;
    sscanf(argv[i + 1], "%d", &version);
    use_copy(argv[i], version);
  }
  check(dlsym(RTLD_DEFAULT, "printf") == (void*)printf, "other symbols are what they were");
  return failures;
}
