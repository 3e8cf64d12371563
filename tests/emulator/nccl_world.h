// Processes that act as ranks: forked from a test that itself never touches the emulator, bounded
// in time, reported back.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace nccl_world {

constexpr int kRanksMax = 64;

// Seen by all processes of a world.
struct Shared {
  ncclUniqueId id;
  std::atomic<int> id_made;
  std::atomic<int> arrived;    // for barrier()
  std::atomic<int> flags[16];  // for the tests
  std::atomic<int64_t> numbers[16];
  char messages[kRanksMax][512];
};

struct Rank {
  int rank = 0;
  int ranks = 0;
  Shared* shared = nullptr;

  // A communicator of all ranks; the device of a rank is its number.
  ncclComm_t join(const ncclConfig_t* config = nullptr) const;
  ncclUniqueId unique_id() const;
  void barrier() const;
  // Waits until flag `index` is at least `value`.
  void await(int index, int value) const;
  void raise(int index) const { shared->flags[index].fetch_add(1); }
};

// A failed expectation ends the rank; the message reaches the test.
#define EXPECT(condition)                                                             \
  do {                                                                                \
    if (!(condition))                                                                 \
      throw std::runtime_error(std::string(__FILE__ ":") + std::to_string(__LINE__) + \
                               ": " #condition);                                      \
  } while (false)
#define EXPECT_NCCL(call)                                                               \
  do {                                                                                  \
    const ncclResult_t expect_result = (call);                                          \
    if (expect_result != ncclSuccess)                                                   \
      throw std::runtime_error(std::string(__FILE__ ":") + std::to_string(__LINE__) +   \
                               ": " #call " = " + std::to_string(expect_result) + " " + \
                               ncclGetLastError(nullptr));                              \
  } while (false)
#define EXPECT_CUDA(call) EXPECT((call) == cudaSuccess)

// Runs body in `ranks` processes. Returns what went wrong, kAllWell when all returned in time; the
// rest is killed. Compared with ==, so that a failed assertion prints what it was.
inline constexpr const char* kAllWell = "";
std::string run(int ranks, int seconds, const std::function<void(const Rank&)>& body);

// Starts them and leaves them; the caller kills and reaps.
std::vector<int> start(int ranks, Shared** shared, const std::function<void(const Rank&)>& body);
void kill_and_reap(const std::vector<int>& processes);

// True when the stream's work ends within `milliseconds`.
bool ends_within(cudaStream_t stream, int milliseconds);

}  // namespace nccl_world
