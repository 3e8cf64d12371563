/* Looks NCCL up in a library's constructor while another thread looks up a copy beyond those that
   are recorded. As the library (WITH_CONSTRUCTOR) and as the program: arguments are that library,
   then more copies of NCCL than Rollcall keeps apart. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef WITH_CONSTRUCTOR
__attribute__((constructor)) static void look_up(void) {
  void* copy = dlopen(getenv("FIRST_COPY"), RTLD_NOW | RTLD_NOLOAD);
  if (copy == NULL || dlsym(copy, "ncclAllReduce") == NULL) exit(3);
}
#else
static atomic_int done;

static void* look_up_last(void* copy) {
  while (!done)
    if (dlsym(copy, "ncclAllReduce") == NULL) exit(2);
  return NULL;
}

int main(int argc, char** argv) {
  void* copy = NULL;
  for (int i = 2; i < argc; ++i) {
    copy = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (copy == NULL || dlsym(copy, "ncclAllReduce") == NULL) return 1;
  }
  setenv("FIRST_COPY", argv[2], 1);
  pthread_t thread;
  pthread_create(&thread, NULL, look_up_last, copy);
  for (int round = 0; round < 300; ++round) {
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return 4;
    dlclose(library);
  }
  done = 1;
  pthread_join(thread, NULL);
  puts("done");
  return 0;
}
#endif
