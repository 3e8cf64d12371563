#include "analysis/views/stream_order.h"

#include <algorithm>
#include <unordered_map>

namespace rollcall::analysis {
namespace {

bool is_silence(const Facts& facts, const Draft& draft) {
  const Verdict verdict = draft.finding.verdict;
  if (verdict != Verdict::missing_call && verdict != Verdict::p2p_unmatched) return false;
  return draft.root != kNone && !facts.graph.roots()[draft.root].is_circle;
}

// Some process used several streams that may wait for each other.
bool has_several_streams(const Index& index) {
  return std::any_of(index.active().begin(), index.active().end(), [&](uint32_t p) {
    const trace::Process& process = index.run().processes[p];
    std::unordered_map<uint64_t, uint64_t> streams;
    for (uint32_t i = 0; i < process.ops.size(); ++i) {
      if (!is_enqueued(process.ops[i])) continue;
      const uint64_t stream = stream_key(process, i);
      if (streams.try_emplace(chained_key(process, i), stream).first->second != stream) return true;
    }
    return false;
  });
}

// Who is blamed for not coming to a call; nobody where somebody is blamed who waits itself.
std::vector<uint32_t> who_is_silent(const Facts& facts, const std::vector<Draft>& drafts) {
  std::vector<uint32_t> silent;
  for (const Draft& draft : drafts) {
    if (!is_silence(facts, draft)) continue;
    for (const Culprit& culprit : draft.finding.culprits) {
      if (culprit.process == kNone || !facts.playback.waiting(culprit.process).empty()) return {};
      silent.push_back(culprit.process);
    }
  }
  return silent;
}

// Says what findings rest on.
void add_premise(std::vector<Draft>& drafts, const char* premise) {
  for (Draft& draft : drafts) {
    if (draft.root == kNone) continue;
    Evidence evidence;
    evidence.text = premise;
    draft.finding.evidence.push_back(std::move(evidence));
  }
}

// The same of those that a chained reading made less sure, or that are of one.
void weigh_chained(std::vector<Draft>& drafts, const char* premise) {
  add_premise(drafts, premise);
  for (Draft& draft : drafts) {
    if (draft.root == kNone) continue;
    Confidence& confidence = draft.finding.confidence;
    if (confidence == Confidence::certain) confidence = Confidence::likely;
  }
}

constexpr const char* kIfChained =
    "if the streams of a rank wait for each other in the order of its calls, as PyTorch's do: that "
    "is on no file";

// Whoever waits, waits in the end for calls that the ranks disagree about.
bool waits_for_differences(const Facts& facts) {
  const std::vector<Root>& roots = facts.graph.roots();
  return std::all_of(roots.begin(), roots.end(), [&](const Root& root) {
    return facts.graph.nodes()[root.nodes[0]].is_disputed;
  });
}

// What the GPUs were seen to do, held against the chain.
enum class Sight : uint8_t {
  silent,
  refutes,   // one has begun with what would have to wait behind a call that has not begun
  confirms,  // all have begun with what is at the front, and with nothing behind
};
// Calls that run beside each other, as on several streams of a graph, do not wait for each other.
// What has not begun may wait for them all the same. Of what was given to the GPU at once, a group
// or a replay, each stream goes its own way.
Sight look_at_gpus(const Facts& facts) {
  bool sees_all = true;
  for (const uint32_t p : facts.index.active()) {
    int64_t waiting_ns = INT64_MAX;  // when the first that has not begun was called
    for (uint32_t i = 0; i < facts.process(p).ops.size(); ++i) {
      const trace::Op& op = facts.index.op(p, i);
      if (facts.playback.is_done(p, i) || !is_enqueued(op)) continue;
      const bool is_at_front = facts.playback.is_at_front(p, i);
      const bool has_started = op.started_ns != 0 || op.finished_ns != 0 ||
                               op.mark != GpuMark::none || op.state == trace::OpState::started;
      if (has_started && !is_at_front && waiting_ns < op.called_ns) return Sight::refutes;
      if (!has_started) waiting_ns = std::min(waiting_ns, op.called_ns);
      sees_all = sees_all && (has_started ? is_at_front : !is_at_front && op.awaits_gpu);
    }
  }
  return sees_all ? Sight::confirms : Sight::silent;
}

// Some rank has called more behind what it would wait in than its GPU can have queued, or for
// longer than a host runs ahead of it.
bool ran_too_far_ahead(const Facts& facts) {
  constexpr int64_t kAheadNs = 10'000'000'000;
  return std::any_of(facts.index.active().begin(), facts.index.active().end(), [&](uint32_t p) {
    const std::vector<uint32_t>& waiting = facts.playback.waiting(p);
    const std::vector<trace::Op>& ops = facts.process(p).ops;
    if (waiting.empty()) return false;
    return ops.size() - waiting.front() > kQueuedCallsMax ||
           ops.back().called_ns - ops[waiting.front()].called_ns > kAheadNs;
  });
}

// Takes a call of a circle for finished, on all its ranks, and with it what was given to the GPU at
// once: the calls of a replay.
void finish(const Facts& facts, const Node& node, trace::Run& run) {
  const auto mark = [&](uint32_t p, uint32_t i) {
    std::vector<trace::Op>& ops = run.processes[p].ops;
    const int64_t called_ns = ops[i].called_ns;
    size_t first = i;
    while (first > 0 && ops[first - 1].called_ns == called_ns) --first;
    for (size_t at = first; at < ops.size() && ops[at].called_ns == called_ns; ++at) {
      ops[at].state = trace::OpState::finished;
    }
  };
  if (node.kind == NodeKind::p2p) return mark(node.process, node.op);
  if (node.kind != NodeKind::collective) return;
  for (const Member& member : facts.group(node.group).members) {
    if (member.lane.has(node.seq)) {
      mark(member.process, member.lane.at(node.seq));
    }
  }
}

// Nobody is blamed that was not, and not all of the silent: the others wait for those.
bool blames_fewer_of(const Facts& facts, const std::vector<Draft>& drafts,
                     std::vector<uint32_t> silent) {
  const bool has_circle = std::any_of(drafts.begin(), drafts.end(), [&](const Draft& draft) {
    return draft.root != kNone && facts.graph.roots()[draft.root].is_circle;
  });
  std::vector<uint32_t> blamed = who_is_silent(facts, drafts);
  for (std::vector<uint32_t>* list : {&silent, &blamed}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return !has_circle && !blamed.empty() && blamed.size() < silent.size() &&
         std::includes(silent.begin(), silent.end(), blamed.begin(), blamed.end());
}

}  // namespace

GatheredFacts::GatheredFacts(const Index& index, const Options& options, const JobState& job,
                             const std::vector<Difference>& differences,
                             const std::vector<Difference>& blocking, StreamOrder stream_order)
    : playback_(index, options, blocking, stream_order),
      graph_(index, job, playback_, blocking),
      unheard_(index, playback_),
      sizes_(index),
      facts_{index, options, job, differences, playback_, graph_, unheard_, sizes_, memo_} {}

StreamOrderChoice::StreamOrderChoice(const Index& index, const Options& options,
                                     const JobState& job,
                                     const std::vector<Difference>& differences,
                                     const std::vector<Difference>& blocking)
    : index_(index),
      options_(options),
      job_(job),
      differences_(differences),
      blocking_(blocking),
      free_(index, options, job, differences, blocking, StreamOrder::free),
      drafts_(judge_waits(free_.facts())) {
  read_chained();
}

void StreamOrderChoice::read_chained() {
  const std::vector<uint32_t> silent = who_is_silent(free_.facts(), drafts_);
  if (silent.empty() || !has_several_streams(index_)) return;
  chained_.emplace(index_, options_, job_, differences_, blocking_, StreamOrder::chained);
  const Facts& facts = chained_->facts();
  const auto may_wait = [&](uint32_t p) { return !facts.playback.waiting(p).empty(); };
  if (std::none_of(silent.begin(), silent.end(), may_wait)) return chained_.reset();
  std::vector<Draft> drafts = judge_waits(facts);
  if (!std::all_of(silent.begin(), silent.end(), may_wait)) {
    const bool is_refuted = look_at_gpus(facts) == Sight::refutes || ran_too_far_ahead(facts);
    if (is_refuted || !blames_fewer_of(facts, drafts, silent)) return chained_.reset();
    drafts_ = std::move(drafts);
    return weigh_chained(drafts_, kIfChained);
  }
  // A circle of which nothing tells who began it says less than that one rank is silent.
  const bool is_decided = std::all_of(drafts.begin(), drafts.end(),
                                      [](const Draft& draft) { return draft.is_decided; });
  // Calls that the ranks disagree about have findings of their own.
  const bool says_more =
      drafts.empty() ? waits_for_differences(facts) : is_decided || silent.size() > 1;
  if (says_more) {
    drafts_ = std::move(drafts);
  } else {
    chained_.reset();
  }
  weigh_chained(drafts_, says_more ? kIfChained
                                   : "it may itself wait in its last call, if the streams of a "
                                     "rank wait for each other in the order of its calls: that is "
                                     "on no file");
}

// Without the circles' calls nobody would wait.
bool StreamOrderChoice::gets_by_without(const Facts& facts) const {
  trace::Run run = index_.run();
  for (const Root& root : facts.graph.roots()) {
    for (const uint32_t n : root.nodes) finish(facts, facts.graph.nodes()[n], run);
  }
  const Index index(run);
  const GatheredFacts reading(index, options_, job_, differences_, blocking_, StreamOrder::chained);
  return reading.facts().graph.roots().empty();
}

bool StreamOrderChoice::find_circle() {
  if (chained_ || !has_several_streams(index_)) return false;
  chained_.emplace(index_, options_, job_, differences_, blocking_, StreamOrder::chained);
  const Facts& facts = chained_->facts();
  const Sight sight = look_at_gpus(facts);
  std::vector<Draft> drafts;
  if (sight != Sight::refutes && !ran_too_far_ahead(facts)) drafts = judge_waits(facts);
  if (drafts.empty() || !gets_by_without(facts)) {
    chained_.reset();
    return false;
  }
  drafts_ = std::move(drafts);
  if (sight == Sight::confirms) {
    add_premise(drafts_,
                "the streams of a rank wait for each other: the GPUs have begun with the first of "
                "these calls, and with none behind");
  } else {
    weigh_chained(drafts_, kIfChained);
  }
  return true;
}

}  // namespace rollcall::analysis
