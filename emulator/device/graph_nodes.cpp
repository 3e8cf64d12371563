// Graphs built by hand, node by node, and the user objects that graphs keep alive.
#include "emulator/device/graph.h"

namespace emu {
namespace {

CUresult append(CUgraphNode* out, CUgraph graph, const CUgraphNode* waits, size_t count,
                CUgraphNodeType type, MakeOp make, std::shared_ptr<CUgraph_st> child) {
  if (out == nullptr || graph == nullptr || (count > 0 && waits == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto body = std::make_shared<NodeBody>();
  body->type = type;
  body->make = std::move(make);
  body->child = std::move(child);
  const Lock lock = Engine::get().lock();
  *out = add_node(graph, std::move(body), std::vector<CUgraphNode>(waits, waits + count));
  return CUDA_SUCCESS;
}

EventPointer find_event(CUevent handle) {
  const Lock lock = Engine::get().lock();
  return Engine::get().find_event(handle);
}

}  // namespace

void release_user_object(CUuserObject object, unsigned count) {
  {
    const Lock lock = Engine::get().lock();
    if (object->references > count) {
      object->references -= count;
      return;
    }
  }
  object->destroy(object->object);
  delete object;
}

}  // namespace emu

using namespace emu;

extern "C" {

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* waits,
                             size_t count) {
  return append(node, graph, waits, count, CU_GRAPH_NODE_TYPE_EMPTY, nothing_op, nullptr);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* waits,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  const CUresult status =
      append(node, graph, waits, count, CU_GRAPH_NODE_TYPE_KERNEL, nothing_op, nullptr);
  if (status == CUDA_SUCCESS && parameters != nullptr) (*node)->body->kernel = *parameters;
  return status;
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* waits,
                            size_t count, const void* parameters) {
  struct HostNodeParameters {
    CUhostFn function;
    void* data;
  };
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const HostNodeParameters host = *static_cast<const HostNodeParameters*>(parameters);
  if (host.function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return append(
      node, graph, waits, count, CU_GRAPH_NODE_TYPE_HOST,
      [host] { return run_op([host] { host.function(host.data); }, false, 0); }, nullptr);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* waits,
                                  size_t count, CUgraph child) {
  CUgraph copy = nullptr;
  if (const CUresult status = cuGraphClone(&copy, child); status != CUDA_SUCCESS) return status;
  return append(node, graph, waits, count, CU_GRAPH_NODE_TYPE_GRAPH, nullptr,
                std::shared_ptr<CUgraph_st>(copy));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* waits,
                                   size_t count, CUevent handle) {
  const EventPointer event = find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  const auto record = [event] {
    Op op;
    op.marker = std::make_shared<Marker>();
    event->marker = op.marker;
    event->capture.reset();
    return op;
  };
  return append(node, graph, waits, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, record, nullptr);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* waits,
                                 size_t count, CUevent handle) {
  const EventPointer event = find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  const auto wait = [event] {
    Op op;
    if (event->marker) op.waits.push_back({event->marker, nullptr, 0});
    return op;
  };
  return append(node, graph, waits, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, wait, nullptr);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData*, size_t count) {
  if (graph == nullptr || (count > 0 && (from == nullptr || to == nullptr))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Lock lock = Engine::get().lock();
  for (size_t i = 0; i < count; ++i) {
    if (from[i]->graph != graph || to[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    to[i]->waits.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject* out, void* object, CUhostFn destroy,
                            unsigned int references, unsigned int) {
  if (out == nullptr || destroy == nullptr || references == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = new CUuserObject_st{object, destroy, references};
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  object->references += count;
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  release_user_object(object, count);
  return CUDA_SUCCESS;
}

// With flag 1 the caller's references move to the graph; without it the graph takes new ones.
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags) {
  if (graph == nullptr || object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  constexpr unsigned kMove = 1;
  if ((flags & kMove) == 0) object->references += count;
  graph->user_objects.insert(graph->user_objects.end(), count, object);
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  if (graph == nullptr || object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  unsigned removed = 0;
  {
    const Lock lock = Engine::get().lock();
    auto& all = graph->user_objects;
    for (size_t i = all.size(); i-- > 0 && removed < count;) {
      if (all[i] != object) continue;
      all.erase(all.begin() + static_cast<ptrdiff_t>(i));
      ++removed;
    }
  }
  if (removed > 0) release_user_object(object, removed);
  return removed == count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
