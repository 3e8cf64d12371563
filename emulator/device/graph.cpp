#include "emulator/device/graph.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

namespace emu {
namespace {

// Captures in progress; few, usually none.
std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* const all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}

void leave_capture(const std::shared_ptr<Capture>& capture) {
  for (const StreamPointer& stream : capture->streams) {
    stream->capture.reset();
    stream->capture_tail.clear();
  }
  capture->streams.clear();
  auto& all = captures();
  all.erase(std::remove(all.begin(), all.end(), capture), all.end());
}

// What every stream that joined captured last must have been waited for by the origin, directly or
// not. A node that was put there by hand (cuStreamUpdateCaptureDependencies) need not have been.
bool all_joined(const Capture& capture, const CUstream_st& origin) {
  std::unordered_set<CUgraphNode> reached;
  std::vector<CUgraphNode> open = origin.capture_tail;
  while (!open.empty()) {
    const CUgraphNode node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    open.insert(open.end(), node->waits.begin(), node->waits.end());
  }
  for (const StreamPointer& stream : capture.streams) {
    for (CUgraphNode node : stream->capture_tail) {
      if (node->is_captured && reached.count(node) == 0) return false;
    }
  }
  return true;
}

}  // namespace

CUgraphNode add_node(CUgraph graph, std::shared_ptr<NodeBody> body,
                     std::vector<CUgraphNode> waits) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->graph = graph;
  node->body = std::move(body);
  node->waits = std::move(waits);
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

CUgraphNode capture_node(CUstream_st& stream, std::shared_ptr<NodeBody> body) {
  const CUgraphNode node = add_node(stream.capture->graph, std::move(body), stream.capture_tail);
  node->is_captured = true;
  stream.capture_tail.assign(1, node);
  return node;
}

