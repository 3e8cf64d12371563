// Which field of a descriptor is which of an Event: one list for all versions and both directions.
// A version that lacks a field leaves it as it is. Version 1 has small numbers where the others
// have names.
#pragma once

#include <type_traits>

#include "profiler_plugin/descriptors.h"
#include "profiler_plugin/event.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/names.h"

namespace rollcall::profiler {

// Widths and signs differ between the two sides, and NCCL's own pointers are not all const.
template <class To, class From>
inline void assign(To& to, const From& from) noexcept {
  if constexpr (std::is_pointer_v<To>) {
    to = const_cast<To>(from);
  } else {
    to = static_cast<To>(from);
  }
}

// From a descriptor to an Event.
struct Take {
  static constexpr bool kTakes = true;
  template <class Field, class Value>
  void operator()(const Field& field, Value& value) const noexcept {
    assign(value, field);
  }
};
// And back.
struct Fill {
  static constexpr bool kTakes = false;
  template <class Field, class Value>
  void operator()(Field& field, const Value& value) const noexcept {
    assign(field, value);
  }
};

template <class Copy, class Field, class Value, class Name, class Number>
inline void copy_named(Copy copy, Field& field, Value& value, Name name_of,
                       Number number_of) noexcept {
  if constexpr (std::is_pointer_v<std::remove_cv_t<Field>>) {
    copy(field, value);
  } else if constexpr (Copy::kTakes) {
    value = name_of(field);
  } else {
    field = number_of(value);
  }
}

// What Coll and P2p share.
template <class Fields, class AnEvent, class Copy>
inline void copy_operation(Fields& fields, AnEvent& event, Copy copy) noexcept {
  if constexpr (requires { fields.name; }) {
    copy(fields.name, event.text);
    copy(fields.comm_hash, event.comm_hash);
  }
  copy_named(copy, fields.func, event.func, func_name_of_v1, func_number_of_v1);
  copy_named(copy, fields.datatype, event.datatype, datatype_name_of_v1, datatype_number_of_v1);
  copy(fields.count, event.count);
  if constexpr (requires { fields.channels; }) copy(fields.channels, event.channels);
  if constexpr (requires { fields.parent_group; }) copy(fields.parent_group, event.parent_group);
  if constexpr (requires { fields.user_tag; }) copy(fields.user_tag, event.user_tag);
}

template <class Fields, class AnEvent, class Copy>
inline void copy_coll(Fields& fields, AnEvent& event, Copy copy) noexcept {
  copy_operation(fields, event, copy);
  copy(fields.seq_number, event.seq_number);
  copy(fields.send, event.send);
  copy(fields.recv, event.recv);
  copy(fields.root, event.root_or_peer);
  copy(fields.warps, event.warps);
  copy_named(copy, fields.algorithm, event.algorithm, algorithm_name_of_v1, algorithm_number_of_v1);
  copy_named(copy, fields.protocol, event.protocol, protocol_name_of_v1, protocol_number_of_v1);
  if constexpr (requires { fields.traffic_bytes; }) {
    copy(fields.traffic_bytes, event.traffic_bytes);
  }
  if constexpr (requires { fields.is_collnet; }) {
    copy(fields.op, event.ce_words[0]);
    copy(fields.is_collnet, event.ce_words[1]);
    copy(fields.is_nvls, event.ce_words[2]);
  }
  if constexpr (requires { fields.kernel_variant; }) {
    copy(fields.kernel_variant, event.kernel_variant);
    copy(fields.is_symmetric, event.is_symmetric);
  }
}

template <class Fields, class AnEvent, class Copy>
inline void copy_p2p(Fields& fields, AnEvent& event, Copy copy) noexcept {
  copy_operation(fields, event, copy);
  copy(fields.buffer, event.send);
  copy(fields.peer, event.root_or_peer);
}

// CollApi and P2pApi. The peer of a call is told with its P2p.
template <class Fields, class AnEvent, class Copy>
inline void copy_call(Fields& fields, AnEvent& event, Copy copy) noexcept {
  copy(fields.func, event.func);
  copy(fields.count, event.count);
  copy(fields.datatype, event.datatype);
  copy(fields.stream, event.stream);
  copy(fields.graph_captured, event.graph_captured);
  if constexpr (requires { fields.user_tag; }) copy(fields.user_tag, event.user_tag);
  if constexpr (requires { fields.root; }) {
    copy(fields.root, event.root_or_peer);
  } else if constexpr (Copy::kTakes) {
    event.root_or_peer = -1;
  }
}

template <class Fields, class AnEvent, class Copy>
inline void copy_proxy_op(Fields& fields, AnEvent& event, Copy copy) noexcept {
  copy(fields.pid, event.pid);
  copy(fields.channel, event.channel);
  copy(fields.peer, event.root_or_peer);
  copy(fields.steps, event.steps);
  copy(fields.chunk_bytes, event.chunk_bytes);
  copy(fields.is_send, event.is_send);
}

template <class Fields, class AnEvent, class Copy>
inline void copy_kernel(Fields& fields, AnEvent& event, Copy copy) noexcept {
  copy(fields.channel, event.channel);
  if constexpr (requires { fields.timer_ns; }) copy(fields.timer_ns, event.timer_ns);
  if constexpr (requires { fields.phase; }) {
    copy(fields.phase, event.phase);
    copy(fields.phase_name, event.text);
  }
}

template <class Fields, class AnEvent, class Copy>
inline void copy_ce_coll(Fields& fields, AnEvent& event, Copy copy) noexcept {
  copy(fields.seq_number, event.seq_number);
  copy(fields.func, event.func);
  copy(fields.send, event.send);
  copy(fields.recv, event.recv);
  copy(fields.count, event.count);
  copy(fields.root, event.root_or_peer);
  copy(fields.datatype, event.datatype);
  copy(fields.sync_strategy, event.text);
  copy(fields.intra_batch_sync, event.is_set);
  copy(fields.batch_size, event.ce_words[0]);
  copy(fields.batches, event.ce_words[1]);
  copy(fields.ce_seq_number, event.ce_words[2]);
  copy(fields.stream, event.stream);
  if constexpr (requires { fields.user_tag; }) copy(fields.user_tag, event.user_tag);
}

// Types that came with version 5, 6 and 7.
template <class Descriptor, class AnEvent, class Copy>
[[gnu::always_inline]] inline void copy_newer(Descriptor& descriptor, AnEvent& event,
                                              Copy copy) noexcept {
  if constexpr (requires { descriptor.group_api; }) {
    if (event.type == kGroupApi) {
      copy(descriptor.group_api.graph_captured, event.graph_captured);
      copy(descriptor.group_api.depth, event.depth);
    }
    if (event.type == kCollApi) copy_call(descriptor.coll_api, event, copy);
    if (event.type == kP2pApi) copy_call(descriptor.p2p_api, event, copy);
    if (event.type == kKernelLaunch) copy(descriptor.kernel_launch.stream, event.stream);
  }
  if constexpr (requires { descriptor.ce_coll; }) {
    if (event.type == kCeColl) copy_ce_coll(descriptor.ce_coll, event, copy);
    if (event.type == kCeSync) {
      copy(descriptor.ce_sync.is_complete, event.is_set);
      copy(descriptor.ce_sync.ranks, event.depth);
    }
    if (event.type == kCeBatch) {
      copy(descriptor.ce_batch.operations, event.depth);
      copy(descriptor.ce_batch.bytes, event.count);
      copy(descriptor.ce_batch.use_intra_sync, event.is_set);
    }
  }
  if constexpr (requires { descriptor.kernel_phase; }) {
    if (event.type == kKernelPhase) copy_kernel(descriptor.kernel_phase, event, copy);
  }
}

// By the event's type. Group and ProxyCtrl have nothing but that.
template <class Descriptor, class AnEvent, class Copy>
[[gnu::always_inline]] inline void copy_fields(Descriptor& descriptor, AnEvent& event,
                                               Copy copy) noexcept {
  switch (event.type) {
    case kColl:
      return copy_coll(descriptor.coll, event, copy);
    case kP2p:
      return copy_p2p(descriptor.p2p, event, copy);
    case kProxyOp:
      return copy_proxy_op(descriptor.proxy_op, event, copy);
    case kProxyStep:
      return copy(descriptor.proxy_step.step, event.steps);
    case kKernelCh:
      if constexpr (requires { descriptor.kernel_ch; }) {
        copy_kernel(descriptor.kernel_ch, event, copy);
      }
      return;
    case kNetPlugin:
      if constexpr (requires { descriptor.net_plugin; }) {
        copy(descriptor.net_plugin.id, event.seq_number);
        copy(descriptor.net_plugin.data, event.data);
      }
      return;
    default:
      return copy_newer(descriptor, event, copy);
  }
}

// What GroupApi and ProxyStep have besides type and parent.
inline int32_t depth_of(const Event& from) noexcept { return from.depth; }
inline int32_t step_of(const Event& from) noexcept { return from.steps; }
template <class Descriptor>
inline int32_t depth_of(const Descriptor& from) noexcept {
  if constexpr (requires { from.group_api; }) return from.group_api.depth;
  return 0;
}
template <class Descriptor>
inline int32_t step_of(const Descriptor& from) noexcept {
  return from.proxy_step.step;
}

// Without what this plugin does not ask for. A field that NCCL has set to zero with the rest of the
// descriptor, and not by itself, is only there when all stores before it are through. `type` is a
// constant where the compiler is to leave out what other types have.
template <class Descriptor>
[[gnu::always_inline]] inline Event own_event_of(const Descriptor& from, uint32_t type) noexcept {
  Event event{.type = type, .parent = from.parent};
  if constexpr (requires { from.coll.comm_hash; }) event.rank = from.rank;
  copy_fields(from, event, Take{});
  return event;
}
inline const Event& own_event_of(const Event& event, uint32_t) noexcept { return event; }

// 0: not one of ours.
template <class From>
inline uint32_t type_of(const From& from) noexcept {
  return from.type <= kAllEvents ? static_cast<uint32_t>(from.type) : 0;
}
// Everything, as a chained plugin gets it.
template <class Descriptor>
inline Event event_of(const Descriptor& from) noexcept {
  Event event = own_event_of(from, type_of(from));
  event.rank = from.rank;
  return event;
}

template <class Descriptor>
inline Descriptor descriptor_of(const Event& from) noexcept {
  Descriptor descriptor{};
  assign(descriptor.type, from.type);
  descriptor.parent = from.parent;
  descriptor.rank = from.rank;
  copy_fields(descriptor, from, Fill{});
  return descriptor;
}

}  // namespace rollcall::profiler
