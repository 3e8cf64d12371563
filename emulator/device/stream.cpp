#include "emulator/device/stream.h"

#include <utility>

#include "emulator/device/graph.h"

namespace emu {
namespace {

// The stream of a handle for work on the current device; its own device is what counts afterwards.
CUresult resolve(Lock& lock, CUstream handle, StreamPointer* stream) {
  (void)lock;
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  *stream = Engine::get().find_stream(handle, device);
  if (!*stream) return CUDA_ERROR_INVALID_HANDLE;
  return Engine::get().sticky((*stream)->device);
}

}  // namespace

Op nothing_op() { return Op{}; }

Op run_op(std::function<void()> run, bool short_run, uint64_t duration_ns) {
  Op op;
  op.kind = Op::Kind::kRun;
  op.short_run = short_run;
  op.run = std::move(run);
  op.duration_ns = duration_ns;
  return op;
}

CUresult submit(CUstream handle, CUgraphNodeType type, MakeOp make) {
  Engine& engine = Engine::get();
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  Lock lock = engine.lock();
  StreamPointer stream;
  if (const CUresult status = resolve(lock, handle, &stream); status != CUDA_SUCCESS) return status;
  if (stream->capture) {
    if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    auto body = std::make_shared<NodeBody>();
    body->type = type;
    body->make = std::move(make);
    capture_node(*stream, std::move(body));
    return CUDA_SUCCESS;
  }
  if (const CUresult status = check_implicit_wait(*stream); status != CUDA_SUCCESS) return status;
  Op op = make();
  if (op.kernel != nullptr) op.watched = engine.watch(*stream, op.kernel);
  engine.enqueue(stream, std::move(op));
  return CUDA_SUCCESS;
}

CUresult submit_and_wait(CUstream handle, const MakeOp& make) {
  Engine& engine = Engine::get();
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  Lock lock = engine.lock();
  StreamPointer stream;
  if (const CUresult status = resolve(lock, handle, &stream); status != CUDA_SUCCESS) return status;
  if (const CUresult status = check_unsafe_call(); status != CUDA_SUCCESS) return status;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (const CUresult status = check_implicit_wait(*stream); status != CUDA_SUCCESS) return status;
  Op op = make();
  op.marker = std::make_shared<Marker>();
  const std::shared_ptr<Marker> done = op.marker;
  engine.enqueue(stream, std::move(op));
  return engine.wait_marker(lock, done, stream->device);
}

namespace {

// Holds the argument that was captured; released with the last graph that contains it.
struct CapturedWork {
  emu_work work;
  void* (*clone)(void*);
  bool keep = false;  // the argument went to an operation instead
  ~CapturedWork() {
    if (!keep && work.release != nullptr) work.release(work.argument);
  }
};

Op work_op(const emu_work& work) {
  Op op;
  op.kind = Op::Kind::kPoll;
  op.work = work;
  op.duration_ns = work.duration_ns;
  op.kernel = work.kernel;
  return op;
}

}  // namespace

CUresult wait_event(CUstream handle, CUevent event_handle, unsigned flags) {
  Engine& engine = Engine::get();
  Lock lock = engine.lock();
  StreamPointer stream;
  if (const CUresult status = resolve(lock, handle, &stream); status != CUDA_SUCCESS) return status;
  const EventPointer event = engine.find_event(event_handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  const bool external = (flags & 1) != 0;
  if (event->capture && !external) return capture_wait(stream, *event);
  const auto wait_op = [event] {
    Op op;
    if (event->marker) op.waits.push_back({event->marker, nullptr, 0});
    return op;
  };
  if (stream->capture) {
    if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (external) {
      auto body = std::make_shared<NodeBody>();
      body->type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
      body->make = wait_op;
      capture_node(*stream, std::move(body));
      return CUDA_SUCCESS;
    }
    if (!event->marker) return CUDA_SUCCESS;
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!event->marker) return CUDA_SUCCESS;
  if (const CUresult status = check_implicit_wait(*stream); status != CUDA_SUCCESS) return status;
  engine.enqueue(stream, wait_op());
  return CUDA_SUCCESS;
}

CUresult record_event(CUstream handle, CUevent event_handle, unsigned flags) {
  Engine& engine = Engine::get();
  Lock lock = engine.lock();
  StreamPointer stream;
  if (const CUresult status = resolve(lock, handle, &stream); status != CUDA_SUCCESS) return status;
  const EventPointer event = engine.find_event(event_handle);
  if (!event || stream->device != event->device) return CUDA_ERROR_INVALID_HANDLE;
  const auto record_op = [event] {
    Op op;
    op.marker = std::make_shared<Marker>();
    event->marker = op.marker;
    event->capture.reset();
    return op;
  };
  if (stream->capture) {
    if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if ((flags & 1) != 0) {
      auto body = std::make_shared<NodeBody>();
      body->type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
      body->make = record_op;
      capture_node(*stream, std::move(body));
    } else {
      event->capture = stream->capture;
      event->capture_tail = stream->capture_tail;
      event->marker.reset();
    }
    return CUDA_SUCCESS;
  }
  if (const CUresult status = check_implicit_wait(*stream); status != CUDA_SUCCESS) return status;
  engine.enqueue(stream, record_op());
  return CUDA_SUCCESS;
}

namespace {

// Callbacks also learn the stream's state and are told of errors; host functions are not.
void add_callback(CUstream stream, CUstreamCallback callback, void* data) {
  callback(stream, CUDA_SUCCESS, data);
}

// The condition of a stream wait: flags 0 GEQ (cyclic), 1 EQ, 2 AND, 3 NOR.
template <typename Value>
bool wait_value_reached(Value seen, Value wanted, unsigned flags) {
  switch (flags & 3) {
    case 0:
      return static_cast<std::make_signed_t<Value>>(seen - wanted) >= 0;
    case 1:
      return seen == wanted;
    case 2:
      return (seen & wanted) != 0;
    default:
      return static_cast<Value>(~(seen | wanted)) != 0;
  }
}

template <typename Value>
struct ValueWait {
  const Value* address;
  Value wanted;
  unsigned flags;
};

template <typename Value>
CUresult submit_wait_value(CUstream stream, CUdeviceptr address, Value value, unsigned flags) {
  if (address % sizeof(Value) != 0) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [=] {
    emu_work work = {};
    work.name = "wait for value";
    work.argument = new ValueWait<Value>{reinterpret_cast<const Value*>(address), value, flags};
    work.poll = [](void* argument) {
      const auto* wait = static_cast<ValueWait<Value>*>(argument);
      const Value seen = __atomic_load_n(wait->address, __ATOMIC_ACQUIRE);
      return wait_value_reached(seen, wait->wanted, wait->flags) ? 1 : 0;
    };
    work.release = [](void* argument) { delete static_cast<ValueWait<Value>*>(argument); };
    return work_op(work);
  });
}

template <typename Value>
CUresult submit_write_value(CUstream stream, CUdeviceptr address, Value value) {
  if (address % sizeof(Value) != 0) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [=] {
    return run_op(
        [=] {
          __atomic_store_n(reinterpret_cast<Value*>(address), value, __ATOMIC_RELEASE);
          emu_wake();
        },
        false, 0);
  });
}

// Stream queries that need no more than the stream.
template <typename Answer>
CUresult with_stream(CUstream handle, Answer answer) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  Lock lock = Engine::get().lock();
  const StreamPointer stream = Engine::get().find_stream(handle, device);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  return answer(lock, stream);
}

}  // namespace
}  // namespace emu

