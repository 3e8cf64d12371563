#include "profiler_plugin/chained_plugin.h"

#include <type_traits>

#include "core/base/text.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/names.h"

namespace rollcall::profiler {
namespace {

// What a version's group of fields has, it gets; the rest of an Event has no place there. Version 1
// has small numbers where the others have names.
template <class Fields>
void fill_operation(Fields& to, const Event& from) {
  if constexpr (requires { to.name; }) to.name = from.text;
  if constexpr (requires { to.comm_hash; }) to.comm_hash = from.comm_hash;
  to.count = from.count;
  if constexpr (requires { to.parent_group; }) to.parent_group = from.parent_group;
  if constexpr (requires { to.channels; }) to.channels = from.channels;
  if constexpr (requires { to.user_tag; }) to.user_tag = from.user_tag;
  if constexpr (std::is_same_v<decltype(to.func), uint8_t>) {
    to.func = func_number_of_v1(from.func);
    to.datatype = datatype_number_of_v1(from.datatype);
  } else {
    to.func = from.func;
    to.datatype = from.datatype;
  }
}

template <class Fields>
void fill_coll(Fields& to, const Event& from) {
  fill_operation(to, from);
  to.seq_number = from.seq_number;
  to.send = from.send;
  to.recv = from.recv;
  to.root = from.root_or_peer;
  to.warps = from.warps;
  if constexpr (requires { to.traffic_bytes; }) to.traffic_bytes = from.traffic_bytes;
  if constexpr (requires { to.kernel_variant; }) {
    to.kernel_variant = from.kernel_variant;
    to.is_symmetric = from.is_symmetric;
  }
  if constexpr (std::is_same_v<decltype(to.algorithm), uint8_t>) {
    to.algorithm = algorithm_number_of_v1(from.algorithm);
    to.protocol = protocol_number_of_v1(from.protocol);
    to.op = from.ce_words[0];
    to.is_collnet = static_cast<int32_t>(from.ce_words[1]);
    to.is_nvls = static_cast<int32_t>(from.ce_words[2]);
  } else {
    to.algorithm = from.algorithm;
    to.protocol = from.protocol;
  }
}

template <class Fields>
void fill_p2p(Fields& to, const Event& from) {
  fill_operation(to, from);
  to.buffer = const_cast<void*>(from.send);
  to.peer = from.root_or_peer;
}

template <class Fields>
void fill_call(Fields& to, const Event& from) {
  to.func = from.func;
  to.count = from.count;
  to.datatype = from.datatype;
  if constexpr (requires { to.root; }) to.root = from.root_or_peer;
  to.stream = from.stream;
  to.graph_captured = from.graph_captured;
  if constexpr (requires { to.user_tag; }) to.user_tag = from.user_tag;
}

template <class Fields>
void fill_ce_coll(Fields& to, const Event& from) {
  to.seq_number = from.seq_number;
  to.func = from.func;
  to.send = from.send;
  to.recv = from.recv;
  to.count = from.count;
  to.root = from.root_or_peer;
  to.datatype = from.datatype;
  to.sync_strategy = from.text;
  to.intra_batch_sync = from.is_set;
  to.batch_size = from.ce_words[0];
  to.batches = from.ce_words[1];
  to.ce_seq_number = from.ce_words[2];
  to.stream = from.stream;
  if constexpr (requires { to.user_tag; }) to.user_tag = from.user_tag;
}

template <class Descriptor>
void fill_old(Descriptor& to, const Event& from) {
  if (from.type == kColl) fill_coll(to.coll, from);
  if (from.type == kP2p) fill_p2p(to.p2p, from);
  if (from.type == kProxyStep) to.proxy_step.step = from.steps;
  if (from.type == kProxyOp) {
    to.proxy_op = {from.pid,   from.channel,     from.root_or_peer,
                   from.steps, from.chunk_bytes, from.is_send ? 1 : 0};
  }
  if constexpr (requires { to.kernel_ch; }) {
    if (from.type == kKernelCh) to.kernel_ch.channel = from.channel;
    if constexpr (requires { to.kernel_ch.timer_ns; }) {
      if (from.type == kKernelCh) to.kernel_ch.timer_ns = from.timer_ns;
    }
    if (from.type == kNetPlugin) {
      to.net_plugin = {static_cast<int64_t>(from.seq_number), from.data};
    }
  }
}

template <class Descriptor>
void fill_new(Descriptor& to, const Event& from) {
  if constexpr (requires { to.group_api; }) {
    if (from.type == kGroupApi) to.group_api = {from.graph_captured, from.depth};
    if (from.type == kCollApi) fill_call(to.coll_api, from);
    if (from.type == kP2pApi) fill_call(to.p2p_api, from);
    if (from.type == kKernelLaunch) to.kernel_launch.stream = from.stream;
  }
  if constexpr (requires { to.ce_coll; }) {
    if (from.type == kCeColl) fill_ce_coll(to.ce_coll, from);
    if (from.type == kCeSync) to.ce_sync = {from.is_set, from.depth};
    if (from.type == kCeBatch) to.ce_batch = {from.depth, from.count, from.is_set};
  }
  if constexpr (requires { to.kernel_phase; }) {
    if (from.type == kKernelPhase) {
      to.kernel_phase = {from.channel, from.phase, from.text, from.timer_ns};
    }
  }
}

template <class Profiler, class Descriptor>
struct Chained {
  static Profiler& of(void* interface) { return *static_cast<Profiler*>(interface); }

