/* A program with a GPU and, where WITH_NCCL is set, the traces of a NCCL linked into it. */
#include <dlfcn.h>
#include <stdio.h>

#ifdef WITH_NCCL
const char version_text[] = "NCCL version 2.99.1+cuda13.0";
#else
const char version_text[] = "NCCL version 2.%d.%d";
#endif

int main(void) {
  /* What the CUDA runtime does first. */
  void* found = dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
  return found != NULL || version_text[0] != 'N';
}
