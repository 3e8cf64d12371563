/* Calls NCCL where there is none but the shim. With an argument nobody reads its stderr. */
#include <stddef.h>
#include <unistd.h>

__attribute__((weak)) int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);

int main(int argc, char** argv) {
  int ends[2];
  (void)argv;
  if (argc > 1 && (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0 || close(ends[0]) != 0)) {
    return 101;
  }
  if (!ncclAllReduce) return 100;
  ncclAllReduce(NULL, NULL, 1, 7, 0, NULL, NULL);
  return ncclAllReduce(NULL, NULL, 1, 7, 0, NULL, NULL);
}
