// Groups of fields that several versions lay out alike: from descriptor to Event.
#pragma once

#include "profiler_plugin/descriptors.h"
#include "profiler_plugin/event.h"

namespace rollcall::profiler {

inline void take_proxy_op(Event& event, const ProxyOpFields& from) noexcept {
  event.pid = from.pid;
  event.channel = from.channel;
  event.root_or_peer = from.peer;
  event.steps = from.steps;
  event.chunk_bytes = from.chunk_bytes;
  event.is_send = from.is_send != 0;
}
inline void take_kernel_ch(Event& event, const KernelChFields& from) noexcept {
  event.channel = from.channel;
  event.timer_ns = from.timer_ns;
}
inline void take_net_plugin(Event& event, const NetPluginFields& from) noexcept {
  event.seq_number = static_cast<uint64_t>(from.id);
  event.data = from.data;
}

// Since version 5, and unchanged in 6 and 7 (which append).
inline void take_group_api(Event& event, const GroupApiFields& from) noexcept {
  event.graph_captured = from.graph_captured;
  event.depth = from.depth;
}
inline void take_coll_api(Event& event, const v5::CollApiFields& from) noexcept {
  event.func = from.func;
  event.count = from.count;
  event.datatype = from.datatype;
  event.root_or_peer = from.root;
  event.stream = from.stream;
  event.graph_captured = from.graph_captured;
}
inline void take_p2p_api(Event& event, const v5::P2pApiFields& from) noexcept {
  event.func = from.func;
  event.count = from.count;
  event.datatype = from.datatype;
  event.root_or_peer = -1;  // the call's peer is told with the P2p event
  event.stream = from.stream;
  event.graph_captured = from.graph_captured;
}
inline void take_coll(Event& event, const v5::CollFields& from) noexcept {
  event.seq_number = from.seq_number;
  event.func = from.func;
  event.send = from.send;
  event.recv = from.recv;
  event.count = from.count;
  event.root_or_peer = from.root;
  event.datatype = from.datatype;
  event.channels = from.channels;
  event.warps = from.warps;
  event.algorithm = from.algorithm;
  event.protocol = from.protocol;
  event.parent_group = from.parent_group;
}
inline void take_p2p(Event& event, const v5::P2pFields& from) noexcept {
  event.func = from.func;
  event.send = from.buffer;
  event.datatype = from.datatype;
  event.count = from.count;
  event.root_or_peer = from.peer;
  event.channels = from.channels;
  event.parent_group = from.parent_group;
}
inline void take_ce_coll(Event& event, const v6::CeCollFields& from) noexcept {
  event.seq_number = from.seq_number;
  event.func = from.func;
  event.send = from.send;
  event.recv = from.recv;
  event.count = from.count;
  event.root_or_peer = from.root;
  event.datatype = from.datatype;
  event.text = from.sync_strategy;
  event.is_set = from.intra_batch_sync;
  event.ce_words[0] = from.batch_size;
  event.ce_words[1] = from.batches;
  event.ce_words[2] = from.ce_seq_number;
  event.stream = from.stream;
}
inline void take_ce_sync(Event& event, const CeSyncFields& from) noexcept {
  event.is_set = from.is_complete;
  event.depth = from.ranks;
}
inline void take_ce_batch(Event& event, const CeBatchFields& from) noexcept {
  event.depth = from.operations;
  event.count = from.bytes;
  event.is_set = from.use_intra_sync;
}

}  // namespace rollcall::profiler
