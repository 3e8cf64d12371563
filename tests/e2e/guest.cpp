// A process that lives dangerously: forks, threads, exits in the middle of calls. One habit per
// run, chosen by its name; prints what it computed, so that a test can compare it with and without
// a recorder.
//
//     guest fork | fork-first | threads | exit | _exit | abort | signal | atexit
//     guest leave-by-exit | leave-by-_exit | leave-by-_Exit | leave-by-quick_exit | leave-by-kill
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kElements = 64;

void check(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "guest: %s failed\n", what);
  std::_Exit(9);
}
#define CHECK_NCCL(call) check((call) == ncclSuccess, #call)
#define CHECK_CUDA(call) check((call) == cudaSuccess, #call)

// A GPU of its own with a communicator of one rank, or of `nranks` with the same id.
class Guest {
 public:
  explicit Guest(int device, int nranks = 1, int rank = 0, const ncclUniqueId* shared = nullptr) {
    CHECK_CUDA(cudaSetDevice(device));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(&data_, kElements * sizeof(float)));
    ncclUniqueId id{};
    if (shared) {
      id = *shared;
    } else {
      CHECK_NCCL(ncclGetUniqueId(&id));
    }
    CHECK_NCCL(ncclCommInitRank(&comm_, nranks, id, rank));
  }
  // Sum over all elements and ranks after one AllReduce of `value` everywhere.
  double add_up(float value) {
    std::vector<float> host(kElements, value);
    CHECK_CUDA(cudaMemcpy(data_, host.data(), kElements * sizeof(float), cudaMemcpyHostToDevice));
    CHECK_NCCL(ncclAllReduce(data_, data_, kElements, ncclFloat32, ncclSum, comm_, stream_));
    CHECK_CUDA(cudaStreamSynchronize(stream_));
    CHECK_CUDA(cudaMemcpy(host.data(), data_, kElements * sizeof(float), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (const float one : host) sum += static_cast<double>(one);
    return sum;
  }
  void leave() { CHECK_NCCL(ncclCommDestroy(comm_)); }

 private:
  cudaStream_t stream_ = nullptr;
  void* data_ = nullptr;
  ncclComm_t comm_ = nullptr;
};

int wait_for(pid_t child) {
  int status = 0;
  check(::waitpid(child, &status, 0) == child, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// Children that never touch the GPU, as data loaders are: one leaves by exit, with all destructors
// of the libraries it inherited, one by _exit, one becomes another program.
int fork_children() {
  Guest guest(0);
  std::printf("before %.0f\n", guest.add_up(1));
  std::fflush(stdout);
  for (int kind = 0; kind < 3; ++kind) {
    const pid_t child = ::fork();
    if (child == 0 && kind == 0) std::exit(21);
    if (child == 0 && kind == 1) ::_exit(22);
    if (child == 0) ::execl("/bin/sh", "sh", "-c", "exit 23", nullptr);
    std::printf("child %d, sum %.0f\n", wait_for(child), guest.add_up(static_cast<float>(kind)));
    std::fflush(stdout);
  }
  guest.leave();
  return 0;
}

// Both sides of a fork that comes before any GPU call use NCCL, each for itself.
int fork_first() {
  const pid_t child = ::fork();
  Guest guest(child == 0 ? 1 : 0);
  double sum = 0;
  for (int i = 0; i < 10; ++i) sum += guest.add_up(child == 0 ? 3 : 2);
  guest.leave();
  if (child == 0) {
    std::printf("child %.0f\n", sum);
    std::exit(5);
  }
  const int status = wait_for(child);
  std::printf("parent %.0f, child's status %d\n", sum, status);
  return 0;
}

// One thread per GPU, one communicator over all of them, all at once.
int threads() {
  constexpr int kThreads = 4;
  ncclUniqueId id{};
  CHECK_NCCL(ncclGetUniqueId(&id));
  std::vector<double> sums(kThreads);
  std::vector<std::thread> all;
  for (int rank = 0; rank < kThreads; ++rank) {
    all.emplace_back([&id, &sums, rank] {
      Guest guest(rank, kThreads, rank, &id);
      for (int i = 0; i < 50; ++i) {
        sums[static_cast<size_t>(rank)] += guest.add_up(static_cast<float>(rank));
      }
      guest.leave();
    });
  }
  for (std::thread& one : all) one.join();
  for (const double sum : sums) std::printf("sum %.0f\n", sum);
  return 0;
}

// The main thread ends the process while another is inside NCCL calls.
int end_in_the_middle(const std::string& how) {
  std::atomic<int> calls{0};
  std::thread([&calls] {
    Guest guest(0);
    while (true) {
      guest.add_up(1);
      ++calls;
    }
  }).detach();
  while (calls < 20) ::usleep(1000);
  std::printf("in the middle\n");
  std::fflush(stdout);
  if (how == "exit") std::exit(7);
  if (how == "_exit") ::_exit(8);
  if (how == "abort") std::abort();
  ::kill(::getpid(), SIGTERM);
  ::pause();
  return 9;
}

// In order, by itself, between two calls; its children have ended by `_exit` before, one of them in
// its parent's memory.
int leave(const std::string& how) {
  Guest guest(0);
  std::printf("before %.0f\n", guest.add_up(1));
  pid_t child = ::fork();
  if (child == 0) ::_exit(22);
  std::printf("forked child %d\n", wait_for(child));
  child = ::vfork();
  if (child == 0) ::_exit(23);
  std::printf("child of vfork %d\n", wait_for(child));
  std::printf("behind %.0f\n", guest.add_up(2));
  std::fflush(stdout);
  if (how == "exit") std::exit(31);
  if (how == "_exit") ::_exit(31);
  if (how == "_Exit") std::_Exit(31);
  if (how == "quick_exit") std::quick_exit(31);
  ::kill(::getpid(), SIGKILL);
  return 9;
}

Guest* late_guest = nullptr;

// NCCL is still in use when exit handlers run, as it is when a language runtime ends.
int use_in_exit_handler() {
  late_guest = new Guest(0);
  // Behind the first use of the libraries: their own handlers, which end them, run after this one.
  std::atexit([] { std::printf("late %.0f\n", late_guest->add_up(4)); });
  std::printf("early %.0f\n", late_guest->add_up(2));
  return 6;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string habit = argc > 1 ? argv[1] : "";
  if (habit == "fork") return fork_children();
  if (habit == "fork-first") return fork_first();
  if (habit == "threads") return threads();
  if (habit == "atexit") return use_in_exit_handler();
  if (habit == "exit" || habit == "_exit" || habit == "abort" || habit == "signal") {
    return end_in_the_middle(habit);
  }
  const std::string leave_by = "leave-by-";
  if (habit.rfind(leave_by, 0) == 0) return leave(habit.substr(leave_by.size()));
  std::fprintf(stderr, "usage: guest HABIT; see the first lines of guest.cpp\n");
  return 2;
}
