// Ranks that called nothing more than others did: do their hosts wait for their GPUs, and these for
// whom?
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "analysis/gpu/captured.h"
#include "analysis/rules/gpu_findings.h"
#include "analysis/rules/replay_waits.h"
#include "analysis/rules/rules.h"
#include "analysis/rules/unread_replays.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

// From a call that a GPU runs to the ranks whose GPUs have not come to it, until there is one whose
// stream does not come to its oldest call, or all have come to one. No stream waits for what was
// called later.
class Causes {
 public:
  explicit Causes(const GpuView& gpu) : facts_(gpu.facts), gpu_(gpu) {}

  // Whether it is silent because its GPU is not through. False, too, where the GPU waits for a
  // host.
  bool explain(uint32_t p) {
    const auto [known, is_new] = silent_.try_emplace(p, false);
    if (!is_new) return known->second;
    const bool is_explained = look_at(p);
    return silent_[p] = is_explained;
  }
  // By process.
  std::vector<Front> blocked() const {
    std::vector<Front> fronts;
    for (const auto& [p, front] : blocked_) fronts.push_back(front);
    return fronts;
  }
  // Replays that something else in their graph holds up.
  const std::vector<OpRef>& between() const { return between_; }
  const std::vector<size_t>& stuck() const { return stuck_; }  // calls
  const std::vector<size_t>& young() const { return young_; }  // that may still go on

 private:
  // Who waits for whom goes through as many calls as this, at most: a deeper stack is not worth it.
  static constexpr int kDepthMax = 512;

  bool look_at(uint32_t p) {
    const std::span<const Front> fronts = fronts_of(gpu_.state, p);
    if (fronts.empty() || !is_watched_to_end(facts_, p)) return false;
    const Front oldest = oldest_of(facts_, fronts);
    if (!oldest.started) return is_blocked(oldest);
    bool is_explained = false;
    for (const Front& front : fronts) {
      if (!front.started) continue;
      is_explained =
          (is_replay(front) ? explain_replay(front) : explain_call(front)) || is_explained;
    }
    return is_explained;
  }
  // What another rank did not make is not what this one's silence is due to.
  bool is_blocked(const Front& front) {
    const auto [known, is_new] = is_blocked_.try_emplace(front.process, false);
    if (!is_new) return known->second;
    known->second = !front.is_behind_untimed && waits_long(facts_, front) &&
                    peers_of(facts_, front.process, front.op).is_made();
    if (known->second) blocked_.emplace(front.process, front);
    return known->second;
  }

  // Each call is followed once; one that leads back to itself explains nothing.
  bool explain_call(const Front& front) {
    const size_t call = *gpu_.call_at(front.process, front.op);
    if (explained_.count(call) == 0 && depth_ < kDepthMax) {
      explained_[call] = false;
      ++depth_;
      explained_[call] = follow(call);
      --depth_;
    }
    return explained_.count(call) != 0 && explained_[call];
  }

  bool is_replay(const Front& front) const {
    return facts_.index.op(front.process, front.op).kind == OpKind::GraphLaunch;
  }

  // Ranks stand at different places in a replay: each is followed by itself, but those that wait
  // for the same ranks.
  bool explain_replay(const Front& front) {
    const Op& launch = facts_.index.op(front.process, front.op);
    const NewestReplay& record = newest_replay(facts_, front.process, launch.graph);
    if (!record.has_positions) return explain_call(front);
    const bool is_old = facts_.job.is_stale(started_at(launch));
    if (depth_ == kDepthMax || !(is_old || facts_.job.live)) return false;
    const auto [known, is_new] = replays_.try_emplace(key_of(front, record), false);
    if (!is_new) return known->second;
    const InsideReplay inside = inside_replay(facts_, front.process, front.op);
    if (inside.is_owed) return false;
    bool is_explained = note_place(front, inside, is_old);
    ++depth_;
    for (const uint32_t p : inside.elsewhere) {
      if (is_old) is_explained = explain(p) || is_explained;
    }
    --depth_;
    return known->second = is_explained;
  }

  // Whether where a replay stands explains it, whoever has not come there.
  bool note_place(const Front& front, const InsideReplay& inside, bool is_old) {
    const bool is_between = inside.is_between && is_old;
    const bool have_all_come = !inside.ops.empty();
    const bool is_stuck = have_all_come && are_old(inside);
    const bool is_young = have_all_come && !is_stuck && facts_.job.live;
    if (is_between) between_.push_back({front.process, front.op});
    if (is_stuck) stuck_.push_back(*gpu_.call_at(front.process, front.op));
    if (is_young) young_.push_back(*gpu_.call_at(front.process, front.op));
    return is_between || is_stuck || is_young;
  }

  // Who makes the call without a graph has no launch.
  bool are_old(const InsideReplay& inside) const {
    for (size_t i = 0; i < inside.ops.size(); ++i) {
      const OpRef& launch = inside.launches[i];
      const OpRef& began = launch.op != kNoRecord ? launch : inside.ops[i];
      if (!facts_.job.is_stale(started_at(facts_.index.op(began.process, began.op)))) return false;
    }
    return true;
  }

  PlaceKey key_of(const Front& front, const NewestReplay& record) const {
    const bool is_one = record.places.size() == 1 && record.places[0].is_inside;
    if (!is_one) return {front.process, front.op};
    return place_key(facts_, front.process, front.op, record.places[0]);
  }

