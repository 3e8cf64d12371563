/* Uses NCCL as an ordinary program does. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  char internal[128];
} UniqueId;
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclCommInitAll(void**, int, const int*);
int ncclCommSplit(void*, int, int, void**, void*);
int ncclCommDestroy(void*);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclBcast(void*, size_t, int, int, void*, void*);
int ncclSend(const void*, size_t, int, int, void*, void*);
int ncclPonderRank(void*, double, const char*);
int ncclGroupStart(void);
int ncclGroupEnd(void);
extern int fake_calls_all_reduce, fake_calls_broadcast, fake_calls_get_id, fake_fail_next;

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "all";
  float buffer[8] = {0};
  UniqueId id;
  void *comm = NULL, *child = NULL, *clique[2];
  int failures = 0;
  failures += ncclGetUniqueId(&id) != 0;
  failures += ncclCommInitRank(&comm, 4, id, 2) != 0;
  if (strcmp(what, "fork") == 0) {
    const pid_t pid = fork();
    if (pid == 0) {
      ncclAllReduce(buffer, buffer, 3, 7, 0, comm, NULL);
      return 0;
    }
    int status = 0;
    waitpid(pid, &status, 0);
    failures += status != 0;
  }
  failures += ncclAllReduce(buffer, buffer + 4, 4, 7, 0, comm, (void*)1) != 0;
  failures += ncclBcast(buffer, 8, 7, 1, comm, NULL) != 0;
  if (strcmp(what, "unknown") == 0) failures += ncclPonderRank(comm, 0.5, "because") != 42;
  failures += ncclGroupStart() != 0;
  failures += ncclSend(buffer, 2, 7, 3, comm, NULL) != 0;
  failures += ncclGroupEnd() != 0;
  failures += ncclCommSplit(comm, 5, 0, &child, NULL) != 0 || child == NULL;
  failures += ncclCommInitAll(clique, 2, NULL) != 0;
  fake_fail_next = 1;
  failures += ncclAllReduce(buffer, buffer, 4, 7, 4, comm, NULL) != 5;
  failures += ncclCommDestroy(child) != 0;
  printf("failures %d calls %d %d %d\n", failures, fake_calls_all_reduce, fake_calls_broadcast,
         fake_calls_get_id);
  fflush(stdout);
  if (strcmp(what, "_exit") == 0) _exit(41);
  if (strcmp(what, "_Exit") == 0) _Exit(42);
  return failures;
}
