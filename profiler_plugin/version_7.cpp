// Version 7 of the interface: NCCL 2.31 and later.
#include "profiler_plugin/adapter.h"
#include "profiler_plugin/fields.h"

namespace rollcall::profiler::v7 {
namespace {

void take_coll_v7(Event& event, const CollFields& from) {
  take_coll(event, from);
  event.kernel_variant = from.kernel_variant;
  event.is_symmetric = from.is_symmetric;
  event.user_tag = from.user_tag;
}

void take_kernel_phase(Event& event, const KernelPhaseFields& from) {
  event.channel = from.channel;
  event.phase = from.phase;
  event.text = from.phase_name;
  event.timer_ns = from.timer_ns;
}

}  // namespace

static Event event_of(const Descriptor& from) {
  Event event{.type = from.type <= kAllEvents ? static_cast<uint32_t>(from.type) : 0,
              .rank = from.rank,
              .parent = from.parent};
  switch (event.type) {
    case kColl:
      take_coll_v7(event, from.coll);
      break;
    case kP2p:
      take_p2p(event, from.p2p);
      event.user_tag = from.p2p.user_tag;
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
      event.user_tag = from.coll_api.user_tag;
      break;
    case kP2pApi:
      take_p2p_api(event, from.p2p_api);
      event.user_tag = from.p2p_api.user_tag;
      break;
    case kKernelLaunch:
      event.stream = from.kernel_launch.stream;
      break;
    case kCeColl:
      take_ce_coll(event, from.ce_coll);
      event.user_tag = from.ce_coll.user_tag;
      break;
    case kCeSync:
      take_ce_sync(event, from.ce_sync);
      break;
    case kCeBatch:
      take_ce_batch(event, from.ce_batch);
      break;
    case kKernelPhase:
      take_kernel_phase(event, from.kernel_phase);
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
                 {.version = 7,
                  .has_identity = true,
                  .comm_hash = id,
                  .name = name,
                  .nranks = ranks,
                  .rank = rank},
                 {.nodes = nodes, .logger = logger});
}

}  // namespace

ROLLCALL_PROFILER(7)

}  // namespace rollcall::profiler::v7