CUresult capture_wait(const StreamPointer& stream, const CUevent_st& event) {
  const std::shared_ptr<Capture>& capture = event.capture;
  if (capture->streams.empty()) return CUDA_ERROR_CAPTURED_EVENT;  // that capture has ended
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture && stream->capture != capture) {
    stream->capture->invalidated = true;
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (!stream->capture) {
    if (stream->legacy) {
      capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    stream->capture = capture;
    capture->streams.push_back(stream);
  }
  for (CUgraphNode node : event.capture_tail) {
    auto& tail = stream->capture_tail;
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
  return CUDA_SUCCESS;
}

CUresult check_unsafe_call() {
  const CUstreamCaptureMode mine = thread_state().capture_mode;
  if (mine == CU_STREAM_CAPTURE_MODE_RELAXED || captures().empty()) return CUDA_SUCCESS;
  CUresult status = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : captures()) {
    const bool own = pthread_equal(capture->thread, pthread_self()) != 0;
    const bool forbids = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                             : mine == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                   capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!forbids) continue;
    capture->invalidated = true;
    status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return status;
}

CUresult check_device_wait(int device) {
  CUresult status = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : captures()) {
    for (const StreamPointer& each : capture->streams) {
      if (each->device != device) continue;
      capture->invalidated = true;
      status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return status != CUDA_SUCCESS ? status : check_unsafe_call();
}

CUresult check_implicit_wait(const CUstream_st& stream) {
  if (!stream.legacy) return CUDA_SUCCESS;
  CUresult status = CUDA_SUCCESS;
  for (const std::shared_ptr<Capture>& capture : captures()) {
    for (const StreamPointer& each : capture->streams) {
      if (each->device != stream.device || !each->blocking()) continue;
      capture->invalidated = true;
      status = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  return status;
}

namespace {

std::atomic<uint64_t> streams_version{1};

// Whether a stream captures is asked with every call of a job that is recorded, and a driver
// answers from the stream itself. So a thread remembers the last stream that was known while
// nothing captured, until a capture begins or a stream is gone.
struct QuietStream {
  CUstream handle = nullptr;
  uint64_t version = 0;
};
thread_local QuietStream quiet_stream;

constexpr uintptr_t kDefaultStreamsMax = 2;

bool is_quiet(CUstream handle) {
  return handle != nullptr && quiet_stream.handle == handle &&
         quiet_stream.version == streams_version.load(std::memory_order_acquire);
}

// The lock is held. The default streams' handles mean another stream in each context and thread.
void remember_quiet(CUstream handle) {
  if (reinterpret_cast<uintptr_t>(handle) <= kDefaultStreamsMax || !captures().empty()) return;
  quiet_stream = {handle, streams_version.load(std::memory_order_relaxed)};
}

}  // namespace

void streams_changed() { streams_version.fetch_add(1, std::memory_order_acq_rel); }

namespace {

std::shared_ptr<Capture> begin_capture(const StreamPointer& stream, CUstreamCaptureMode mode) {
  static uint64_t last_id = 0;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id;
  capture->mode = mode;
  capture->thread = pthread_self();
  capture->origin = stream.get();
  capture->streams.push_back(stream);
  stream->capture = capture;
  stream->capture_tail.clear();
  captures().push_back(capture);
  streams_changed();
  return capture;
}

CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph graph, const CUgraphNode* waits,
               size_t count) {
  int device = 0;
  if (const CUresult status = enter_healthy(&device); status != CUDA_SUCCESS) return status;
  if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  const StreamPointer stream = Engine::get().find_stream(handle, device);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = begin_capture(stream, mode);
  capture->own_graph = graph == nullptr;
  capture->graph = graph != nullptr ? graph : new CUgraph_st;
  if (count > 0) stream->capture_tail.assign(waits, waits + count);
  return CUDA_SUCCESS;
}

CUresult end(CUstream handle, CUgraph* out) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  std::unique_ptr<CUgraph_st>
      discarded;  // destroyed after the lock is given back: releases run then
  const Lock lock = Engine::get().lock();
  const StreamPointer stream = Engine::get().find_stream(handle, device);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      pthread_equal(capture->thread, pthread_self()) == 0) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  CUresult status = CUDA_SUCCESS;
  if (capture->invalidated) {
    status = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!all_joined(*capture, *stream)) {
    status = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  leave_capture(capture);
  if (status == CUDA_SUCCESS) {
    *out = capture->graph;
  } else if (capture->own_graph) {
    discarded.reset(capture->graph);
  }
  return status;
}

// The caller's arrays for lists of nodes: with no array the number, else at most *count of them.
CUresult list_nodes(const std::vector<CUgraphNode>& found, CUgraphNode* nodes, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < found.size() ? found[i] : nullptr;
  }
  *count = nodes == nullptr ? found.size() : std::min(*count, found.size());
  return CUDA_SUCCESS;
}

// Flattens a graph, children included, into steps in an order that respects every edge. Returns the
// last steps of the graph: those on which no other step waits.
std::vector<size_t> plan(const CUgraph_st& graph, const std::vector<size_t>& entry,
                         std::vector<CUgraphExec_st::Step>* steps) {
  std::unordered_map<CUgraphNode, std::vector<size_t>> ends;
  std::unordered_set<CUgraphNode> waited_for;
  std::vector<CUgraphNode> order;
  std::unordered_set<CUgraphNode> placed;
  // Nodes are mostly created in a good order already; repeat until all are placed.
  while (order.size() < graph.nodes.size()) {
    const size_t before = order.size();
    for (const auto& node : graph.nodes) {
      if (placed.count(node.get()) != 0) continue;
      const bool ready = std::all_of(node->waits.begin(), node->waits.end(),
                                     [&](CUgraphNode each) { return placed.count(each) != 0; });
      if (!ready) continue;
      placed.insert(node.get());
      order.push_back(node.get());
    }
    if (order.size() == before) break;  // a cycle: the caller checks the number of steps
  }
  for (CUgraphNode node : order) {
    std::vector<size_t> waits;
    for (CUgraphNode each : node->waits) {
      waited_for.insert(each);
      const std::vector<size_t>& theirs = ends[each];
      waits.insert(waits.end(), theirs.begin(), theirs.end());
    }
    if (node->waits.empty()) waits = entry;
    if (node->body->child) {
      ends[node] = plan(*node->body->child, waits, steps);
      if (ends[node].empty()) ends[node] = waits;
      continue;
    }
    steps->push_back({node->body, std::move(waits), 0});
    ends[node] = {steps->size() - 1};
  }
  std::vector<size_t> last;
  for (CUgraphNode node : order) {
    if (waited_for.count(node) != 0) continue;
    last.insert(last.end(), ends[node].begin(), ends[node].end());
  }
  return last;
}

// A step goes on with the chain of a step it waits for if nobody has gone on with that yet.
void assign_chains(CUgraphExec_st* exec) {
  std::unordered_set<size_t> continued;
  size_t chains = 0;
  for (CUgraphExec_st::Step& step : exec->steps) {
    size_t chain = SIZE_MAX;
    for (size_t wait : step.waits) {
      if (!continued.insert(wait).second) continue;
      chain = exec->steps[wait].chain;
      break;
    }
    step.chain = chain == SIZE_MAX ? chains++ : chain;
  }
  for (size_t i = 1; i < chains; ++i) {
    const StreamPointer stream =
        Engine::get().create_stream(exec->device, CU_STREAM_NON_BLOCKING, 0);
    Engine::get().forget_stream(stream.get());  // not the user's
    exec->chains.push_back(stream);
  }
}

void launch(CUgraphExec_st* exec, const StreamPointer& stream) {
  Engine& engine = Engine::get();
  Op start;
  start.marker = std::make_shared<Marker>();
  if (exec->last_end) start.waits.push_back({exec->last_end, nullptr, 0});
  const std::shared_ptr<Marker> started = start.marker;
  engine.enqueue(stream, std::move(start));
  Op finish;
  finish.marker = std::make_shared<Marker>();
  finish.watched = engine.watch(*stream, nullptr);
  finish.watched_from = started;
  exec->last_end = finish.marker;
  std::vector<std::shared_ptr<Marker>> done(exec->steps.size());
  for (size_t i = 0; i < exec->steps.size(); ++i) {
    const CUgraphExec_st::Step& step = exec->steps[i];
    Op op = step.body->make ? step.body->make() : nothing_op();
    if (!op.marker) op.marker = std::make_shared<Marker>();
    done[i] = op.marker;
    op.short_run = false;
    if (step.chain != 0) op.waits.push_back({started, nullptr, 0});
    for (size_t wait : step.waits) op.waits.push_back({done[wait], nullptr, 0});
    if (step.chain != 0) finish.waits.push_back({done[i], nullptr, 0});
    engine.enqueue(step.chain == 0 ? stream : exec->chains[step.chain - 1], std::move(op));
  }
  engine.enqueue(stream, std::move(finish));
}

}  // namespace
}  // namespace emu

