// Version 1 of the interface: NCCL 2.23.
#include "profiler_plugin/adapter.h"
#include "profiler_plugin/fields.h"
#include "profiler_plugin/names.h"

namespace rollcall::profiler::v1 {
namespace {

void take_coll(Event& event, const CollFields& from) {
  event.text = from.name;
  event.comm_hash = from.comm_hash;
  event.seq_number = from.seq_number;
  event.func = func_name_of_v1(from.func);
  event.datatype = datatype_name_of_v1(from.datatype);
  event.algorithm = algorithm_name_of_v1(from.algorithm);
  event.protocol = protocol_name_of_v1(from.protocol);
  event.send = from.send;
  event.recv = from.recv;
  event.count = from.count;
  event.root_or_peer = from.root;
  event.channels = from.channels;
  event.warps = from.warps;
  event.traffic_bytes = from.traffic_bytes;
  event.ce_words[0] = from.op;
  event.ce_words[1] = static_cast<uint32_t>(from.is_collnet);
  event.ce_words[2] = static_cast<uint32_t>(from.is_nvls);
}

void take_p2p(Event& event, const P2pFields& from) {
  event.text = from.name;
  event.comm_hash = from.comm_hash;
  event.func = func_name_of_v1(from.func);
  event.datatype = datatype_name_of_v1(from.datatype);
  event.send = from.buffer;
  event.count = from.count;
  event.root_or_peer = from.peer;
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
    default:
      break;  // Group and ProxyCtrl have nothing but their type
  }
  return event;
}

namespace {

int init(void** context, int* mask) noexcept { return init_of(context, mask, {.version = 1}, {}); }

}  // namespace

ROLLCALL_PROFILER(1)

}  // namespace rollcall::profiler::v1
