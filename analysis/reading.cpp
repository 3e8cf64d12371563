#include "analysis/reading.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

bool is_silence(const Case& c, const Draft& draft) {
  const Verdict verdict = draft.finding.verdict;
  if (verdict != Verdict::missing_call && verdict != Verdict::p2p_unmatched) return false;
  return draft.root != kNone && !c.graph.roots()[draft.root].is_circle;
}

// Some process used several streams, and its recorder knows which.
bool has_several_streams(const Index& index) {
  return std::any_of(index.active().begin(), index.active().end(), [&](uint32_t p) {
    const trace::Process& process = index.run().processes[p];
    if (process.ops.empty() || !process.knowledge.groups) return false;
    return std::any_of(process.ops.begin(), process.ops.end(), [&](const trace::Op& op) {
      return op.stream != process.ops.front().stream;
    });
  });
}

// Who is blamed for not coming to a call; nobody where somebody is blamed who waits itself.
std::vector<uint32_t> who_is_silent(const Case& c, const std::vector<Draft>& drafts) {
  std::vector<uint32_t> silent;
  for (const Draft& draft : drafts) {
    if (!is_silence(c, draft)) continue;
    for (const Culprit& culprit : draft.finding.culprits) {
      if (culprit.process == kNone || !c.progress.waiting(culprit.process).empty()) return {};
      silent.push_back(culprit.process);
    }
  }
  return silent;
}

// Says what findings rest on that a chained reading made less sure, or that are of one.
void weigh_chained(std::vector<Draft>& drafts, const char* premise) {
  for (Draft& draft : drafts) {
    if (draft.root == kNone) continue;
    Finding& finding = draft.finding;
    if (finding.confidence == Confidence::certain) finding.confidence = Confidence::likely;
    Evidence evidence;
    evidence.text = premise;
    finding.evidence.push_back(std::move(evidence));
  }
}

}  // namespace

Reading::Reading(const Index& index, const Options& options, const JobState& job,
                 const std::vector<Difference>& differences,
                 const std::vector<Difference>& blocking, StreamOrder stream_order)
    : progress_(index, options, blocking, stream_order),
      graph_(index, job, progress_, blocking),
      doubt_(index, progress_),
      case_{index, options, job, differences, progress_, graph_, doubt_} {}

Waits::Waits(const Index& index, const Options& options, const JobState& job,
             const std::vector<Difference>& differences, const std::vector<Difference>& blocking)
    : free_(index, options, job, differences, blocking, StreamOrder::free),
      drafts_(judge_waits(free_.the_case())) {
  read_chained(differences, blocking);
}

void Waits::read_chained(const std::vector<Difference>& differences,
                         const std::vector<Difference>& blocking) {
  const Case& free = free_.the_case();
  const std::vector<uint32_t> silent = who_is_silent(free, drafts_);
  if (silent.empty() || !has_several_streams(free.index)) return;
  chained_.emplace(free.index, free.options, free.job, differences, blocking, StreamOrder::chained);
  const Case& c = chained_->the_case();
  const bool may_all_wait = std::none_of(silent.begin(), silent.end(),
                                         [&](uint32_t p) { return c.progress.waiting(p).empty(); });
  if (!may_all_wait) return chained_.reset();
  std::vector<Draft> drafts = judge_waits(c);
  // A circle of which nothing tells who began it says less than that one rank is silent.
  const bool is_decided = std::all_of(drafts.begin(), drafts.end(),
                                      [](const Draft& draft) { return draft.is_decided; });
  const bool is_better = !drafts.empty() && (is_decided || silent.size() > 1);
  if (is_better) {
    drafts_ = std::move(drafts);
  } else {
    chained_.reset();
  }
  weigh_chained(drafts_, is_better
                             ? "if the streams of a rank wait for each other in the order of its "
                               "calls, as PyTorch's do: that is on no file"
                             : "it may itself wait in its last call, if the streams of a rank wait "
                               "for each other in the order of its calls: that is on no file");
}

}  // namespace rollcall::analysis
