// What is recorded of the calls that enqueue work. One function per public function, named like it:
// name the fields, publish the record, call the real one, complete the record.
//
// Inline because this is the hot path; the real function comes as an argument, so that all of it is
// tested without preloading anything.
#pragma once

#include "core/capture/groups.h"
#include "core/capture/operations.h"
#include "shim/call_flags.h"
#include "shim/ended_handles.h"
#include "shim/failures.h"
#include "shim/real_functions.h"

namespace rollcall::shim {

// NCCL's numbers in a byte; a datatype that does not fit one is unknown.
inline uint8_t datatype_of(nccl::DataType datatype) {
  return datatype >= 0 && datatype < kUnknown8 ? static_cast<uint8_t>(datatype) : kUnknown8;
}
// Numbers above NCCL's own are made by ncclRedOpCreatePreMulSum and differ between ranks.
inline uint8_t reduction_of(nccl::RedOp op) {
  return op >= 0 && op < kReductionCustom ? static_cast<uint8_t>(op) : kReductionCustom;
}

// The peer whose signals are waited for; -1 where there are several, or NCCL will refuse the call.
inline int32_t awaited_peer(int desc_count, const nccl::WaitSignalDesc* descs) {
  if (desc_count <= 0 || descs == nullptr) return -1;
  for (int i = 1; i < desc_count; ++i) {
    if (descs[i].peer != descs[0].peer) return -1;
  }
  return descs[0].peer;
}
inline uint64_t awaited_signals(int desc_count, const nccl::WaitSignalDesc* descs) {
  uint64_t signals = 0;
  for (int i = 0; descs != nullptr && i < desc_count; ++i) {
    signals += descs[i].count > 0 ? static_cast<uint64_t>(descs[i].count) : 0;
  }
  return signals;
}

template <typename RealCall>
inline nccl::Result record_operation(const Site& site, capture::OpCall& call, RealCall&& real) {
  call.caller = site.caller;
  call.group = capture::current_group();
  const FrameReader read_frames = g_call_flags.frame_reader.load(std::memory_order_acquire);
  if (__builtin_expect(read_frames != nullptr, 0)) call.frames = read_frames();
  if (call.send == call.recv && call.send != nullptr) call.flags |= kOpInPlace;
  const bool has_ended = g_call_flags.has_ended_handles.load(std::memory_order_relaxed) &&
                         g_ended_handles.has(call.comm_handle);
  if (__builtin_expect(has_ended, 0)) note_use_after_end(site, call);
  const capture::OpToken token = capture::begin_op(call);
  const nccl::Result result = real();
  capture::end_op(token, result);
  if (__builtin_expect(is_failure(result), 0)) note_failed_operation(site, call, token, result);
  return result;
}

namespace logic {

#define ROLLCALL_OPERATION(name, parameters, arguments, ...)                 \
  inline nccl::Result name(const Site& site, nccl::Result(*real) parameters, \
                           ROLLCALL_UNPACK parameters) {                     \
    capture::OpCall call{__VA_ARGS__};                                       \
    return record_operation(site, call, [&] { return real arguments; });     \
  }
#define ROLLCALL_UNPACK(...) __VA_ARGS__

ROLLCALL_OPERATION(ncclAllGather,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::Comm comm, nccl::Stream stream),
                   (send, recv, count, datatype, comm, stream), .kind = OpKind::AllGather,
                   .datatype = datatype_of(datatype), .count = count, .send = send, .recv = recv,
                   .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclAllReduce,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::RedOp op, nccl::Comm comm, nccl::Stream stream),
                   (send, recv, count, datatype, op, comm, stream), .kind = OpKind::AllReduce,
                   .datatype = datatype_of(datatype), .reduction = reduction_of(op), .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclBcast,
                   (void* buffer, size_t count, nccl::DataType datatype, int root, nccl::Comm comm,
                    nccl::Stream stream),
                   (buffer, count, datatype, root, comm, stream), .kind = OpKind::Broadcast,
                   .datatype = datatype_of(datatype), .flags = kOpLegacyBcast, .root_or_peer = root,
                   .count = count, .send = buffer, .recv = buffer, .stream = stream,
                   .comm_handle = comm)

