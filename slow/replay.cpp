#include "slow/replay.h"

#include <algorithm>
#include <numeric>

namespace rollcall::slow {
namespace {

constexpr uint32_t kEnd = 0x80000000;
// A GPU that had its work less than this before it began waited for its host.
constexpr int32_t kShortLeadNs = 20'000;
// A send that took so much longer than the transfer waited for its receiver.
constexpr int64_t kWaitedNs = 5'000;

// Times of a damaged file may add up to anything: here they end.
int64_t later(int64_t time_ns, int64_t span_ns) {
  constexpr int64_t kEndOfTimeNs = INT64_MAX / 4;
  return std::min(time_ns + std::min(span_ns, kEndOfTimeNs), kEndOfTimeNs);
}

// What of the span lies behind `until_ns`.
int64_t behind(int64_t from_ns, int64_t to_ns, int64_t until_ns) {
  return std::max<int64_t>(to_ns - std::max(from_ns, until_ns), 0);
}

}  // namespace

int64_t Charges::total_ns() const {
  int64_t sum = unrecorded_ns;
  for (const auto* part : {&own_ns, &launch_ns, &transfer_ns}) {
    sum = std::accumulate(part->begin(), part->end(), sum);
  }
  return sum;
}

Replay::Replay(const Timeline& timeline, const Steps& steps, const OwnTimes& own_times)
    : timeline_(timeline), steps_(steps), own_times_(own_times) {
  for (const Meeting& meeting : timeline.meetings) transfer_ns_.push_back(meeting.transfer_ns);
  first_wait_.push_back(0);
  std::vector<uint32_t> units;
  for (uint32_t u = 0; u < timeline.units.size(); ++u) {
    uint32_t base = kNone;
    if (timeline.units[u].is_timed()) {
      own_times.waits_of(u, units);
      waits_.insert(waits_.end(), units.begin(), units.end());
      base = own_times.base_of(u);
      if (base != kNone && !own_times.is_from_arrival(u)) base |= kEnd;
    }
    bases_.push_back(base);
    first_wait_.push_back(static_cast<uint32_t>(waits_.size()));
  }
  arrived_ns_.resize(timeline.units.size());
  finished_ns_.resize(timeline.units.size());
  last_to_come_.resize(timeline.meetings.size());
  put_in_order();
}

// Who sends may be through before the others have come, if the data fits the buffers. Whoever took
// longer than the transfer has waited all the same.
Replay::Need Replay::need_of(uint32_t unit, const Meeting& meeting) const {
  const bool is_first = timeline_.seats[meeting.begin] == unit;
  const bool is_receiver = meeting.kind == MeetingKind::to_root ? is_first : !is_first;
  if (meeting.kind == MeetingKind::all) return Need::everybody;
  if (is_receiver) return meeting.kind == MeetingKind::to_root ? Need::everybody : Need::first;
  const bool has_waited = timeline_.units[unit].duration_ns() > meeting.transfer_ns + kWaitedNs;
  return has_waited ? Need::everybody : Need::nobody;
}

// Arrivals and ends in an order in which each comes behind what it follows from.
void Replay::put_in_order() {
  const size_t size = timeline_.units.size();
  std::vector<std::vector<uint32_t>> next(2 * size);  // by event: u, or size + u for its end
  std::vector<uint32_t> open(2 * size, 0);
  const auto follows = [&](size_t event, size_t from) {
    next[from].push_back(static_cast<uint32_t>(event));
    ++open[event];
  };
  size_t wanted = 0;
  for (uint32_t u = 0; u < size; ++u) {
    if (!timeline_.units[u].is_timed()) continue;
    wanted += 2;
    follows(size + u, u);
    for (uint32_t i = first_wait_[u]; i < first_wait_[u + 1]; ++i) follows(u, size + waits_[i]);
    if (bases_[u] == kNone) continue;
    const uint32_t base = bases_[u] & ~kEnd;
    follows(u, (bases_[u] & kEnd) != 0 ? size + base : base);
  }
  // A meeting of many is one event more, instead of an edge from each to each.
  std::vector<uint32_t> meeting_event(timeline_.meetings.size());
  for (uint32_t m = 0; m < timeline_.meetings.size(); ++m) {
    const Meeting& meeting = timeline_.meetings[m];
    meeting_event[m] = static_cast<uint32_t>(next.size());
    next.emplace_back();
    open.push_back(0);
    ++wanted;
    for (const uint32_t u : timeline_.units_of(meeting)) follows(meeting_event[m], u);
    for (const uint32_t u : timeline_.units_of(meeting)) {
      const Need need = need_of(u, meeting);
      if (need == Need::everybody) follows(size + u, meeting_event[m]);
      if (need == Need::first) follows(size + u, timeline_.seats[meeting.begin]);
    }
  }
  std::vector<uint32_t> ready;
  for (uint32_t event = 0; event < open.size(); ++event) {
    const bool is_unit = event < 2 * size;
    if (is_unit && !timeline_.units[event % size].is_timed()) continue;
    if (open[event] == 0) ready.push_back(event);
  }
  for (size_t done = 0; done < ready.size(); ++done) {
    for (const uint32_t event : next[ready[done]]) {
      if (--open[event] == 0) ready.push_back(event);
    }
  }
  is_consistent_ = ready.size() == wanted;
  for (const uint32_t event : ready) {
    if (event < size)
      order_.push_back(event);
    else if (event < 2 * size)
      order_.push_back(static_cast<uint32_t>(event - size) | kEnd);
  }
}

int64_t Replay::base_ns(uint32_t unit) const {
  if (bases_[unit] == kNone) return 0;
  const uint32_t base = bases_[unit] & ~kEnd;
  return (bases_[unit] & kEnd) != 0 ? finished_ns_[base] : arrived_ns_[base];
}

void Replay::arrive(uint32_t unit, const std::vector<int64_t>& own_ns) {
  int64_t arrived_ns = later(base_ns(unit), own_ns[unit]);
  for (uint32_t i = first_wait_[unit]; i < first_wait_[unit + 1]; ++i) {
    arrived_ns = std::max(arrived_ns, finished_ns_[waits_[i]]);
  }
  arrived_ns_[unit] = arrived_ns;
  for (const uint32_t m : timeline_.meetings_of(unit)) {
    uint32_t& last = last_to_come_[m];
    if (last == kNone || arrived_ns_[unit] > arrived_ns_[last]) last = unit;
  }
}

void Replay::finish(uint32_t unit, const std::vector<int64_t>& transfer_ns) {
  int64_t end_ns = arrived_ns_[unit];
  bool waits = false;
  for (const uint32_t m : timeline_.meetings_of(unit)) {
    const Meeting& meeting = timeline_.meetings[m];
    const Need need = need_of(unit, meeting);
    if (need == Need::nobody) continue;
    waits = true;
    int64_t begin_ns = arrived_ns_[unit];
    const uint32_t other = need == Need::first ? timeline_.seats[meeting.begin] : last_to_come_[m];
    begin_ns = std::max(begin_ns, arrived_ns_[other]);
    end_ns = std::max(end_ns, later(begin_ns, transfer_ns[m]));
  }
  if (!waits) end_ns = later(end_ns, timeline_.units[unit].duration_ns());
  finished_ns_[unit] = end_ns;
}

std::vector<int64_t> Replay::step_ends(const std::vector<int64_t>& own_ns,
                                       const std::vector<int64_t>& transfer_ns) {
  std::fill(last_to_come_.begin(), last_to_come_.end(), kNone);
  std::vector<int64_t> ends(steps_.count, 0);
  for (const uint32_t event : order_) {
    const uint32_t unit = event & ~kEnd;
    if ((event & kEnd) == 0) {
      arrive(unit, own_ns);
      continue;
    }
    finish(unit, transfer_ns);
    const uint32_t step = timeline_.units[unit].step;
    if (step < ends.size()) ends[step] = std::max(ends[step], finished_ns_[unit]);
  }
  return ends;
}

std::vector<int64_t> Replay::recorded_step_ends() {
  return step_ends(own_times_.all(), transfer_ns_);
}

// From the unit's end to the arrival that it followed from: of the unit that is returned.
uint32_t Replay::charge_transfer(uint32_t unit, int64_t until_ns, Charges& charges) const {
  uint32_t last = unit;
  uint32_t through = kNone;
  for (const uint32_t m : timeline_.meetings_of(unit)) {
    if (through == kNone) through = m;
    const Meeting& meeting = timeline_.meetings[m];
    const Need need = need_of(unit, meeting);
    if (need == Need::nobody) continue;
    const uint32_t other = need == Need::first ? timeline_.seats[meeting.begin] : last_to_come_[m];
    if (arrived_ns_[other] > arrived_ns_[last]) {
      last = other;
      through = m;
    }
  }
  const int64_t moved_ns = behind(arrived_ns_[last], finished_ns_[unit], until_ns);
  if (through == kNone || !timeline_.meetings[through].is_whole) {
    charges.unrecorded_ns += moved_ns;
  } else {
    charges.transfer_ns[timeline_.meetings[through].comm] += moved_ns;
  }
  return last;
}

// From the unit's arrival to the end that it followed from, over as many units as worked beside
// their operations: that unit is put into `unit`. False: there is none.
bool Replay::charge_own(uint32_t& unit, int64_t until_ns, Charges& charges) const {
  while (true) {
    uint32_t wait = kNone;
    for (uint32_t i = first_wait_[unit]; i < first_wait_[unit + 1]; ++i) {
      if (wait == kNone || finished_ns_[waits_[i]] > finished_ns_[wait]) wait = waits_[i];
    }
    const bool waited = wait != kNone && finished_ns_[wait] >= arrived_ns_[unit];
    if (waited) {
      unit = wait;
      return true;
    }
    const Unit& own = timeline_.units[unit];
    const int64_t span_ns = behind(base_ns(unit), arrived_ns_[unit], until_ns);
    (own.lead_ns < kShortLeadNs ? charges.launch_ns : charges.own_ns)[own.gpu] += span_ns;
    if (bases_[unit] == kNone) return false;
    const bool from_end = (bases_[unit] & kEnd) != 0;
    unit = bases_[unit] & ~kEnd;
    if (from_end) return true;
    if (arrived_ns_[unit] <= until_ns) return false;
  }
}

void Replay::charge(uint32_t step, const std::vector<int64_t>& ends, Charges& charges) const {
  charges.own_ns.resize(timeline_.gpus.size());
  charges.launch_ns.resize(timeline_.gpus.size());
  charges.transfer_ns.resize(timeline_.comms.size());
  const int64_t until_ns = step == 0 ? 0 : ends[step - 1];
  uint32_t unit = kNone;
  for (uint32_t g = 0; g < timeline_.gpus.size() && unit == kNone; ++g) {
    const uint32_t role = timeline_.gpus[g].role;
    if (role == kNone) continue;
    for (uint32_t slot = 0; slot < steps_.roles[role].length; ++slot) {
      const uint32_t own = steps_.unit_at(timeline_, g, step, slot);
      if (own != kNone && finished_ns_[own] == ends[step]) unit = own;
    }
  }
  while (unit != kNone && finished_ns_[unit] > until_ns) {
    unit = charge_transfer(unit, until_ns, charges);
    if (!charge_own(unit, until_ns, charges)) break;
  }
}

}  // namespace rollcall::slow
