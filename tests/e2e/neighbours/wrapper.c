/* Stands between a job and NCCL and hands out communicators of its own: small numbers, as those of
   NVIDIA's checkpoint shim are. It finds NCCL behind itself (RTLD_NEXT), as that one does, or in
   the library that WRAPPED_NCCL names, which it opens for itself, as MSCCL++ does. Says at the end
   how many calls went through it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kCommsMax = 64 };

static ncclComm_t real_comms[kCommsMax]; /* by number, from 1 on */
static uintptr_t comm_count;
static int calls;

static void* find(const char* name) {
  static void* library = RTLD_NEXT;
  const char* path = getenv("WRAPPED_NCCL");
  if (path && library == RTLD_NEXT)
    library = dlopen(path, RTLD_LAZY | RTLD_NODELETE | RTLD_DEEPBIND);
  void* found = library ? dlsym(library, name) : NULL;
  if (!found) {
    fprintf(stderr, "wrapper: no %s: %s\n", name, dlerror());
    _exit(4);
  }
  return found;
}

static ncclComm_t real(ncclComm_t comm) {
  const uintptr_t number = (uintptr_t)comm;
  return number != 0 && number <= comm_count ? real_comms[number] : comm;
}

/* `created` is looked at behind the call that fills it. */
static ncclResult_t wrap(ncclResult_t result, const ncclComm_t* created, ncclComm_t* comm) {
  *comm = NULL;
  if (*created == NULL) return result; /* this rank is in no part of a split */
  if (comm_count + 1 == kCommsMax) _exit(5);
  real_comms[++comm_count] = *created;
  *comm = (ncclComm_t)comm_count;
  return result;
}

/* The function of that name that stands behind this library; a call of the second kind is counted.
   Questions are not: Rollcall asks some, and the job asks as long as it has to. */
#define FIND(name) ((__typeof__(name)*)find(#name))
#define NEXT(name) (++calls, FIND(name))

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return NEXT(ncclGetUniqueId)(id); }

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  ncclComm_t created = NULL;
  return wrap(NEXT(ncclCommInitRank)(&created, nranks, id, rank), &created, comm);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  ncclComm_t created = NULL;
  return wrap(NEXT(ncclCommInitRankConfig)(&created, nranks, id, rank, config), &created, comm);
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  ncclComm_t created = NULL;
  return wrap(NEXT(ncclCommSplit)(real(comm), color, key, &created, config), &created, part);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return NEXT(ncclCommFinalize)(real(comm)); }
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return NEXT(ncclCommDestroy)(real(comm)); }
ncclResult_t ncclCommAbort(ncclComm_t comm) { return NEXT(ncclCommAbort)(real(comm)); }
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return FIND(ncclCommUserRank)(real(comm), rank);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return FIND(ncclCommGetAsyncError)(real(comm), error);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return NEXT(ncclAllReduce)(send, receive, count, type, op, real(comm), stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return NEXT(ncclReduceScatter)(send, receive, count, type, op, real(comm), stream);
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return NEXT(ncclReduce)(send, receive, count, type, op, root, real(comm), stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return NEXT(ncclBroadcast)(send, receive, count, type, root, real(comm), stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return NEXT(ncclAllGather)(send, receive, count, type, real(comm), stream);
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return NEXT(ncclSend)(send, count, type, peer, real(comm), stream);
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return NEXT(ncclRecv)(receive, count, type, peer, real(comm), stream);
}

__attribute__((destructor)) static void tell(void) {
  if (calls != 0) fprintf(stderr, "wrapper %d %d\n", getpid(), calls);
}
