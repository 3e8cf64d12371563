// Version 6 of the interface: NCCL 2.29 and 2.30.
#include "profiler_plugin/adapter.h"
#include "profiler_plugin/fields.h"

namespace rollcall::profiler::v6 {
static Event event_of(const Descriptor& from) {
  Event event{.type = from.type <= kAllEvents ? static_cast<uint32_t>(from.type) : 0,
              .rank = from.rank,
              .parent = from.parent};
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
    case kGroupApi:
      take_group_api(event, from.group_api);
      break;
    case kCollApi:
      take_coll_api(event, from.coll_api);
      break;
    case kP2pApi:
      take_p2p_api(event, from.p2p_api);
      break;
    case kKernelLaunch:
      event.stream = from.kernel_launch.stream;
      break;
    case kCeColl:
      take_ce_coll(event, from.ce_coll);
      break;
    case kCeSync:
      take_ce_sync(event, from.ce_sync);
      break;
    case kCeBatch:
      take_ce_batch(event, from.ce_batch);
      break;
    default:
      break;  // Group and ProxyCtrl have nothing but their type
  }
  return event;
}

namespace {

int init(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
         Logger logger) noexcept {
  return init_of(context, mask,
                 {.version = 6,
                  .has_identity = true,
                  .comm_hash = id,
                  .name = name,
                  .nranks = ranks,
                  .rank = rank},
                 {.nodes = nodes, .logger = logger});
}

}  // namespace

ROLLCALL_PROFILER(6)

}  // namespace rollcall::profiler::v6
