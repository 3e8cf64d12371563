// What is learned about an operation by others than its caller, and when its record is settled.
#include "core/capture/op_detail.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/capture/live.h"
#include "core/format/record_check.h"

namespace rollcall::capture {

namespace {

using op_detail::is_open;

uint64_t word_of_address(const void* address) noexcept {
  return reinterpret_cast<uintptr_t>(address);
}

bool fits(const OpRecord& record, const OpSignature& wanted) noexcept {
  if (record.kind != wanted.kind) return false;
  if (wanted.comm_index != kCommUnknown && record.comm_index != wanted.comm_index) return false;
  if (wanted.peer >= 0 && record.root_or_peer != wanted.peer) return false;
  if (wanted.send != nullptr && record.send_address != word_of_address(wanted.send)) return false;
  if (wanted.recv != nullptr && record.recv_address != word_of_address(wanted.recv)) return false;
  const uint64_t element_bytes = bytes_of_datatype(record.datatype);
  if (element_bytes == 0) return true;
  if (wanted.element_bytes == 0) return element_bytes == 1 && record.count == wanted.count;
  return record.count * element_bytes == wanted.count * wanted.element_bytes;
}

// Of two operations whose tickets share the place the newer one keeps it; where they are told of at
// the same time, the first. The other is in the sums alone.
void store_phases(KernelPhasesEntry& entry, uint64_t ticket, const OpPhases& phases) noexcept {
  uint64_t before = load_relaxed(entry.ticket);
  if (before == kKernelPhasesChanging || before > ticket ||
      !__atomic_compare_exchange_n(&entry.ticket, &before, kKernelPhasesChanging, false,
                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    return;
  }
  for (size_t i = 0; i < kKernelPhaseCount; ++i) store_release(entry.ns[i], phases.ns[i]);
  store_release(entry.ticket, ticket);
}

// The records of one group, on the thread that called them: nobody writes to them meanwhile.
// Tickets that found their slots taken were passed over, so a slot may hold one from more than a
// ring ago.
template <class Visit>
void visit_group(uint64_t first, uint64_t end, uint32_t group, Visit&& visit) noexcept {
  const uint64_t slots = std::min(end - first, live.ops.mask + 1);
  for (uint64_t i = first; i < first + slots; ++i) {
    OpRecord* record = &live.ops.records[i & live.ops.mask];
    const OpToken token{record, ticket_of(load_acquire(record->publish))};
    if (token.ticket < first || token.ticket >= end || !is_open(token)) continue;
    if (load_relaxed(record->group) != group) continue;
    if (visit(token)) return;
  }
}

// Those of a group that hold_groups() has held.
void release_operations(uint64_t first, uint64_t end, uint32_t group) noexcept {
  visit_group(first, end, group, [](OpToken token) {
    release_op(token);
    return false;
  });
}

// As it was before the call, unless somebody has called since. Of a copy: what the job has
// scribbled over gives nothing back.
void give_back_position(const OpRecord& record) noexcept {
  if (!record_is_valid(record, RecordBounds{})) return;
  const uint32_t comm_index = record.comm_index;
  const OpFamily family = traits_of(record.kind).family;
  if (comm_index == kCommUnknown || family == OpFamily::mark) return;
  CommEntry& comm = live.comms[comm_index];
  if (family == OpFamily::coll) {
    replace_relaxed(comm.collectives, record.seq + 1, record.seq);
    return;
  }
  if (family == OpFamily::p2p) {
    add_relaxed(record.kind == OpKind::Send ? comm.sends : comm.recvs, ~uint64_t{0});
  }
  if ((record.flags & kOpSeqUnknown) != 0) return;
  give_back_p2p_seq(comm_index, record.root_or_peer, counter_of(record.kind), record.seq,
                    steps_of(record.kind, record.count));
}

// Pinned meanwhile, so that nobody takes the slot of a settled record.
void mark_simulated(OpToken token) noexcept {
  uint64_t& publish = token.record->publish;
  const bool was_settled = replace_relaxed(publish, publish_word(token.ticket, Phase::settled),
                                           publish_word(token.ticket, Phase::gpu_pending));
  if (!was_settled && !hold_op(token)) return;
  __atomic_fetch_or(&token.record->flags, kOpSimulated, __ATOMIC_RELEASE);
  give_back_position(copy_record(*token.record).record);
  if (was_settled) {
    ring::publish_slot(token.record, token.ticket, Phase::settled);
  } else {
    release_op(token);
  }
}

}  // namespace

void op_detail::store_peer(OpRecord* record, int32_t peer) noexcept {
  const uint32_t comm_index = load_relaxed(record->comm_index);  // untrusted, as the rest of it
  const uint8_t flags = load_relaxed(record->flags);
  if (comm_index >= kCommsMax || (flags & kOpSeqUnknown) == 0) return;
  uint64_t seq = 0;
  if (!next_p2p_seq(comm_index, peer, counter_of(record->kind), seq)) {
    count(live.stats->seq_unknown);
    return;
  }
  ring::store_word(record, offsetof(OpRecord, seq), seq);
  ring::store_word(record, offsetof(OpRecord, comm_index),
                   ring::word_of(comm_index, static_cast<uint32_t>(peer)));
  store_release(record->flags, static_cast<uint8_t>(flags & ~kOpSeqUnknown));
}

bool hold_op(OpToken token) noexcept {
  if (!is_open(token)) return false;
  holds_of(token.ticket).fetch_add(1, std::memory_order_acq_rel);
  return true;
}

bool hold_current_op() noexcept {
  const OpToken token = this_thread.call;
  if (!this_thread.in_call || !is_open(token)) return false;
  std::atomic<uint32_t>& holds = holds_of(token.ticket);
  // The call's own, which no other thread touches: no locked instruction, as nearly always.
  // Acquired, for another thread may have let go of an earlier hold: what it wrote comes before the
  // last one.
  if (__builtin_expect(holds.load(std::memory_order_acquire) == 1, 1)) {
    holds.store(2, std::memory_order_relaxed);
  } else {
    holds.fetch_add(1, std::memory_order_acq_rel);
  }
  return true;
}

void release_op(OpToken token) noexcept {
  if (!is_open(token)) return;
  // The call counts as one hold until it has returned, so the last one finds it returned. Nobody
  // takes one where this is the last.
  std::atomic<uint32_t>& holds = holds_of(token.ticket);
  if (holds.load(std::memory_order_acquire) == 1 ||
      holds.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    ring::publish_slot(token.record, token.ticket, Phase::settled);
  }
}

void note_captured(OpToken token) noexcept {
  const bool has_numbers = live.gpu.load(std::memory_order_acquire) != nullptr;
  if (!has_numbers && is_open(token)) store_release(token.record->graph, uint32_t{1});
}

CurrentCall current_call() noexcept {
  const ThreadState& thread = this_thread;
  return thread.in_call ? CurrentCall{true, thread.call} : CurrentCall{};
}

void keep_op_phases(OpToken token, const OpPhases& phases) noexcept {
  if (!is_open(token)) return;
  store_phases(live.kernel_phases[token.ticket & (kKernelPhaseSlots - 1)], token.ticket, phases);
  const uint32_t comm_index = load_relaxed(token.record->comm_index);
  if (comm_index >= kCommsMax) return;
  CommEntry& comm = live.comms[comm_index];
  for (size_t i = 0; i < kKernelPhaseCount; ++i) add_relaxed(comm.phase_ns[i], phases.ns[i]);
  add_relaxed(comm.phased_operations, uint64_t{1});
}

OpToken find_in_ended_group(const OpSignature& signature) noexcept {
  ThreadState& thread = this_thread;
  const OpToken end = thread.call;
  if (!thread.in_call || !is_open(end) || end.record->kind != OpKind::GroupEnd) return {};
  const uint32_t group = end.record->group;
  OpToken found;
  const auto visit = [&](OpToken token) {
    if (load_relaxed(token.record->launched_ticks) != 0) return false;  // found before
    if (!fits(*token.record, signature)) return false;
    found = token;
    return true;
  };
  // NCCL mostly launches in the order of the calls: begin behind the one that was found last.
  visit_group(thread.group_cursor, end.ticket, group, visit);
  if (found.record == nullptr) {
    visit_group(thread.group_first_ticket, thread.group_cursor, group, visit);
  }
  if (found.record != nullptr) thread.group_cursor = found.ticket + 1;
  return found;
}

void release_group(ThreadState& thread, OpToken group_end) noexcept {
  const uint32_t group = group_end.record->group;
  if (!live.holds_groups.load(std::memory_order_relaxed) || group == 0) return;
  release_operations(thread.group_first_ticket, group_end.ticket, group);
  release_op(group_end);
}

void release_unended_group(uint32_t group) noexcept {
  if (!live.holds_groups.load(std::memory_order_relaxed) || group == 0) return;
  const uint64_t first = this_thread.group_first_ticket;
  release_operations(first, load_relaxed(*live.ops.next_ticket), group);
}

void group_simulated(uint32_t group) noexcept {
  ThreadState& thread = this_thread;
  group_abandoned();
  if (!enter(thread) || group == 0) return;
  const uint64_t end = load_relaxed(*live.ops.next_ticket);
  const uint64_t slots = live.ops.mask + 1;
  const uint64_t begun = thread.group_first_ticket;
  const uint64_t first = std::max(begun, end > slots ? end - slots : 1);
  // The newest first: it has the position that its communicator's counter stands behind.
  for (uint64_t ticket = end; ticket-- > first;) {
    OpRecord* record = &live.ops.records[ticket & live.ops.mask];
    if (ticket_of(load_acquire(record->publish)) != ticket) continue;
    if (load_relaxed(record->group) == group) mark_simulated({record, ticket});
  }
  release_unended_group(group);
}

void hold_groups() noexcept {
  if (enter(this_thread)) live.holds_groups.store(true, std::memory_order_relaxed);
}

uint32_t comm_of(OpToken token) noexcept {
  if (!is_open(token)) return kCommUnknown;
  const uint32_t index_untrusted = load_relaxed(token.record->comm_index);
  return comm_entry(index_untrusted) != nullptr ? index_untrusted : kCommUnknown;
}

bool creation_is_watched() noexcept {
  if (!enter(this_thread)) return false;
  if (live.watches_unlisted.load(std::memory_order_relaxed)) return true;
  for (uint32_t index = 0; const CommEntry* entry = comm_entry(index); ++index) {
    const bool pending =
        load_acquire(entry->state) == static_cast<uint32_t>(CommState::initialising);
    // What the plugin opens itself has no origin.
    if (pending && entry->origin != CommOrigin::unknown) return true;
  }
  return false;
}

}  // namespace rollcall::capture
