#include "communicator.h"

#include <utility>

#include "checks.h"

namespace mini_train {
namespace {

const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt32:
      return "int32";
    case ncclFloat32:
      return "float32";
    case ncclFloat64:
      return "float64";
    default:
      return "other";
  }
}

const char* name_of(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return "sum";
    case ncclMax:
      return "max";
    default:
      return "other";
  }
}

}  // namespace

Communicator::Communicator(CallLog* log, std::string name, ncclComm_t handle,
                           std::vector<int> members, int rank, bool is_non_blocking)
    : log_(log),
      name_(std::move(name)),
      handle_(handle),
      members_(std::move(members)),
      rank_(rank),
      is_non_blocking_(is_non_blocking) {
  log_->communicator(name_.c_str(), rank_, size());
}

void Communicator::log_collective(const char* op, size_t count, ncclDataType_t type,
                                  const char* redop, int root) {
  log_->call({.comm = name_.c_str(),
              .op = op,
              .count = count,
              .dtype = name_of(type),
              .redop = redop,
              .root = root,
              .peer = -1,
              .position = next_seq_++});
}

void Communicator::all_reduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                              ncclRedOp_t op, cudaStream_t stream) {
  log_collective("AllReduce", count, type, name_of(op), -1);
  check_settled(handle_, ncclAllReduce(send, receive, count, type, op, handle_, stream),
                "ncclAllReduce");
}

void Communicator::reduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclRedOp_t op, int root, cudaStream_t stream) {
  log_collective("Reduce", count, type, name_of(op), root);
  check_settled(handle_, ncclReduce(send, receive, count, type, op, root, handle_, stream),
                "ncclReduce");
}

void Communicator::broadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                             int root, cudaStream_t stream) {
  log_collective("Broadcast", count, type, nullptr, root);
  check_settled(handle_, ncclBroadcast(send, receive, count, type, root, handle_, stream),
                "ncclBroadcast");
}

void Communicator::all_gather(const void* send, void* receive, size_t send_count,
                              ncclDataType_t type, cudaStream_t stream) {
  log_collective("AllGather", send_count, type, nullptr, -1);
  check_settled(handle_, ncclAllGather(send, receive, send_count, type, handle_, stream),
                "ncclAllGather");
}

void Communicator::reduce_scatter(const void* send, void* receive, size_t receive_count,
                                  ncclDataType_t type, ncclRedOp_t op, cudaStream_t stream) {
  log_collective("ReduceScatter", receive_count, type, name_of(op), -1);
  check_settled(handle_, ncclReduceScatter(send, receive, receive_count, type, op, handle_, stream),
                "ncclReduceScatter");
}

void Communicator::send(const void* data, size_t count, ncclDataType_t type, int peer,
                        cudaStream_t stream) {
  log_->call({.comm = name_.c_str(),
              .op = "Send",
              .count = count,
              .dtype = name_of(type),
              .peer = peer,
              .position = next_send_[peer]++});
  check_settled(handle_, ncclSend(data, count, type, peer, handle_, stream), "ncclSend");
}

void Communicator::receive(void* data, size_t count, ncclDataType_t type, int peer,
                           cudaStream_t stream) {
  log_->call({.comm = name_.c_str(),
              .op = "Recv",
              .count = count,
              .dtype = name_of(type),
              .peer = peer,
              .position = next_receive_[peer]++});
  check_settled(handle_, ncclRecv(data, count, type, peer, handle_, stream), "ncclRecv");
}

void Communicator::check_async_error() const {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(handle_, &state), "ncclCommGetAsyncError");
  if (state == ncclSuccess || state == ncclInProgress) return;
  throw GpuError("communicator " + name_ + ": " + ncclGetErrorString(state));
}

void Communicator::destroy() {
  log_->event("destroy", name_.c_str());
  // A non-blocking communicator is to be empty before it is destroyed.
  if (is_non_blocking_) check_settled(handle_, ncclCommFinalize(handle_), "ncclCommFinalize");
  check(ncclCommDestroy(handle_), "ncclCommDestroy");
  handle_ = nullptr;
}

void Communicator::abort() noexcept {
  if (!handle_) return;
  log_->event("abort", name_.c_str());
  ncclCommAbort(handle_);
  handle_ = nullptr;
}

}  // namespace mini_train
