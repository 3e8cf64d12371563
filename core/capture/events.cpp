// Life-cycle events: the same slot protocol as operations, off the hot path.
#include <cstring>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/capture/live.h"
#include "core/capture/tickets.h"

namespace rollcall::capture {

namespace {

void store_body(EventRecord* slot, const EventRecord& event) noexcept {
  uint64_t words[sizeof(EventRecord) / 8];
  std::memcpy(words, &event, sizeof(event));
  for (size_t i = 1; i < sizeof(EventRecord) / 8; ++i) ring::store_word(slot, i * 8, words[i]);
}

void set_text(EventRecord& event, const char* text) noexcept {
  if (text == nullptr) return;
  const size_t bytes = strnlen(text, kEventTextBytes);
  std::memset(event.text, 0, sizeof(event.text));
  std::memcpy(event.text, text, bytes);
  event.text_bytes = static_cast<uint8_t>(bytes);
}

bool is_of_reduction(EventKind kind) noexcept {
  return kind == EventKind::RedOpCreatePreMulSum || kind == EventKind::RedOpDestroy;
}

}  // namespace

EventToken begin_event(const EventCall& call) noexcept {
  ThreadState& thread = this_thread;
  if (!enter(thread)) return {};
  if (is_of_reduction(call.kind)) {
    count(live.stats->reductions);
    if (live.reductions.fetch_add(1, std::memory_order_relaxed) >= kReductionEventsMax) return {};
  }
  EventRecord event{};
  event.called_ticks = ticks_now();
  give_up_tickets(thread);  // this thread's next operation is behind the event
  event.op_ticket = load_relaxed(live.header->next_ticket);
  std::memcpy(event.arguments, call.arguments, sizeof(event.arguments));
  event.caller = reinterpret_cast<uintptr_t>(call.caller);
  event.comm_index = call.comm_index < kCommsMax ? call.comm_index : kCommUnknown;
  event.thread_index = thread.index;
  event.result = kResultUnknown;
  event.kind = call.kind;
  set_text(event, call.text);
  const auto [record, ticket] = ring::claim_slot(live.events);
  if (record == nullptr) {
    count(live.stats->dropped_event);
    return {};
  }
  store_body(record, event);
  ring::publish_slot(record, ticket, Phase::called);
  return {record, ticket};
}

void end_event(EventToken token, int result, const char* text) noexcept {
  if (token.record == nullptr) return;
  if (!ring::slot_holds(token.record, token.ticket, Phase::called)) return;
  if (text != nullptr) {
    // The text changes after the record was published: as when it was first written, the phase says
    // so, and the slot stays pinned.
    EventRecord event;
    uint64_t words[sizeof(EventRecord) / 8];
    for (size_t i = 0; i < sizeof(EventRecord) / 8; ++i) {
      words[i] = __atomic_load_n(words_of(token.record) + i, __ATOMIC_RELAXED);
    }
    std::memcpy(&event, words, sizeof(event));
    set_text(event, text);
    ring::publish_slot(token.record, token.ticket, Phase::writing);
    store_body(token.record, event);
  }
  ring::store_return(token.record, ticks_now(), static_cast<int16_t>(result));
  ring::publish_slot(token.record, token.ticket, Phase::settled);
}

void note_event(const EventCall& call, int result) noexcept {
  end_event(begin_event(call), result);
}

}  // namespace rollcall::capture
