// Stream capture and graphs.
//
// A captured call becomes a node that knows how to make its operation; a replay makes fresh
// operations. A graph's branches really run side by side: each chain of nodes gets a stream of its
// own, the first one the stream it is launched on, and chains wait for one another through markers.
// (One flat order would deadlock two collectives that ranks reach in different branches.)
//
// Everything here is guarded by the engine's lock.
#pragma once

#include <pthread.h>

#include <memory>
#include <vector>

#include "emulator/device/engine.h"
#include "emulator/device/stream.h"

namespace emu {

// What a node does; shared by a graph, its clones and its executables.
struct NodeBody {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  MakeOp make;
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  std::shared_ptr<CUgraph_st> child;
};

}  // namespace emu

struct CUgraphNode_st {
  CUgraph graph = nullptr;
  std::shared_ptr<emu::NodeBody> body;
  std::vector<CUgraphNode> waits;
  bool is_captured = false;  // by a stream, not added by hand
};

struct CUuserObject_st {
  void* object = nullptr;
  CUhostFn destroy = nullptr;
  unsigned references = 0;
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  std::vector<CUuserObject> user_objects;
};

struct CUgraphExec_st {
  struct Step {
    std::shared_ptr<emu::NodeBody> body;
    std::vector<size_t> waits;  // of earlier steps
    size_t chain = 0;           // 0: the launching stream
  };
  std::vector<Step> steps;
  std::vector<emu::StreamPointer> chains;  // of chains 1, 2, ...
  std::shared_ptr<emu::Marker> last_end;   // launches of one executable never overlap
  std::vector<CUuserObject> user_objects;
  int device = 0;
};

namespace emu {

struct Capture {
  uint64_t id = 0;
  CUgraph graph = nullptr;
  bool own_graph = true;  // false: capturing to a graph of the caller's
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  pthread_t thread = {};
  bool invalidated = false;
  CUstream origin = nullptr;
  std::vector<StreamPointer> streams;  // origin and those that joined
};

CUgraphNode add_node(CUgraph graph, std::shared_ptr<NodeBody> body, std::vector<CUgraphNode> waits);
// Gives references back; the last one destroys the object. Not under the lock: the destructor is
// the user's.
void release_user_object(CUuserObject object, unsigned count);
// Appends a node behind what the stream captured last.
CUgraphNode capture_node(CUstream_st& stream, std::shared_ptr<NodeBody> body);
// Lets `stream` go on behind the event's captured position, joining the capture if it has to.
CUresult capture_wait(const StreamPointer& stream, const CUevent_st& event);
// A stream is gone, or a capture begins: what threads remember of streams does not count any more.
void streams_changed();
// For calls that CUDA calls potentially unsafe: fails, and invalidates the captures in question,
// when this thread's mode and the captures in progress forbid them.
CUresult check_unsafe_call();
// A device-wide wait is impossible while a stream of it captures.
CUresult check_device_wait(int device);
// For work put on the legacy stream, which would wait for a capturing blocking stream.
CUresult check_implicit_wait(const CUstream_st& stream);

}  // namespace emu
