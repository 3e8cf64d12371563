#include "tests/emulator/nccl_world.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace nccl_world {
namespace {

void pause_briefly() {
  const timespec pause = {0, 200'000};
  nanosleep(&pause, nullptr);
}

Shared* new_shared() {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return new (memory) Shared();
}

[[noreturn]] void be_rank(const Rank& rank, const std::function<void(const Rank&)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that dies leaves nobody behind
  int status = 0;
  try {
    EXPECT_CUDA(cudaSetDevice(rank.rank));
    body(rank);
  } catch (const std::exception& error) {
    std::snprintf(rank.shared->messages[rank.rank], sizeof(rank.shared->messages[0]), "%s",
                  error.what());
    status = 1;
  }
  _exit(status);
}

}  // namespace

ncclUniqueId Rank::unique_id() const {
  if (rank == 0) {
    EXPECT_NCCL(ncclGetUniqueId(&shared->id));
    shared->id_made.store(1);
  }
  while (shared->id_made.load() == 0) pause_briefly();
  return shared->id;
}

ncclComm_t Rank::join(const ncclConfig_t* config) const {
  ncclConfig_t copy = NCCL_CONFIG_INITIALIZER;
  if (config != nullptr) copy = *config;
  ncclComm_t comm = nullptr;
  EXPECT_NCCL(ncclCommInitRankConfig(&comm, ranks, unique_id(), rank, &copy));
  return comm;
}

void Rank::barrier() const {
  const int round = shared->arrived.fetch_add(1) / ranks;
  while (shared->arrived.load() < (round + 1) * ranks) pause_briefly();
}

void Rank::await(int index, int value) const {
  while (shared->flags[index].load() < value) pause_briefly();
}

std::vector<int> start(int ranks, Shared** shared, const std::function<void(const Rank&)>& body) {
  setenv("ROLLCALL_EMULATE_GPUS", "64", 1);
  *shared = new_shared();
  std::vector<int> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) be_rank({rank, ranks, *shared}, body);
    processes.push_back(child);
  }
  return processes;
}

void kill_and_reap(const std::vector<int>& processes) {
  for (const int process : processes) kill(process, SIGKILL);
  for (const int process : processes) waitpid(process, nullptr, 0);
}

std::string run(int ranks, int seconds, const std::function<void(const Rank&)>& body) {
  Shared* shared = nullptr;
  std::vector<int> processes = start(ranks, &shared, body);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::string problems;
  int left = ranks;
  while (left > 0 && std::chrono::steady_clock::now() < deadline && problems.empty()) {
    for (int rank = 0; rank < ranks; ++rank) {
      int status = 0;
      if (processes[rank] == 0 || waitpid(processes[rank], &status, WNOHANG) != processes[rank])
        continue;
      processes[rank] = 0;
      --left;
      if (status == 0) continue;
      problems += "rank " + std::to_string(rank) + ": " + shared->messages[rank];
      if (WIFSIGNALED(status)) problems += "signal " + std::to_string(WTERMSIG(status));
      problems += "\n";
    }
    pause_briefly();
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (processes[rank] == 0) continue;
    if (problems.empty()) problems = "rank " + std::to_string(rank) + " did not end in time\n";
    kill(processes[rank], SIGKILL);
    waitpid(processes[rank], nullptr, 0);
  }
  munmap(shared, sizeof(Shared));
  return problems;
}

bool ends_within(cudaStream_t stream, int milliseconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < deadline) {
    if (cudaStreamQuery(stream) == cudaSuccess) return true;
    pause_briefly();
  }
  return cudaStreamQuery(stream) == cudaSuccess;
}

}  // namespace nccl_world
