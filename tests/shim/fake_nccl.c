/* A libnccl.so.2 that computes nothing: it counts how often each function was entered and calls
   itself through the PLT where NCCL does. FAKE_VERSION tells copies apart. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_VERSION
#define FAKE_VERSION 22809
#endif

typedef struct Comm {
  int nranks, rank, async_error;
} Comm;
typedef struct {
  char internal[128];
} UniqueId;

int fake_calls_all_reduce, fake_calls_broadcast, fake_calls_get_id;
const void* fake_last_stream;
int fake_fail_next;
void (*fake_on_call)(void);

__attribute__((visibility("default"))) int fake_version(void) { return FAKE_VERSION; }

int ncclGetVersion(int* version) {
  *version = FAKE_VERSION;
  return 0;
}
const char* ncclGetLastError(Comm* comm) {
  (void)comm;
  return "the fake library was told to fail";
}
int ncclGetUniqueId(UniqueId* id) {
  ++fake_calls_get_id;
  memset(id, 7, sizeof(*id));
  return 0;
}
int ncclCommInitRank(Comm** comm, int nranks, UniqueId id, int rank) {
  if (id.internal[127] != 7) return 4; /* the id arrives whole, by value */
  *comm = malloc(sizeof(Comm));
  **comm = (Comm){nranks, rank, 0};
  return 0;
}
int ncclCommInitAll(Comm** comms, int ndev, const int* devices) {
  UniqueId id;
  (void)devices;
  ncclGetUniqueId(&id); /* through the PLT */
  for (int i = 0; i < ndev; ++i) ncclCommInitRank(&comms[i], ndev, id, i);
  return 0;
}
int ncclCommSplit(Comm* comm, int colour, int key, Comm** child, void* config) {
  (void)key;
  (void)config;
  *child = NULL;
  if (colour >= 0) {
    *child = malloc(sizeof(Comm));
    **child = *comm;
  }
  return 0;
}
int ncclCommDestroy(Comm* comm) {
  free(comm);
  return 0;
}
int ncclCommCount(const Comm* comm, int* count) {
  *count = comm->nranks;
  return 0;
}
int ncclCommUserRank(const Comm* comm, int* rank) {
  *rank = comm->rank;
  return 0;
}
int ncclCommGetAsyncError(Comm* comm, int* error) {
  *error = comm->async_error;
  return 0;
}
/* A function of some later release. */
int ncclPonderRank(Comm* comm, double weight, const char* why) {
  return comm->rank == 2 && weight == 0.5 && strcmp(why, "because") == 0 ? 42 : 4;
}
int ncclGroupStart(void) { return 0; }
int ncclGroupEnd(void) { return 0; }
int ncclAllReduce(const void* send, void* recv, size_t count, int datatype, int op, Comm* comm,
                  void* stream) {
  (void)send, (void)recv, (void)count, (void)datatype, (void)op, (void)comm;
  ++fake_calls_all_reduce;
  fake_last_stream = stream;
  if (fake_on_call) fake_on_call();
  if (fake_fail_next) {
    fake_fail_next = 0;
    return 5;
  }
  return 0;
}
int ncclBroadcast(const void* send, void* recv, size_t count, int datatype, int root, Comm* comm,
                  void* stream) {
  (void)send, (void)recv, (void)count, (void)datatype, (void)root, (void)comm, (void)stream;
  ++fake_calls_broadcast;
  return 0;
}
int ncclBcast(void* buffer, size_t count, int datatype, int root, Comm* comm, void* stream) {
  return ncclBroadcast(buffer, buffer, count, datatype, root, comm, stream); /* through the PLT */
}
int ncclSend(const void* send, size_t count, int datatype, int peer, Comm* comm, void* stream) {
  (void)send, (void)count, (void)datatype, (void)peer, (void)comm, (void)stream;
  ncclGroupStart(); /* as NCCL up to 2.23 */
  return ncclGroupEnd();
}