ROLLCALL_OPERATION(ncclBroadcast,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype, int root,
                    nccl::Comm comm, nccl::Stream stream),
                   (send, recv, count, datatype, root, comm, stream), .kind = OpKind::Broadcast,
                   .datatype = datatype_of(datatype), .root_or_peer = root, .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclReduce,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::RedOp op, int root, nccl::Comm comm, nccl::Stream stream),
                   (send, recv, count, datatype, op, root, comm, stream), .kind = OpKind::Reduce,
                   .datatype = datatype_of(datatype), .reduction = reduction_of(op),
                   .root_or_peer = root, .count = count, .send = send, .recv = recv,
                   .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclReduceScatter,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::RedOp op, nccl::Comm comm, nccl::Stream stream),
                   (send, recv, count, datatype, op, comm, stream), .kind = OpKind::ReduceScatter,
                   .datatype = datatype_of(datatype), .reduction = reduction_of(op), .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclRecv,
                   (void* recv, size_t count, nccl::DataType datatype, int peer, nccl::Comm comm,
                    nccl::Stream stream),
                   (recv, count, datatype, peer, comm, stream), .kind = OpKind::Recv,
                   .datatype = datatype_of(datatype), .root_or_peer = peer, .count = count,
                   .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclSend,
                   (const void* send, size_t count, nccl::DataType datatype, int peer,
                    nccl::Comm comm, nccl::Stream stream),
                   (send, count, datatype, peer, comm, stream), .kind = OpKind::Send,
                   .datatype = datatype_of(datatype), .root_or_peer = peer, .count = count,
                   .send = send, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclAlltoAll,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::Comm comm, nccl::Stream stream),
                   (send, recv, count, datatype, comm, stream), .kind = OpKind::AlltoAll,
                   .datatype = datatype_of(datatype), .count = count, .send = send, .recv = recv,
                   .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclGather,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype, int root,
                    nccl::Comm comm, nccl::Stream stream),
                   (send, recv, count, datatype, root, comm, stream), .kind = OpKind::Gather,
                   .datatype = datatype_of(datatype), .root_or_peer = root, .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclScatter,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype, int root,
                    nccl::Comm comm, nccl::Stream stream),
                   (send, recv, count, datatype, root, comm, stream), .kind = OpKind::Scatter,
                   .datatype = datatype_of(datatype), .root_or_peer = root, .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclPutSignal,
                   (const void* local, size_t count, nccl::DataType datatype, int peer,
                    nccl::Window peer_window, size_t peer_offset, int signal, int context,
                    unsigned int flags, nccl::Comm comm, nccl::Stream stream),
                   (local, count, datatype, peer, peer_window, peer_offset, signal, context, flags,
                    comm, stream),
                   .kind = OpKind::PutSignal, .datatype = datatype_of(datatype),
                   .root_or_peer = peer, .count = count, .send = local, .stream = stream,
                   .comm_handle = comm)

ROLLCALL_OPERATION(ncclSignal,
                   (int peer, int signal, int context, unsigned int flags, nccl::Comm comm,
                    nccl::Stream stream),
                   (peer, signal, context, flags, comm, stream), .kind = OpKind::Signal,
                   .root_or_peer = peer, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclWaitSignal,
                   (int desc_count, nccl::WaitSignalDesc* descs, nccl::Comm comm,
                    nccl::Stream stream),
                   (desc_count, descs, comm, stream), .kind = OpKind::WaitSignal,
                   .root_or_peer = awaited_peer(desc_count, descs),
                   .count = awaited_signals(desc_count, descs), .stream = stream,
                   .comm_handle = comm)

ROLLCALL_OPERATION(ncclAllGatherConfig,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* config),
                   (send, recv, count, datatype, comm, stream, config), .kind = OpKind::AllGather,
                   .datatype = datatype_of(datatype), .flags = kOpConfigCall, .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclAllReduceConfig,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::RedOp op, nccl::Comm comm, nccl::Stream stream,
                    const nccl::CollConfig* config),
                   (send, recv, count, datatype, op, comm, stream, config),
                   .kind = OpKind::AllReduce, .datatype = datatype_of(datatype),
                   .reduction = reduction_of(op), .flags = kOpConfigCall, .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclAlltoAllConfig,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* config),
                   (send, recv, count, datatype, comm, stream, config), .kind = OpKind::AlltoAll,
                   .datatype = datatype_of(datatype), .flags = kOpConfigCall, .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclBroadcastConfig,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype, int root,
                    nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* config),
                   (send, recv, count, datatype, root, comm, stream, config),
                   .kind = OpKind::Broadcast, .datatype = datatype_of(datatype),
                   .flags = kOpConfigCall, .root_or_peer = root, .count = count, .send = send,
                   .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclGatherConfig,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype, int root,
                    nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* config),
                   (send, recv, count, datatype, root, comm, stream, config),
                   .kind = OpKind::Gather, .datatype = datatype_of(datatype),
                   .flags = kOpConfigCall, .root_or_peer = root, .count = count, .send = send,
                   .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclReduceConfig,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::RedOp op, int root, nccl::Comm comm, nccl::Stream stream,
                    const nccl::CollConfig* config),
                   (send, recv, count, datatype, op, root, comm, stream, config),
                   .kind = OpKind::Reduce, .datatype = datatype_of(datatype),
                   .reduction = reduction_of(op), .flags = kOpConfigCall, .root_or_peer = root,
                   .count = count, .send = send, .recv = recv, .stream = stream,
                   .comm_handle = comm)

ROLLCALL_OPERATION(ncclReduceScatterConfig,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype,
                    nccl::RedOp op, nccl::Comm comm, nccl::Stream stream,
                    const nccl::CollConfig* config),
                   (send, recv, count, datatype, op, comm, stream, config),
                   .kind = OpKind::ReduceScatter, .datatype = datatype_of(datatype),
                   .reduction = reduction_of(op), .flags = kOpConfigCall, .count = count,
                   .send = send, .recv = recv, .stream = stream, .comm_handle = comm)

ROLLCALL_OPERATION(ncclScatterConfig,
                   (const void* send, void* recv, size_t count, nccl::DataType datatype, int root,
                    nccl::Comm comm, nccl::Stream stream, const nccl::CollConfig* config),
                   (send, recv, count, datatype, root, comm, stream, config),
                   .kind = OpKind::Scatter, .datatype = datatype_of(datatype),
                   .flags = kOpConfigCall, .root_or_peer = root, .count = count, .send = send,
                   .recv = recv, .stream = stream, .comm_handle = comm)

#undef ROLLCALL_OPERATION

}  // namespace logic
}  // namespace rollcall::shim