  static int init(void* interface, void** context, int* mask, const ContextOpening& opening,
                  const ChainedInit& more) {
    auto init = of(interface).init;
    if constexpr (std::is_same_v<decltype(init), InitOfV1>) {
      return init(context, mask);
    } else if constexpr (std::is_same_v<decltype(init), InitOfV4>) {
      return init(context, mask, opening.name, opening.comm_hash, more.nodes, opening.nranks,
                  opening.rank, more.logger);
    } else {
      return init(context, opening.comm_hash, mask, opening.name, more.nodes, opening.nranks,
                  opening.rank, more.logger);
    }
  }
  static int start(void* interface, void* context, void** handle, const Event& event) {
    Descriptor descriptor{};
    descriptor.type = static_cast<decltype(descriptor.type)>(event.type);
    descriptor.parent = event.parent;
    descriptor.rank = event.rank;
    fill_old(descriptor, event);
    fill_new(descriptor, event);
    return of(interface).start_event(context, handle, &descriptor);
  }
  static int stop(void* interface, void* handle) { return of(interface).stop_event(handle); }
  static int record(void* interface, void* handle, int state, void* arguments) {
    using Arguments = decltype(arguments_of(of(interface).record_event_state));
    return of(interface).record_event_state(handle, state, static_cast<Arguments>(arguments));
  }
  static int finalize(void* interface, void* context) { return of(interface).finalize(context); }

 private:
  template <class StateArgs>
  static StateArgs* arguments_of(int (*)(void*, int, StateArgs*));
};

template <class Profiler, class Descriptor>
ChainedPlugin make(unsigned version, void* interface) {
  using Behind = Chained<Profiler, Descriptor>;
  return {version,      interface,      Behind::init,    Behind::start,
          Behind::stop, Behind::record, Behind::finalize};
}

}  // namespace

ChainedPlugin chained_plugin_of(void* (*find)(void* library, const char* name), void* library,
                                unsigned newest) noexcept {
  constexpr ChainedPlugin (*kMakers[])(unsigned, void*) = {
      make<v1::Profiler, v1::Descriptor>, make<v2::Profiler, v2::Descriptor>,
      make<v3::Profiler, v3::Descriptor>, make<v4::Profiler, v4::Descriptor>,
      make<v5::Profiler, v5::Descriptor>, make<v6::Profiler, v6::Descriptor>,
      make<v7::Profiler, v7::Descriptor>};
  for (unsigned version = newest; version >= 1; --version) {
    TextBuffer<32> name;
    name.text("ncclProfiler_v").number(version);
    void* interface = find(library, name.c_str());
    if (interface != nullptr) return kMakers[version - 1](version, interface);
  }
  return {};
}

}  // namespace rollcall::profiler
