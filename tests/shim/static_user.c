/* A program with a GPU and, where WITH_NCCL is set, the traces of a NCCL linked into it. */
#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>

#ifdef WITH_NCCL
const char version_text[] = "NCCL version 2.99.1+cuda13.0";
#else
const char version_text[] = "NCCL version 2.%d.%d";
#endif

static int thread_count(void) {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}

int main(void) {
  /* What the CUDA runtime does first. */
  void* found = dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
  /* Longer than the search for a NCCL, which is in the background. */
  while (thread_count() > 1) sched_yield();
  return found != NULL || version_text[0] != 'N';
}
