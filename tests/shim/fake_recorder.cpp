#include "tests/shim/fake_recorder.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "core/capture/stack_file.h"

namespace rollcall::fake {
namespace {
std::mutex g_lock;
std::atomic<uint32_t> g_groups{0};
thread_local uint32_t t_depth = 0, t_group = 0, t_operations = 0;
OpRecord g_op_record;
EventRecord g_event_record;
}  // namespace

Recorder& recorder() {
  static Recorder* instance = new Recorder;
  return *instance;
}
void reset() {
  recorder() = Recorder{};
  t_depth = t_group = t_operations = 0;
}
std::vector<Event> Recorder::events_of(EventKind kind) const {
  std::vector<Event> result;
  for (const Event& event : events)
    if (event.kind == kind) result.push_back(event);
  return result;
}

}  // namespace rollcall::fake

namespace rollcall::capture {
using namespace rollcall::fake;

bool enabled() noexcept { return recorder().recording; }

OpToken begin_op(const OpCall& call) noexcept {
  std::lock_guard lock(g_lock);
  if (!recorder().recording) return {};
  if (call.kind != OpKind::GroupEnd && call.group != 0) ++t_operations;
  recorder().ops.push_back({call, recorder().ops.size() + 1, kResultUnknown});
  return {&g_op_record, recorder().ops.size()};
}
void end_op(OpToken token, int result) noexcept {
  std::lock_guard lock(g_lock);
  if (token.record != nullptr) recorder().ops[token.ticket - 1].result = result;
}

AskedCalls before_asking(uint32_t) noexcept {
  std::lock_guard lock(g_lock);
  return {nullptr, ++recorder().questions};
}
void calls_settled(const AskedCalls& asked, uint32_t comm_index, bool is_launched) noexcept {
  std::lock_guard lock(g_lock);
  recorder().settled.push_back({comm_index, is_launched, asked.name});
}

EventToken begin_event(const EventCall& call) noexcept {
  std::lock_guard lock(g_lock);
  if (!recorder().recording) return {};
  Event event;
  event.kind = call.kind;
  event.comm_index = call.comm_index;
  memcpy(event.arguments, call.arguments, sizeof(event.arguments));
  if (call.text != nullptr) event.text = call.text;
  recorder().events.push_back(event);
  return {&g_event_record, recorder().events.size()};
}
void end_event(EventToken token, int result, const char* text) noexcept {
  std::lock_guard lock(g_lock);
  if (token.record == nullptr) return;
  recorder().events[token.ticket - 1].result = result;
  if (text != nullptr) recorder().events[token.ticket - 1].text = text;
}
void note_event(const EventCall& call, int result) noexcept {
  end_event(begin_event(call), result, nullptr);
}

void graph_captures_into(void*) noexcept {}
void graph_cloned(void*, void*) noexcept {}
void graph_destroyed(void*) noexcept {}
void graph_refused(void*, int) noexcept {}
ContextEnd begin_context_end(void*) noexcept { return {}; }
ContextEnd begin_primary_end(int, bool) noexcept { return {}; }
void finish_context_end(ContextEnd) noexcept {}
void graph_instantiated(const void*, void*) noexcept {}
void graph_executable_destroyed(const void*) noexcept {}
void graph_launches_watched() noexcept {}
OpToken begin_graph_launch(const void*, const void*) noexcept { return {}; }
void refuse_graph_launch(const void*) noexcept {}

uint32_t open_comm(const CommOpening& opening) noexcept {
  std::lock_guard lock(g_lock);
  if (!recorder().recording || !recorder().has_room) return kCommUnknown;
  CommRecord record;
  record.entry.state = static_cast<uint32_t>(CommState::initialising);
  record.entry.origin = opening.origin;
  record.entry.non_blocking = opening.non_blocking;
  record.entry.key = opening.key;
  record.entry.parent_key = opening.parent_key;
  record.entry.parent_index = opening.parent_index;
  record.entry.child_number = opening.child_number;
  record.entry.nranks = opening.nranks;
  record.entry.rank = opening.rank;
  record.entry.device = opening.device;
  record.entry.colour = opening.colour;
  record.entry.split_key = opening.split_key;
  if (opening.name != nullptr) record.name = opening.name;
  recorder().comms.reserve(64);  // comm_entry hands out addresses
  recorder().comms.push_back(record);
  return static_cast<uint32_t>(recorder().comms.size() - 1);
}
void bind_comm(uint32_t index, const void* handle) noexcept {
  std::lock_guard lock(g_lock);
  const uint64_t value = reinterpret_cast<uint64_t>(handle);
  for (CommRecord& comm : recorder().comms)
    if (comm.entry.handle == value) comm.entry.handle = 0;
  if (index < recorder().comms.size()) recorder().comms[index].entry.handle = value;
}
void comm_ready(uint32_t index, int nranks, int rank, int device, uint64_t) noexcept {
  std::lock_guard lock(g_lock);
  if (index >= recorder().comms.size()) return;
  CommEntry& entry = recorder().comms[index].entry;
  entry.state = static_cast<uint32_t>(CommState::ready);
  if (nranks >= 0) entry.nranks = nranks;
  if (rank >= 0) entry.rank = rank;
  if (device >= 0) entry.device = device;
}
void close_comm(uint32_t index, CommState state) noexcept {
  std::lock_guard lock(g_lock);
  if (index >= recorder().comms.size()) return;
  CommEntry& entry = recorder().comms[index].entry;
  entry.state = static_cast<uint32_t>(state);
  if (state == CommState::destroyed || state == CommState::aborted) entry.handle = 0;
}
uint32_t find_comm(const void* handle) noexcept {
  std::lock_guard lock(g_lock);
  const uint64_t value = reinterpret_cast<uint64_t>(handle);
  for (size_t i = 0; i < recorder().comms.size(); ++i)
    if (value != 0 && recorder().comms[i].entry.handle == value) return static_cast<uint32_t>(i);
  return kCommUnknown;
}
const CommEntry* comm_entry(uint32_t index) noexcept {
  return index < recorder().comms.size() ? &recorder().comms[index].entry : nullptr;
}
uint32_t next_child_number(uint32_t parent_index) noexcept {
  return parent_index < recorder().comms.size() ? recorder().comms[parent_index].children++ : 0;
}
bool async_state_changed(uint32_t index, int state, int* previous) noexcept {
  CommEntry& entry = recorder().comms[index].entry;
  *previous = static_cast<int>(entry.async_state);
  entry.async_state = static_cast<uint64_t>(state);
  return *previous != state;
}

uint32_t group_enter() noexcept {
  if (t_depth++ == 0) {
    t_group = ++g_groups;
    t_operations = 0;
  }
  return t_group;
}
uint32_t group_leave(uint32_t* operations) noexcept {
  if (t_depth == 0 || --t_depth != 0) return 0;
  const uint32_t group = t_group;
  if (operations != nullptr) *operations = t_operations;
  t_group = 0;
  return group;
}
uint32_t current_group() noexcept { return t_group; }
void group_simulated(uint32_t group) noexcept { recorder().simulated_groups.push_back(group); }
void set_gpu_symbols(void* (*)(const char* name)) noexcept {}
void set_frame_source(FrameSource) noexcept {}
void StackFile::line(std::string_view, std::string_view) noexcept {}
void StackFile::line(std::string_view, uint64_t) noexcept {}
uint32_t process_number() noexcept { return 0; }

void add_meta(const char* key, const char* value) noexcept {
  std::lock_guard lock(g_lock);
  recorder().meta.push_back(std::string(key) + "=" + value);
}
bool add_file_meta(const char* key, const char* value) noexcept {
  add_meta(key, value);
  return true;
}
void add_coverage(const char* path) noexcept {
  std::lock_guard lock(g_lock);
  recorder().coverage.push_back(path);
}
void count_nested_call() noexcept { ++recorder().nested_calls; }
void fail_check(const char* file, int line, const char* text) noexcept {
  fprintf(stderr, "%s:%d: %s\n", file, line, text);
}
void flush_at_exit() noexcept;        // recorder_log.cpp
void note_immediate_exit() noexcept;  // recorder_log.cpp
}  // namespace rollcall::capture
