// Adding to the record of an operation what is learned about it after it was called. Inline: the
// profiler plugin does so for every operation, mostly with two or three of the fields.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/atomic_word.h"
#include "core/capture/operations.h"
#include "core/ring/slot.h"

namespace rollcall::capture {

namespace op_detail {
// Neither settled nor gone. In a forked child the mapping behind the token is zeros.
inline bool is_open(OpToken token) noexcept {
  return token.record != nullptr &&
         (ring::slot_holds(token.record, token.ticket, Phase::called) ||
          ring::slot_holds(token.record, token.ticket, Phase::gpu_pending));
}
inline void store_once(OpRecord* record, size_t offset, uint64_t value) noexcept {
  ring::store_word_once(record, offset, value);
}
inline void store_once(OpRecord* record, size_t offset, const void* address) noexcept {
  ring::store_word_once(record, offset, uint64_t{reinterpret_cast<uintptr_t>(address)});
}
void store_peer(OpRecord* record, int32_t peer) noexcept;
}  // namespace op_detail

// Fields left at their defaults stay as they are. A peer also gives the operation its p2p seq;
// times, addresses and peer are final once stored.
struct OpDetail {
  uint64_t launched_ticks = 0;
  uint64_t started_ticks = 0;
  uint64_t finished_ticks = 0;
  const void* send = nullptr;
  const void* recv = nullptr;
  int32_t peer = -1;
  uint32_t group = 0;
  uint8_t method = 0;
  uint8_t channels = 0;
};
// False, and nothing is stored, unless the record is held or its call has not returned.
[[gnu::always_inline]] inline bool enrich_op(OpToken token, const OpDetail& detail) noexcept {
  using op_detail::store_once;
  if (!op_detail::is_open(token)) return false;
  OpRecord* record = token.record;
  store_once(record, offsetof(OpRecord, launched_ticks), detail.launched_ticks);
  store_once(record, offsetof(OpRecord, started_ticks), detail.started_ticks);
  store_once(record, offsetof(OpRecord, finished_ticks), detail.finished_ticks);
  store_once(record, offsetof(OpRecord, send_address), detail.send);
  store_once(record, offsetof(OpRecord, recv_address), detail.recv);
  if (detail.method != 0) store_release(record->method, detail.method);
  if (detail.channels != 0) store_release(record->channels, detail.channels);
  if (detail.group != 0) store_release(record->group, detail.group);
  if (detail.peer >= 0) op_detail::store_peer(record, detail.peer);
  return true;
}

}  // namespace rollcall::capture
