// A communicator that counts and logs the calls made on it, and otherwise is NCCL's own.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "call_log.h"

namespace mini_train {

class Communicator {
 public:
  // `members`: the ranks of the world in this communicator, by communicator rank.
  Communicator(CallLog* log, std::string name, ncclComm_t handle, std::vector<int> members,
               int rank, bool is_non_blocking);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return name_; }
  ncclComm_t handle() const { return handle_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }
  uint64_t next_seq() const { return next_seq_; }
  uint64_t next_send(int peer) { return next_send_[peer]; }

  // NCCL's calls with this communicator. Each throws GpuError when NCCL refuses it. Outside a group
  // they come back when NCCL has put them on the stream.
  void all_reduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                  ncclRedOp_t op, cudaStream_t stream);
  void reduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
              int root, cudaStream_t stream);
  void broadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                 cudaStream_t stream);
  void all_gather(const void* send, void* receive, size_t send_count, ncclDataType_t type,
                  cudaStream_t stream);
  void reduce_scatter(const void* send, void* receive, size_t receive_count, ncclDataType_t type,
                      ncclRedOp_t op, cudaStream_t stream);
  void send(const void* data, size_t count, ncclDataType_t type, int peer, cudaStream_t stream);
  void receive(void* data, size_t count, ncclDataType_t type, int peer, cudaStream_t stream);

  // Throws GpuError when NCCL reports an asynchronous error, a dead or aborted peer for example.
  void check_async_error() const;
  void destroy();
  // Never throws: aborting is what a rank does when everything else has failed.
  void abort() noexcept;

 private:
  void log_collective(const char* op, size_t count, ncclDataType_t type, const char* redop,
                      int root);

  CallLog* log_;
  std::string name_;
  ncclComm_t handle_;
  std::vector<int> members_;
  int rank_;
  bool is_non_blocking_;
  uint64_t next_seq_ = 0;
  std::map<int, uint64_t> next_send_;
  std::map<int, uint64_t> next_receive_;
};

}  // namespace mini_train