  bool follow(size_t index) {
    const GpuCall& call = gpu_.calls()[index];
    const Op& op = facts_.index.op(call.front.process, call.front.op);
    const bool counts = call.peers.is_made() && !call.is_disputed &&
                        facts_.job.is_stale(started_at(op)) &&
                        std::all_of(call.running.begin(), call.running.end(),
                                    [&](uint32_t p) { return is_watched_to_end(facts_, p); });
    if (!counts) return false;
    const bool is_stuck =
        call.is_everywhere() && !call.is_held && facts_.job.is_stale(call.last_begun_ns);
    if (is_stuck) stuck_.push_back(index);
    if (call.is_young(facts_)) young_.push_back(index);
    bool is_explained = is_stuck || call.is_young(facts_);
    for (const uint32_t p : call.behind) is_explained = explain(p) || is_explained;
    return is_explained;
  }

  const Facts& facts_;
  const GpuView& gpu_;
  std::unordered_map<size_t, bool> explained_;  // by call
  std::unordered_map<uint32_t, bool> is_blocked_;
  std::map<uint32_t, Front> blocked_;
  std::map<PlaceKey, bool> replays_;
  std::unordered_map<uint32_t, bool> silent_;  // by process
  std::vector<OpRef> between_;
  std::vector<size_t> stuck_;
  std::vector<size_t> young_;
  int depth_ = 0;
};

// Of processes that were explained.
Draft draft_cause(const GpuView& gpu, const Causes& causes) {
  const std::vector<Front> blocked = causes.blocked();
  if (!blocked.empty()) {
    // What was called later runs in front of it, and is what the others do not come to.
    std::optional<Draft> crossed = draft_crossed(gpu);
    const std::vector<uint32_t> crossing =
        crossed ? culprits_of(crossed->finding) : std::vector<uint32_t>();
    const bool is_crossed = std::any_of(blocked.begin(), blocked.end(), [&](const Front& front) {
      return std::binary_search(crossing.begin(), crossing.end(), front.process);
    });
    return is_crossed ? std::move(*crossed) : draft_blocked(gpu, blocked);
  }
  if (!causes.between().empty()) return draft_between(gpu.facts, causes.between());
  if (causes.stuck().empty()) return draft_young(gpu, gpu.calls()[causes.young().front()]);
  const size_t stuck = causes.stuck().front();
  const CallCircle& rivals = gpu.rivals();
  const bool is_rival = std::find(rivals.begin(), rivals.end(), stuck) != rivals.end();
  return draft_stuck(gpu, gpu.calls()[stuck], is_rival ? rivals : CallCircle{});
}

// Ranks have not made a call that others wait in, and may or may not wait themselves as far as the
// calls tell.
bool is_silence(const Draft& draft) {
  const Verdict verdict = draft.finding.verdict;
  return !draft.finding.culprits.empty() &&
         (verdict == Verdict::missing_call || verdict == Verdict::p2p_unmatched ||
          verdict == Verdict::insufficient);
}

// Each of the silent ranks.
template <typename Holds>
bool all_of_culprits(const Draft& draft, Holds holds) {
  const std::vector<Culprit>& culprits = draft.finding.culprits;
  return std::all_of(culprits.begin(), culprits.end(), [&](const Culprit& culprit) {
    return culprit.process != kNone && holds(culprit.process);
  });
}

bool has_come_through(const GpuState& state, uint32_t p) {
  return fronts_of(state, p).empty() &&
         !std::binary_search(state.dark.begin(), state.dark.end(), p);
}

}  // namespace

std::optional<Draft> judge_gpu_cause(const Facts& facts, const std::vector<uint32_t>& silent) {
  const GpuView gpu(facts);
  if (silent.empty() || !gpu.state.is_watched) return std::nullopt;
  Causes causes(gpu);
  for (const uint32_t p : silent) {
    if (!causes.explain(p)) return std::nullopt;
  }
  return draft_cause(gpu, causes);
}

void add_gpu_causes(const Facts& facts, std::vector<Draft>& drafts) {
  if (std::none_of(drafts.begin(), drafts.end(), is_silence)) return;
  const GpuView gpu(facts);
  if (!gpu.state.is_watched) return;
  const std::vector<OpRef> unread = find_unread_replays(facts);
  std::vector<Draft> others;
  std::map<std::vector<uint32_t>, Draft> found;  // by whom they blame
  std::optional<Draft> unread_draft;
  for (Draft& draft : drafts) {
    if (!is_silence(draft)) {
      others.push_back(std::move(draft));
      continue;
    }
    Causes causes(gpu);
    if (all_of_culprits(draft, [&](uint32_t p) { return causes.explain(p); })) {
      Draft cause = draft_cause(gpu, causes);
      std::vector<uint32_t> blamed = culprits_of(cause.finding);
      Draft& known = found.try_emplace(std::move(blamed), std::move(cause)).first->second;
      known.finding.consequences.push_back(std::move(draft.finding));
      continue;
    }
    // Where some replay cannot be read, a GPU that is not through may wait for it.
    const bool is_open = !unread.empty() && !all_of_culprits(draft, [&](uint32_t p) {
      return fronts_of(gpu.state, p).empty();
    });
    if (is_open) {
      if (!unread_draft) unread_draft = draft_unread_replays(facts, unread);
      unread_draft->finding.consequences.push_back(std::move(draft.finding));
      continue;
    }
    if (draft.finding.verdict == Verdict::missing_call &&
        all_of_culprits(draft, [&](uint32_t p) { return has_come_through(gpu.state, p); })) {
      draft.finding.next += "; its GPU has finished all that it called before";
    }
    others.push_back(std::move(draft));
  }
  drafts = std::move(others);
  for (auto& [blamed, cause] : found) drafts.push_back(std::move(cause));
  if (unread_draft) drafts.push_back(std::move(*unread_draft));
}

}  // namespace rollcall::analysis
