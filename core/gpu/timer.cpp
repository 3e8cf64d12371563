#include "core/gpu/timer.h"

#include <algorithm>

#include "core/base/atomic_word.h"
#include "core/base/clock.h"
#include "core/base/keep_errno.h"
#include "core/gpu/common_sample.h"
#include "core/gpu/in_context.h"
#include "core/gpu/marks.h"

namespace rollcall::gpu {

namespace {

// So many marks of a thread make a window.
constexpr uint32_t kWindowMarks = 64;
constexpr uint32_t kSkipShiftMax = 10;

int device_of(const CommEntry* comm) noexcept {
  return comm != nullptr ? load_relaxed(comm->device) : -1;
}

void count(uint64_t& statistic) noexcept { add_relaxed(statistic, uint64_t{1}); }

}  // namespace

void Timer::begin(const Options& options) noexcept {
  asked_.driver = options.driver;
  stats_ = options.stats;
  records_.begin({.ops = options.ops,
                  .stats = options.stats,
                  .holds = options.holds,
                  .in_flight_max = options.in_flight_max});
  budget_percent_ = options.budget_percent;
  preparing_ = PTHREAD_MUTEX_INITIALIZER;
  events_.begin(asked_, records_, stopped_);
  marks_graphs_ = options.marks_graphs;
  progress_ = options.progress;
  activity_ = options.activity;
  if (activity_ != nullptr) activity_->begin(options.activity_source, records_);
  words_.begin(asked_.driver, reinterpret_cast<char*>(options.graphs), options.word_bytes,
               options.words_in_memory);
  captures_.begin(options.graphs, options.stats);
}

// --- sampling ------------------------------------------------------------------------------------

bool Timer::is_sampled_out(Thread& thread, uint64_t hash) noexcept {
  if (!is_sampling(thread)) return false;
  return !is_in_sample(hash != 0 ? hash : ++thread.calls, thread.skip_shift);
}

// The rate at which marks cost what the budget has. At once, as far as the cheapest mark of the
// window says: step by step a job's first 64 marks at each of ten rates would be over the budget.
// Of the rest one step, for it may be the processor that was away.
void Timer::adapt(Thread& thread, uint64_t now_ticks) noexcept {
  const double spent = static_cast<double>(thread.mark_ticks) * 100;
  double affordable = static_cast<double>(now_ticks - thread.window_ticks) * budget_percent_;
  if (spent > affordable) {
    const double certain = static_cast<double>(thread.cheapest_ticks) * kWindowMarks * 100;
    do {
      ++thread.skip_shift;
      affordable *= 2;
    } while (certain > affordable && thread.skip_shift < kSkipShiftMax);
    thread.skip_shift = std::min(thread.skip_shift, kSkipShiftMax);
  } else if (spent * 4 < affordable && thread.skip_shift != 0) {
    --thread.skip_shift;
  }
}

// A mark is complete: what it took behind the operation, 0 where it is not measured, and for how
// many it stands.
void Timer::note_cost(Thread& thread, uint64_t behind_ticks, uint64_t stands_for) noexcept {
  if (budget_percent_ >= 100) return;
  const uint64_t whole_ticks = thread.front_ticks + behind_ticks;
  thread.front_ticks = 0;
  if (whole_ticks != 0) {
    thread.mark_ticks += whole_ticks * stands_for;
    const bool is_cheapest = thread.cheapest_ticks == 0 || whole_ticks < thread.cheapest_ticks;
    if (is_cheapest) thread.cheapest_ticks = whole_ticks;
  }
  if (thread.window_ticks == 0) thread.window_ticks = ticks_now();
  if (++thread.marks < kWindowMarks) return;
  const uint64_t now_ticks = ticks_now();
  adapt(thread, now_ticks);
  thread.marks = 0;
  thread.mark_ticks = 0;
  thread.cheapest_ticks = 0;
  thread.window_ticks = now_ticks;
}

void Timer::hand_over_sampled_out(Thread& thread) noexcept {
  // Taken first: a signal handler that ends the process hands over, too.
  const uint64_t kept = thread.sampled_out;
  thread.sampled_out = 0;
  add_relaxed(stats_->gpu_sampled_out, kept);
}

// --- the launching thread ------------------------------------------------------------------------

// True when the group of this operation is timed; the first operation of a group decides. The nodes
// of a capture cost nothing when they are replayed, and activity records cost the same whoever asks
// for them: such operations are never left out.
bool Timer::joins_group(Thread& thread, uint32_t group, uint64_t hash, bool is_free) noexcept {
  if (thread.group != nullptr && thread.group->number == group) return true;
  if (thread.untimed_group == group) return false;
  abandon_group(thread);
  thread.untimed_group = group;
  thread.is_group_sampled_out = !is_free && is_sampled_out(thread, hash);
  if (thread.is_group_sampled_out) return false;
  for (Group& place : groups_) {
    uint32_t expected = 0;
    if (!place.is_taken.compare_exchange_strong(expected, 1, std::memory_order_acquire)) continue;
    place.number = group;
    place.entries = 0;
    thread.group = &place;
    thread.untimed_group = 0;
    return true;
  }
  return false;
}

// `status`: whether the stream captures.
void Timer::plan_asked(Thread& thread, Stream stream, uint32_t group, const CommEntry* comm,
                       uint64_t hash, int status, Plan& plan) noexcept {
  if (__builtin_expect(status != 0, 0)) {
    return plan_captured(thread, stream, group, plan);
  }
  if (!records_.has_room()) return;
  if (activity_ != nullptr) {
    plan.has_activity = group == 0 || joins_group(thread, group, hash, true);
    plan.device = device_of(comm);
    return;
  }
  if (group == 0) {
    plan.is_sampled_out = is_sampled_out(thread, hash);
    if (plan.is_sampled_out) return;
  } else if (!joins_group(thread, group, hash, false)) {
    plan.is_sampled_out = thread.is_group_sampled_out;
    return;
  }
  plan.context = events_.context_of(thread.last, stream, device_of(comm));
}

Group::Entry Timer::entry_of(Stream stream, Context* context, uint32_t capture, int device,
                             uint64_t ticket) noexcept {
  return {.stream = stream,
          .context = context,
          .pair = nullptr,
          .first_ticket = ticket,
          .last_ticket = ticket,
          .capture = capture,
          .device = device,
          .lane = {}};
}

bool Timer::add_to_group(Group& group, const Group::Entry& added) noexcept {
  for (uint32_t i = 0; i < group.entries; ++i) {
    Group::Entry& entry = group.entry[i];
    if (entry.stream != added.stream) continue;
    // Default streams of two devices, or a capture that began inside the group.
    if (entry.context != added.context || entry.capture != added.capture) return false;
    if (is_default_stream(entry.stream) && entry.device != added.device) return false;
    entry.device = std::max(entry.device, added.device);
    entry.last_ticket = added.last_ticket;
    return true;
  }
  if (group.entries == kGpuGroupStreamsMax) return false;
  group.entry[group.entries++] = added;
  return true;
}

void Timer::mark_planned(Thread& thread, const Plan& plan, OpRecord* record, uint64_t ticket,
                         Stream stream, uint32_t group) noexcept {
  thread.answers = open_ends_.answers();
  if (plan.graph != 0) return mark_captured(thread, plan, ticket, stream, group);
  if (plan.has_activity) return mark_region(thread, plan, record, ticket, stream, group);
  if (plan.context == nullptr) {
    Records::note_untimed(record, stats_->gpu_untimed);
    return;
  }
  if (group != 0) {
    if (thread.group != nullptr &&
        add_to_group(*thread.group, entry_of(stream, plan.context, kNoCapture, -1, ticket))) {
      thread.ticket = ticket;
    } else {
      Records::note_untimed(record, stats_->gpu_untimed);
    }
    return;
  }
  const bool is_measured = thread.marks % kMeasuredMarks == 0 && budget_percent_ < 100;
  const uint64_t before = is_measured ? ticks_now() : 0;
  thread.pair =
      events_.open(thread.last, *plan.context, stream, load_relaxed(record->called_ticks));
  if (is_measured) thread.front_ticks = ticks_now() - before;
  if (thread.pair == nullptr) {
    Records::note_untimed(record, stats_->gpu_untimed);
    return;
  }
  write_progress(stream, ticket, GpuMark::started);
  thread.ticket = ticket;
}

bool Timer::close_marked(Thread& thread, OpRecord* record, uint64_t ticket,
                         Launch launch) noexcept {
  const bool has_mark = thread.pair != nullptr || thread.lane.position != nullptr;
  if (launch == Launch::in_progress && has_mark) return keep_open(thread, record, ticket);
  const bool is_launched = launch != Launch::refused;
  thread.ticket = 0;
  if (thread.lane.position != nullptr) {
    put_mark(thread.lane_stream, thread.lane, thread.lane.finished());
    thread.lane = {};
    return false;
  }
  if (thread.region != nullptr) return close_region(thread, record, is_launched);
  if (thread.pair == nullptr) {  // of a group: its marks are around the end of the group
    if (is_launched && records_.has_room()) {
      records_.await();
      return true;
    }
    Records::note_untimed(record, stats_->gpu_untimed);
    return false;
  }
  Pair& pair = *thread.pair;
  const bool is_measured = thread.marks % kMeasuredMarks == 0 && budget_percent_ < 100;
  const uint64_t before = is_measured ? ticks_now() : 0;
  write_progress(pair.stream, ticket, GpuMark::finished);
  const bool is_closed = is_launched && !is_stopped() && events_.close(pair);
  note_cost(thread, is_measured ? ticks_now() - before : 0, kMeasuredMarks);
  if (!is_closed) {
    abandon_call(thread);
    Records::note_untimed(record, stats_->gpu_untimed);
    return false;
  }
  pair.group = 0;
  pair.first_ticket = pair.last_ticket = ticket;
  records_.await();
  return true;
}

void Timer::opened(Thread& thread) noexcept {
  if (thread.region != nullptr) {
    activity_->fly(*thread.region);
    thread.region = nullptr;
  }
  if (__builtin_expect(thread.filled_end != nullptr, 0)) return open_filled(thread);
  if (thread.pair == nullptr) return;
  events_.fly(*thread.pair);
  thread.pair = nullptr;
}

void Timer::abandon_call(Thread& thread) noexcept {
  if (thread.region != nullptr) finish_region(thread, false);
  if (thread.pair != nullptr) events_.abandon(*thread.pair);
  thread.pair = nullptr;
  thread.lane = {};
  thread.ticket = 0;
}

// --- groups --------------------------------------------------------------------------------------

void Timer::mark_group_start(Thread& thread, uint32_t group) noexcept {
  if (thread.group->number != group || is_stopped()) return abandon_group(thread);
  thread.answers = open_ends_.answers();
  const uint64_t before = ticks_now();
  for (uint32_t i = 0; i < thread.group->entries; ++i) {
    Group::Entry& entry = thread.group->entry[i];
    if (entry.capture != kNoCapture) {
      entry.lane = captures_.next_mark(entry.capture, entry.stream);
      if (entry.lane.position != nullptr) {
        put_mark(entry.stream, entry.lane, entry.lane.started());
      }
      continue;
    }
    if (activity_ != nullptr || !events_.is_reachable(*entry.context, entry.stream)) continue;
    entry.pair = events_.open(thread.last, *entry.context, entry.stream, before);
    if (entry.pair == nullptr) continue;
    write_progress(entry.stream, entry.first_ticket, GpuMark::started);
  }
  if (activity_ != nullptr) open_group_region(thread);
  thread.front_ticks = ticks_now() - before;
}

void Timer::mark_group_end(Thread& thread, Launch launch) noexcept {
  if (launch == Launch::in_progress && thread.region == nullptr) return keep_group_open(thread);
  const bool is_launched = launch == Launch::done;
  const bool has_region = thread.region != nullptr && finish_region(thread, is_launched);
  const uint64_t before = ticks_now();
  finish_group(*thread.group, is_launched, has_region, true);
  thread.group = nullptr;
  note_cost(thread, ticks_now() - before, 1);
}

// The marks behind it; its place is free then.
void Timer::finish_group(Group& group, bool is_launched, bool has_region, bool is_own) noexcept {
  for (uint32_t i = 0; i < group.entries; ++i) {
    Group::Entry& entry = group.entry[i];
    if (entry.lane.position != nullptr && is_launched) {
      put_mark(entry.stream, entry.lane, entry.lane.finished());
    }
    if (entry.capture != kNoCapture && !is_launched) give_marks_up(entry);
    Pair* pair = entry.pair;
    if (pair == nullptr) continue;
    if (!is_launched || !record_end(*pair, entry.first_ticket, is_own)) {
      events_.abandon(*pair);
      entry.pair = nullptr;
      continue;
    }
    pair->group = group.number;
    pair->first_ticket = entry.first_ticket;
    pair->last_ticket = entry.last_ticket;
    events_.fly(*pair);
  }
  for (uint32_t i = 0; i < group.entries; ++i) {
    const Group::Entry& entry = group.entry[i];
    if (entry.pair != nullptr || entry.capture != kNoCapture || has_region) continue;
    records_.give_up({entry.first_ticket, entry.last_ticket, group.number, entry.stream});
  }
  group.is_taken.store(0, std::memory_order_release);
}

void Timer::abandon_group(Thread& thread) noexcept { finish_group_end(thread, Launch::refused); }

// --- the polling thread --------------------------------------------------------------------------

void Timer::poll(double ticks_per_ns, bool is_last) noexcept {
  if (is_stopped()) return;
  if (activity_ != nullptr) poll_activity(ticks_per_ns, is_last);
  if (words_state_.load(std::memory_order_acquire) == usable) {
    words_.copy(captures_.entries(), captures_.entry_count());
  }
  events_.poll(ticks_per_ns, is_last);
}

// --- graphs --------------------------------------------------------------------------------------

// The calls are legal on a capturing stream: a question, and no more.
void Timer::plan_captured(Thread& thread, Stream stream, uint32_t group, Plan& plan) noexcept {
  int status = 0;
  uint64_t capture = 0;
  Graph graph = nullptr;
  const bool knows_graph =
      asked_.driver.has_words &&
      ask<&Driver::stream_graph>(stream, &status, &capture, &graph, nullptr, nullptr) == kSuccess;
  if (!knows_graph && ask<&Driver::stream_capture_info>(stream, &status, &capture) != kSuccess) {
    capture = 0;
  }
  const auto number = static_cast<uint32_t>(capture);
  plan.graph = number != 0 ? number : 1;
  if (!knows_graph || capture == 0 || status != kCaptureActive) return;
  plan.capture = captures_.join(capture, graph);
  if (group != 0 && plan.capture != kNoCapture) joins_group(thread, group, 0, true);
}

void Timer::mark_captured(Thread& thread, const Plan& plan, uint64_t ticket, Stream stream,
                          uint32_t group) noexcept {
  if (plan.capture == kNoCapture) return count(stats_->graph_unmarked);
  captures_.add_operation(plan.capture);
  if (!marks_graphs_ || !captures_.may_mark(plan.capture) || !has_words())
    return count(stats_->graph_unmarked);
  if (group != 0) {
    const bool is_in =
        thread.group != nullptr && thread.group->number == group &&
        add_to_group(*thread.group, entry_of(stream, nullptr, plan.capture, -1, ticket));
    if (is_in) return;
    captures_.give_marks_up(plan.capture);
    return count(stats_->graph_unmarked);
  }
  thread.lane = captures_.next_mark(plan.capture, stream);
  if (thread.lane.position == nullptr) return count(stats_->graph_unmarked);
  thread.lane_stream = stream;
  thread.ticket = ticket;
  put_mark(stream, thread.lane, thread.lane.started());
}

// Only where the GPU writes into the file: the events tell the poller as much.
void Timer::write_progress(Stream stream, uint64_t ticket, GpuMark mark) noexcept {
  if (progress_ == nullptr || !has_words() || !words_.is_direct()) return;
  write_word(stream, progress_[records_.slot_of(ticket)], progress_word(ticket, mark));
}

// A write that fails is a mark that is missing: the record says less, the job goes on.
void Timer::write_word(Stream stream, uint64_t& word, uint64_t value) noexcept {
  if (is_stopped()) return;
  if (ask<&Driver::stream_write_value>(stream, words_.address_of(word), value, 0) != kSuccess) {
    count(stats_->gpu_unwritten);
  }
}

// Without one of its marks a graph's positions would say that a replay is where it is not.
void Timer::put_mark(Stream stream, const LaneMark& lane, uint64_t value) noexcept {
  if (is_stopped() || !captures_.may_mark(lane.capture)) return;
  const int result = gpu::put_mark(asked_.driver, stream, captures_.identity_of(lane),
                                   words_.address_of(*lane.position), static_cast<uint32_t>(value),
                                   captures_.newest_mark(lane));
  if (result == kSuccess) return;
  if (result != kMarkRefused) asked_.fault.note(kFunctionName<&Driver::stream_fill>, result);
  captures_.give_marks_up(lane.capture);
  count(stats_->gpu_unwritten);
}

bool Timer::has_words() noexcept {
  if (words_state_.load(std::memory_order_acquire) == untried) prepare_words();
  return words_state_.load(std::memory_order_acquire) == usable;
}

// Once in a process: some hundred microseconds of the launching thread.
void Timer::prepare_words() noexcept {
  const KeepErrno keep;
  pthread_mutex_lock(&preparing_);
  if (words_state_.load(std::memory_order_relaxed) == untried) {
    ContextHandle current = nullptr;
    bool works = ask<&Driver::context_get_current>(&current) == kSuccess && current != nullptr;
    if (works) {
      const InContext inside(asked_.driver, current);
      works = inside.is_current() && words_.prepare();
    }
    words_text_.store(words_.text(), std::memory_order_release);
    words_state_.store(works ? usable : unusable, std::memory_order_release);
  }
  pthread_mutex_unlock(&preparing_);
}

// A graph that is launched into a capture becomes a part of another graph: that one's launches
// count.
Timer::Replay Timer::begin_replay(const void* executable, Stream stream) noexcept {
  const uint32_t number = captures_.find(executable);
  if (number == kNoCapture || is_stopped()) return {};
  int status = 0;
  if (ask<&Driver::stream_is_capturing>(stream, &status) != kSuccess || status != 0) return {};
  return captures_.begin_replay(number);
}

void Timer::refuse_replay(const void* executable) noexcept {
  const uint32_t number = captures_.find(executable);
  if (number != kNoCapture) captures_.refuse_replay(number);
}

}  // namespace rollcall::gpu
