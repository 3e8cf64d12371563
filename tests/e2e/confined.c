/* A program that confines itself before or after its first NCCL call: little stack, no reading of
   the TSC, a filter of system calls, a limit on locked memory. It prints what it sees, the same
   with and without a recorder. NCCL is one that does nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
  char internal[128];
} UniqueId;

int ncclGetUniqueId(UniqueId* id);
int ncclCommInitRank(void** comm, int nranks, UniqueId id, int rank);
int ncclCommDestroy(void* comm);
int ncclAllReduce(const void* send, void* recv, size_t count, int datatype, int op, void* comm,
                  void* stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
extern int fake_calls_all_reduce;

enum { kCannot = 77, kFloat = 7 };

static void* comm;

static void require(int holds, const char* what) {
  if (holds) return;
  printf("%s: %s\n", what, strerror(errno));
  fflush(stdout);
  _exit(1);
}

static void begin(void) {
  UniqueId id;
  require(ncclGetUniqueId(&id) == 0, "ncclGetUniqueId");
  require(ncclCommInitRank(&comm, 1, id, 0) == 0, "ncclCommInitRank");
}

static void call(int times) {
  for (int i = 0; i < times; ++i) {
    require(ncclAllReduce(NULL, NULL, 1, kFloat, 0, comm, NULL) == 0, "ncclAllReduce");
  }
}

static void* begin_and_call(void* unused) {
  begin();
  call(3);
  return unused;
}

static void little_stack(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  require(pthread_attr_setstacksize(&attributes, 16384) == 0, "pthread_attr_setstacksize");
  require(pthread_create(&thread, &attributes, begin_and_call, NULL) == 0, "pthread_create");
  pthread_join(thread, NULL);
}

static void keep_errno(void) {
  UniqueId id;
  errno = 4711;
  ncclGetUniqueId(&id);
  printf("ncclGetUniqueId: errno %d\n", errno);
  ncclCommInitRank(&comm, 1, id, 0);
  printf("ncclCommInitRank: errno %d\n", errno);
  ncclAllReduce(NULL, NULL, 1, kFloat, 0, comm, NULL);
  printf("ncclAllReduce: errno %d\n", errno);
  ncclGroupStart();
  ncclAllReduce(NULL, NULL, 1, kFloat, 0, comm, NULL);
  ncclGroupEnd();
  printf("ncclGroupEnd: errno %d\n", errno);
  ncclCommDestroy(comm);
  printf("ncclCommDestroy: errno %d\n", errno);
}

static void lock_memory(void) {
  const struct rlimit limit = {8 << 20, 8 << 20};
  require(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit");
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(kCannot);
  printf("mlockall: %s\n", mlockall(MCL_CURRENT) == 0 ? "done" : strerror(errno));
  munlockall();
}

#if defined(__x86_64__)
static void forbid_tsc(void) {
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0) _exit(kCannot);
}

/* What a program with threads needs anyway. */
static const int kPlainCalls[] = {
    SYS_read,           SYS_write,        SYS_exit,          SYS_exit_group,  SYS_futex,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_clock_gettime, SYS_sched_yield, SYS_mmap,
    SYS_munmap,         SYS_madvise,      SYS_brk,           SYS_fstat,       SYS_newfstatat};
/* What docs/FAILURE_MODES.md says that a recorder needs. */
static const int kRecorderCalls[] = {SYS_openat, SYS_close,    SYS_fcntl,           SYS_pread64,
                                     SYS_writev, SYS_lseek,    SYS_ftruncate,       SYS_fstatfs,
                                     SYS_unlink, SYS_poll,     SYS_getpid,          SYS_gettid,
                                     SYS_prctl,  SYS_readlink, SYS_process_vm_readv};

#define COUNT(array) (sizeof(array) / sizeof(array[0]))

static unsigned add_calls(struct sock_filter* to, unsigned used, const int* calls, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    to[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    to[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  return used;
}

static void filter_calls(int allows_recorder, unsigned otherwise) {
  struct sock_filter filter[2 * (COUNT(kPlainCalls) + COUNT(kRecorderCalls)) + 2];
  unsigned used = 0;
  filter[used++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  used = add_calls(filter, used, kPlainCalls, COUNT(kPlainCalls));
  if (allows_recorder) used = add_calls(filter, used, kRecorderCalls, COUNT(kRecorderCalls));
  filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
  const struct sock_fprog program = {(unsigned short)used, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    _exit(kCannot);
  }
}

#else
static void forbid_tsc(void) { _exit(kCannot); }
static void filter_calls(int allows_recorder, unsigned otherwise) {
  (void)allows_recorder;
  (void)otherwise;
  _exit(kCannot);
}
#endif

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "little-stack") == 0) {
    little_stack();
  } else if (strcmp(mode, "errno") == 0) {
    keep_errno();
  } else if (strcmp(mode, "locked-memory") == 0) {
    lock_memory();
    begin();
  } else if (strcmp(mode, "no-tsc") == 0) {
    forbid_tsc();
    begin();
    call(1000);
  } else if (strcmp(mode, "filter-kills") == 0) {
    begin();
    filter_calls(1, SECCOMP_RET_KILL_PROCESS);
    call(20000);
  } else if (strcmp(mode, "filter-refuses") == 0) {
    begin();
    filter_calls(0, SECCOMP_RET_ERRNO | EPERM);
    call(20000);
  } else if (strcmp(mode, "at-command") == 0) {
    char command = 0;
    begin();
    do {
      call(2000);
      require(write(STDOUT_FILENO, ".", 1) == 1, "write");
    } while (read(STDIN_FILENO, &command, 1) == 1);
  } else {
    begin(); /* plain: whatever the shell has closed */
    call(1000);
  }
  printf("%s: %d calls\n", mode, fake_calls_all_reduce);
  return 0;
}