using namespace emu;

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin(stream, mode, nullptr, nullptr, 0);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* waits,
                                     const CUgraphEdgeData*, size_t count,
                                     CUstreamCaptureMode mode) {
  return graph == nullptr ? CUDA_ERROR_INVALID_VALUE : begin(stream, mode, graph, waits, count);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) { return end(stream, out); }

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** waits,
                                   const CUgraphEdgeData** edges, size_t* count) {
  int device = 0;
  if (const CUresult entered = enter(&device); entered != CUDA_SUCCESS) return entered;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (is_quiet(handle)) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  const Lock lock = Engine::get().lock();
  const StreamPointer stream = Engine::get().find_stream(handle, device);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult implicit = check_implicit_wait(*stream); implicit != CUDA_SUCCESS) {
    return implicit;
  }
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!stream->capture) {
    remember_quiet(handle);
    return CUDA_SUCCESS;
  }
  *status = stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (stream->capture->invalidated) return CUDA_SUCCESS;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture->graph;
  if (waits != nullptr) *waits = stream->capture_tail.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = stream->capture_tail.size();
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return cuStreamGetCaptureInfo_v3(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* waits,
                                              const CUgraphEdgeData*, size_t count,
                                              unsigned int flags) {
  int device = 0;
  if (const CUresult status = enter(&device); status != CUDA_SUCCESS) return status;
  const Lock lock = Engine::get().lock();
  const StreamPointer stream = Engine::get().find_stream(handle, device);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  constexpr unsigned kReplace = 1;
  if ((flags & kReplace) != 0) stream->capture_tail.clear();
  stream->capture_tail.insert(stream->capture_tail.end(), waits, waits + count);
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (mode == nullptr || *mode < 0 || *mode > 2) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_state().capture_mode);
  return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = new CUgraph_st;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Captured arguments may call back into us as they are released: not under the lock.
  for (CUuserObject object : graph->user_objects) release_user_object(object, 1);
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* out, CUgraph original) {
  if (out == nullptr || original == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  auto* clone = new CUgraph_st;
  std::unordered_map<CUgraphNode, CUgraphNode> copies;
  for (const auto& node : original->nodes) {
    copies[node.get()] = add_node(clone, node->body, {});
  }
  for (const auto& node : original->nodes) {
    for (CUgraphNode wait : node->waits) copies[node.get()]->waits.push_back(copies[wait]);
  }
  clone->user_objects = original->user_objects;
  for (CUuserObject object : clone->user_objects) ++object->references;
  *out = clone;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  int device = 0;
  if (const CUresult status = enter_healthy(&device); status != CUDA_SUCCESS) return status;
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  auto exec = std::make_unique<CUgraphExec_st>();
  exec->device = device;
  plan(*graph, {}, &exec->steps);
  assign_chains(exec.get());
  exec->user_objects = graph->user_objects;
  for (CUuserObject object : exec->user_objects) ++object->references;
  *out = exec.release();
  return CUDA_SUCCESS;
}

// CUDA 11's. Nothing is refused here, so there is no node to name and nothing to log.
CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes != 0) log[0] = 0;
  return cuGraphInstantiateWithFlags(out, graph, 0);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (CUuserObject object : exec->user_objects) release_user_object(object, 1);
  delete exec;  // what it launched runs to its end: the operations own what they need
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream) {
  return exec == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  int device = 0;
  if (const CUresult status = enter_healthy(&device); status != CUDA_SUCCESS) return status;
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  const StreamPointer stream = Engine::get().find_stream(handle, device);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) {
    // A launch inside a capture becomes a child graph; its steps are copied as they are now.
    auto child = std::make_shared<CUgraph_st>();
    std::vector<CUgraphNode> nodes;
    for (const CUgraphExec_st::Step& step : exec->steps) {
      std::vector<CUgraphNode> waits;
      for (size_t wait : step.waits) waits.push_back(nodes[wait]);
      nodes.push_back(add_node(child.get(), step.body, std::move(waits)));
    }
    auto body = std::make_shared<NodeBody>();
    body->type = CU_GRAPH_NODE_TYPE_GRAPH;
    body->child = std::move(child);
    capture_node(*stream, std::move(body));
    return CUDA_SUCCESS;
  }
  if (const CUresult status = check_implicit_wait(*stream); status != CUDA_SUCCESS) return status;
  launch(exec, stream);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  std::vector<CUgraphNode> found;
  for (const auto& node : graph->nodes) found.push_back(node.get());
  return list_nodes(found, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  std::vector<CUgraphNode> found;
  for (const auto& node : graph->nodes) {
    if (node->waits.empty()) found.push_back(node.get());
  }
  return list_nodes(found, nodes, count);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->body->type;
  return CUDA_SUCCESS;
}

}  // extern "C"
