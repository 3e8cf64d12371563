#include "tools/stall.h"

#include <algorithm>

#include "core/base/check.h"

namespace rollcall::tools {
namespace {

constexpr int64_t kPatienceMinNs = 10'000'000'000;
constexpr int64_t kPatienceForDeadNs = 3'000'000'000;
constexpr int64_t kTimesLongest = 5;
// The first steps are like no others: they load, compile and connect.
constexpr uint64_t kWarmUpAdvances = 10;
constexpr int64_t kWarmUpNs = 30'000'000'000;
// A warning before that would come and go with every file that is written.
constexpr int64_t kWarningMinNs = 5'000'000'000;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash;
}

// What one look shows of one lane of a communicator.
struct Seen {
  uint64_t fingerprint = 0;
  uint64_t first = UINT64_MAX;  // the position of the rank that is behind all others
  uint64_t last = 0;            // of those that have called, and of which more is not known
  bool is_inside = false;
  bool has_dead = false;
};

void add(const Standing& standing, Seen& seen) {
  seen.fingerprint += mix(mix(0, standing.process), standing.position + 1);
  seen.first = std::min(seen.first, standing.position);
  if (standing.life == Life::dead) seen.has_dead = true;
  // Who is gone waits no more.
  if (standing.life != Life::runs) return;
  if (standing.progress == Progress::inside) seen.is_inside = true;
  if (standing.progress == Progress::returned) seen.last = std::max(seen.last, standing.position);
}

// Positions of transfers are not comparable: each rank has its own.
bool waits(const Seen& seen, Lane lane) {
  return seen.is_inside || (lane == Lane::collectives && seen.last > seen.first);
}

}  // namespace

void StallWatch::advance(Course& course, int64_t now_ns) const {
  const bool is_warm =
      course.advances >= kWarmUpAdvances && course.advanced_ns - course.first_ns >= kWarmUpNs;
  if (is_warm) course.longest_ns = std::max(course.longest_ns, now_ns - course.advanced_ns);
  ++course.advances;
  course.advanced_ns = now_ns;
  course.next_ask_ns = 0;
  course.is_warned = false;
}

int64_t StallWatch::patience_of(const Course& course) const {
  const int64_t for_dead = course.died_ns != 0 ? kPatienceForDeadNs : patience_max_ns_;
  const bool is_warm =
      course.advances > kWarmUpAdvances && course.advanced_ns - course.first_ns >= kWarmUpNs;
  const int64_t usual =
      is_warm ? std::max(kPatienceMinNs, course.longest_ns * kTimesLongest) : patience_max_ns_;
  return std::min({for_dead, usual, patience_max_ns_});
}

// Of a rank that died, since then: its launcher may be ending the others at this moment.
int64_t StallWatch::quiet_of(const Course& course, int64_t now_ns) const {
  const int64_t quiet_ns = now_ns - course.advanced_ns;
  const bool is_usual = course.died_ns == 0 || quiet_ns >= patience_max_ns_;
  return is_usual ? quiet_ns : std::min(quiet_ns, now_ns - course.died_ns);
}

void StallWatch::take(const Look& look) {
  std::map<Name, Seen> lanes;
  for (const Standing& standing : look.standings) {
    add(standing, lanes[{{standing.comm.high, standing.comm.low}, standing.lane}]);
  }
  // A communicator that is gone: whoever waited in it waits no more.
  std::erase_if(courses_, [&](const auto& course) {
    const bool is_gone = lanes.count(course.first) == 0 && asked_ != course.first;
    if (is_gone && open_ == course.first) {
      resumed_after_ns_ = look.now_ns - course.second.advanced_ns;
    }
    return is_gone;
  });
  for (const auto& [name, seen] : lanes) {
    const auto [place, is_new] = courses_.try_emplace(name);
    Course& course = place->second;
    if (is_new) {
      course.first_ns = course.advanced_ns = look.now_ns;
      course.fingerprint = seen.fingerprint;
    } else if (seen.fingerprint != course.fingerprint) {
      if (open_ == name) resumed_after_ns_ = look.now_ns - course.advanced_ns;
      course.fingerprint = seen.fingerprint;
      advance(course, look.now_ns);
    }
    course.waits = waits(seen, name.second);
    if (!seen.has_dead) course.died_ns = 0;
    if (seen.has_dead && course.died_ns == 0) course.died_ns = look.now_ns;
  }
}

Act StallWatch::act_on(const Name& name, const Course& course, int64_t now_ns) const {
  if (!course.waits) return Act::nothing;
  const int64_t quiet_ns = quiet_of(course, now_ns);
  const int64_t patience_ns = patience_of(course);
  if (open_) {
    const bool is_over = now_ns - course.advanced_ns >= patience_max_ns_;
    return open_ == name && !is_confirmed_ && is_over ? Act::confirm : Act::nothing;
  }
  if (quiet_ns >= std::max(patience_ns, course.next_ask_ns)) return Act::ask;
  const bool is_half = quiet_ns >= patience_ns / 2 && patience_ns / 2 >= kWarningMinNs;
  return is_half && !course.is_warned && course.next_ask_ns == 0 ? Act::warn : Act::nothing;
}

void StallWatch::note(const Decision& decision, int64_t now_ns) {
  if (decision.act == Act::nothing) return;
  const Name name{{decision.comm.high, decision.comm.low}, decision.lane};
  Course& course = courses_.at(name);
  course.is_warned = true;
  if (decision.act == Act::confirm) is_confirmed_ = true;
  if (decision.act != Act::ask) return;
  asked_ = name;
  // Where it is no hang, as long again.
  course.next_ask_ns = 2 * std::max(quiet_of(course, now_ns), patience_max_ns_ / 2);
}

Decision StallWatch::look(const Look& look) {
  take(look);
  Decision decision;
  if (asked_) return decision;
  if (resumed_after_ns_) {
    decision.act = Act::resumed;
    decision.quiet_ns = *resumed_after_ns_;
    resumed_after_ns_.reset();
    open_.reset();
    is_confirmed_ = false;
    return decision;
  }
  for (const auto& [name, course] : courses_) {
    const Act act = act_on(name, course, look.now_ns);
    const int64_t quiet_ns = look.now_ns - course.advanced_ns;
    // A question before a warning; of equals, about the older stall.
    if (act == Act::nothing || act < decision.act) continue;
    if (act == decision.act && quiet_ns <= decision.quiet_ns) continue;
    decision = {
        act, {name.first.first, name.first.second}, name.second, quiet_ns, patience_of(course)};
  }
  note(decision, look.now_ns);
  return decision;
}

void StallWatch::answered(bool is_hang) {
  ROLLCALL_CHECK(asked_.has_value());
  if (is_hang) open_ = asked_;
  asked_.reset();
}

}  // namespace rollcall::tools
