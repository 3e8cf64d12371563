// Capture and graphs of the runtime API.
//
// Those that make, launch and destroy graphs go through driver_function().
#include <type_traits>

#include "emulator/cudart/runtime.h"

using namespace emu;

namespace {

struct GraphDriver {
  decltype(&cuStreamBeginCaptureToGraph) begin_capture_to_graph = nullptr;
  decltype(&cuGraphDestroy) destroy = nullptr;
  decltype(&cuGraphClone) clone = nullptr;
  decltype(&cuGraphInstantiateWithFlags) instantiate = nullptr;
  decltype(&cuGraphInstantiate_v2) instantiate_with_log = nullptr;  // CUDA 11's
  decltype(&cuGraphLaunch) launch = nullptr;
  decltype(&cuGraphExecDestroy) destroy_executable = nullptr;
};

GraphDriver find_driver() {
  GraphDriver driver;
  const auto find = [](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(driver_function(name));
  };
  find("cuStreamBeginCaptureToGraph", driver.begin_capture_to_graph);
  find("cuGraphDestroy", driver.destroy);
  find("cuGraphClone", driver.clone);
#if EMU_CUDART == 11
  find("cuGraphInstantiateWithFlags", driver.instantiate);
  find("cuGraphInstantiate", driver.instantiate_with_log);
#else
  find("cuGraphInstantiate", driver.instantiate);
#endif
  find("cuGraphLaunch", driver.launch);
  find("cuGraphExecDestroy", driver.destroy_executable);
  return driver;
}

const GraphDriver& driver() {
  static const GraphDriver found = find_driver();
  return found;
}

template <typename Function, typename... Arguments>
cudaError_t driver_call(Function function, Arguments... arguments) {
  return runtime_call(
      [&] { return function == nullptr ? CUDA_ERROR_NOT_FOUND : function(arguments...); });
}

CUstreamCaptureStatus* driver_status(cudaStreamCaptureStatus* status) {
  return reinterpret_cast<CUstreamCaptureStatus*>(status);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return runtime_call(
      [&] { return cuStreamBeginCapture_v2(stream, static_cast<CUstreamCaptureMode>(mode)); });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* waits,
                                          const cudaGraphEdgeData* edges, size_t count,
                                          cudaStreamCaptureMode mode) {
  return driver_call(driver().begin_capture_to_graph, stream, graph, waits,
                     reinterpret_cast<const CUgraphEdgeData*>(edges), count,
                     static_cast<CUstreamCaptureMode>(mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return runtime_call([&] { return cuStreamEndCapture(stream, graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return runtime_call([&] { return cuStreamIsCapturing(stream, driver_status(status)); });
}

static cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                unsigned long long* id, cudaGraph_t* graph,
                                const cudaGraphNode_t** waits, const cudaGraphEdgeData** edges,
                                size_t* count) {
  return runtime_call([&] {
    cuuint64_t number = 0;
    const CUresult result = cuStreamGetCaptureInfo_v3(
        stream, driver_status(status), &number, graph, const_cast<const CUgraphNode**>(waits),
        reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    if (result == CUDA_SUCCESS && id != nullptr && number != 0) *id = number;
    return result;
  });
}

static cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t* waits, size_t count,
                                       unsigned int flags) {
  return runtime_call(
      [&] { return cuStreamUpdateCaptureDependencies_v2(stream, waits, nullptr, count, flags); });
}

#if EMU_CUDART < 13
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id) {
  return capture_info(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** waits, size_t* count) {
  return capture_info(stream, status, id, graph, waits, nullptr, count);
}
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** waits,
                                        const cudaGraphEdgeData** edges, size_t* count) {
  return capture_info(stream, status, id, graph, waits, edges, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* waits,
                                                size_t count, unsigned int flags) {
  return update_dependencies(stream, waits, count, flags);
}
cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t* waits,
                                                   const cudaGraphEdgeData*, size_t count,
                                                   unsigned int flags) {
  return update_dependencies(stream, waits, count, flags);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, size_t count) {
  return runtime_call([&] { return cuGraphAddDependencies_v2(graph, from, to, nullptr, count); });
}
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                        size_t count) {
  return cudaGraphAddDependencies(graph, from, to, count);
}
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** waits, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  return capture_info(stream, status, id, graph, waits, edges, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* waits,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned int flags) {
  return update_dependencies(stream, waits, count, flags);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                     size_t count) {
  return runtime_call([&] { return cuGraphAddDependencies_v2(graph, from, to, nullptr, count); });
}
#endif

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return runtime_call([&] {
    return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode));
  });
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  return runtime_call([&] { return cuGraphCreate(graph, flags); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return driver_call(driver().destroy, graph); }

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return driver_call(driver().clone, clone, graph);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return driver_call(driver().instantiate, exec, graph, flags);
}

#if EMU_CUDART == 11
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 cudaGraphNode_t* error_node, char* log, size_t log_bytes) {
  return driver_call(driver().instantiate_with_log, exec, graph, error_node, log, log_bytes);
}
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}
#endif

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return runtime_call([&] { return cuGraphUpload(exec, stream); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return driver_call(driver().launch, exec, stream);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return driver_call(driver().destroy_executable, exec);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return runtime_call([&] { return cuGraphGetNodes(graph, nodes, count); });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return runtime_call([&] { return cuGraphGetRootNodes(graph, nodes, count); });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return runtime_call(
      [&] { return cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)); });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                  const cudaGraphNode_t* waits, size_t count) {
  return runtime_call([&] { return cuGraphAddEmptyNode(node, graph, waits, count); });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* waits, size_t count,
                                   const cudaKernelNodeParams* kernel) {
  return runtime_call([&] {
    if (kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS copied = {};
    copied.func = function_of(kernel->func);
    return cuGraphAddKernelNode_v2(node, graph, waits, count, &copied);
  });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                 const cudaGraphNode_t* waits, size_t count,
                                 const cudaHostNodeParams* host) {
  return runtime_call([&] { return cuGraphAddHostNode(node, graph, waits, count, host); });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* waits, size_t count,
                                       cudaGraph_t child) {
  return runtime_call([&] { return cuGraphAddChildGraphNode(node, graph, waits, count, child); });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* waits, size_t count,
                                        cudaEvent_t event) {
  return runtime_call([&] { return cuGraphAddEventRecordNode(node, graph, waits, count, event); });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                      const cudaGraphNode_t* waits, size_t count,
                                      cudaEvent_t event) {
  return runtime_call([&] { return cuGraphAddEventWaitNode(node, graph, waits, count, event); });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned int) { return cudaSuccess; }

cudaError_t cudaUserObjectCreate(cudaUserObject_t* out, void* object, cudaHostFn_t destroy,
                                 unsigned int references, unsigned int flags) {
  return runtime_call([&] { return cuUserObjectCreate(out, object, destroy, references, flags); });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return runtime_call([&] { return cuUserObjectRetain(object, count); });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return runtime_call([&] { return cuUserObjectRelease(object, count); });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags) {
  return runtime_call([&] { return cuGraphRetainUserObject(graph, object, count, flags); });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count) {
  return runtime_call([&] { return cuGraphReleaseUserObject(graph, object, count); });
}

}  // extern "C"
