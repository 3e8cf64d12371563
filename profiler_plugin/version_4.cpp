// Version 4 of the interface: NCCL 2.27.
#include "profiler_plugin/adapter.h"
#include "profiler_plugin/fields.h"

namespace rollcall::profiler::v4 {
namespace {

void take_coll(Event& event, const CollFields& from) {
  event.seq_number = from.seq_number;
  event.func = from.func;
  event.datatype = from.datatype;
  event.algorithm = from.algorithm;
  event.protocol = from.protocol;
  event.send = from.send;
  event.recv = from.recv;
  event.count = from.count;
  event.root_or_peer = from.root;
  event.channels = from.channels;
  event.warps = from.warps;
}

void take_p2p(Event& event, const P2pFields& from) {
  event.func = from.func;
  event.datatype = from.datatype;
  event.send = from.buffer;
  event.count = from.count;
  event.root_or_peer = from.peer;
  event.channels = from.channels;
}

}  // namespace

static Event event_of(const Descriptor& from) {
  Event event{.type = from.type, .rank = from.rank, .parent = from.parent};
  switch (event.type) {
    case kColl:
      take_coll(event, from.coll);
      break;
    case kP2p:
      take_p2p(event, from.p2p);
      break;
    case kProxyOp:
      take_proxy_op(event, from.proxy_op);
      break;
    case kProxyStep:
      event.steps = from.proxy_step.step;
      break;
    case kKernelCh:
      take_kernel_ch(event, from.kernel_ch);
      break;
    case kNetPlugin:
      take_net_plugin(event, from.net_plugin);
      break;
    default:
      break;  // Group and ProxyCtrl have nothing but their type
  }
  return event;
}

namespace {

int init(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
         Logger logger) noexcept {
  return init_of(context, mask,
                 {.version = 4,
                  .has_identity = true,
                  .comm_hash = hash,
                  .name = name,
                  .nranks = ranks,
                  .rank = rank},
                 {.nodes = nodes, .logger = logger});
}

}  // namespace

ROLLCALL_PROFILER(4)

}  // namespace rollcall::profiler::v4