using namespace emu;

extern "C" {

int emu_stream_enqueue(void* stream, const emu_work* work, void* (*clone)(void* argument)) {
  if (const CUresult status = ensure_context(); status != CUDA_SUCCESS) return status;
  const auto held = std::make_shared<CapturedWork>(CapturedWork{*work, clone, true});
  const CUresult status = submit(static_cast<CUstream>(stream), CU_GRAPH_NODE_TYPE_KERNEL, [held] {
    emu_work mine = held->work;
    if (held->keep) return work_op(mine);  // enqueued at once: the argument is the operation's
    if (held->clone != nullptr) {
      mine.argument = held->clone(mine.argument);
    } else {
      mine.release = nullptr;
    }
    return work_op(mine);
  });
  // Still referenced by a node: it was captured, and from now on each replay clones.
  if (status == CUDA_SUCCESS && held.use_count() > 1) held->keep = false;
  return status;
}

int emu_stream_capturing(void* stream, uint64_t* graph_id) {
  int device = 0;
  if (enter(&device) != CUDA_SUCCESS) return 0;
  const Lock lock = Engine::get().lock();
  const StreamPointer found = Engine::get().find_stream(static_cast<CUstream>(stream), device);
  if (!found || !found->capture) return 0;
  if (graph_id != nullptr) *graph_id = found->capture->id;
  return 1;
}

void emu_watch(const emu_watcher* watcher) {
  const Lock lock = Engine::get().lock();
  Engine::get().set_watcher(watcher);
}

void emu_wake(void) {
  if (check_initialised() != CUDA_SUCCESS) return;
  const Lock lock = Engine::get().lock();
  Engine::get().wake_polls();
}

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  int device = 0;
  if (const CUresult status = enter_healthy(&device); status != CUDA_SUCCESS) return status;
  if (out == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  constexpr int kGreatestPriority = -5;
  priority = priority > 0 ? 0 : priority < kGreatestPriority ? kGreatestPriority : priority;
  *out = Engine::get().create_stream(device, flags, priority).get();
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* out, unsigned int flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return with_stream(handle, [&](Lock&, const StreamPointer& stream) {
    // One that has joined may go: its nodes stay, to be waited for by the others. NCCL joins a
    // stream of its own for a moment to learn what an event waits for.
    if (stream->capture && stream->capture->origin == handle) stream->capture->invalidated = true;
    Engine::get().forget_stream(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return with_stream(handle, [](Lock& lock, const StreamPointer& stream) {
    if (stream->capture) {
      stream->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (const CUresult status = check_unsafe_call(); status != CUDA_SUCCESS) return status;
    if (const CUresult status = check_implicit_wait(*stream); status != CUDA_SUCCESS) return status;
    return Engine::get().wait_stream(lock, stream);
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return with_stream(handle, [](Lock&, const StreamPointer& stream) {
    if (stream->capture) {
      stream->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (const CUresult status = check_unsafe_call(); status != CUDA_SUCCESS) return status;
    const CUresult sticky = Engine::get().sticky(stream->device);
    if (sticky != CUDA_SUCCESS) return sticky;
    return Engine::get().query_stream(*stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return with_stream(handle, [&](Lock&, const StreamPointer& stream) {
    *priority = stream->priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  return with_stream(handle, [&](Lock&, const StreamPointer& stream) {
    *flags = stream->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return with_stream(handle, [&](Lock&, const StreamPointer& stream) {
    *id = stream->id;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return with_stream(handle, [&](Lock&, const StreamPointer& stream) {
    *device = stream->device;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return with_stream(handle, [&](Lock&, const StreamPointer& stream) {
    *context = primary_context(stream->device);
    return CUDA_SUCCESS;
  });
}

// No green contexts here.
CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, void** green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, context);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, CU_GRAPH_NODE_TYPE_HOST,
                [=] { return run_op([=] { function(data); }, false, 0); });
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data,
                             unsigned int flags) {
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  if (emu_stream_capturing(stream, nullptr) != 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return submit(stream, CU_GRAPH_NODE_TYPE_HOST,
                [=] { return run_op([=] { add_callback(stream, callback, data); }, false, 0); });
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned int) {
  return submit_write_value<uint32_t>(stream, address, value);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned int) {
  return submit_write_value<uint64_t>(stream, address, value);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned int flags) {
  return submit_wait_value<uint32_t>(stream, address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned int flags) {
  return submit_wait_value<uint64_t>(stream, address, value, flags);
}

}  // extern "C"
