/* Closes and reopens NCCL, two builds in turn. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  for (int round = 0; round < 12; ++round) {
    void* library = dlopen(argv[1 + round % (argc - 1)], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return 1;
    int (*all_reduce)(const void*, void*, size_t, int, int, void*, void*) = (int (*)(
        const void*, void*, size_t, int, int, void*, void*))dlsym(library, "ncclAllReduce");
    const int* calls = dlsym(library, "fake_calls_all_reduce");
    const int before = *calls;
    if (all_reduce(NULL, NULL, 1, 7, 0, NULL, NULL) != 0) return 2;
    if (*calls != before + 1) return 3;
    dlclose(library);
  }
  return 0;
}
