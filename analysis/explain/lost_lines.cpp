#include "analysis/explain/lost_lines.h"

#include <algorithm>
#include <map>

#include "analysis/words/draft.h"

namespace rollcall::analysis {
namespace {

using trace::Saying;
using trace::SayingKind;

bool has_waited(const trace::Run& run) {
  return std::any_of(run.logs.begin(), run.logs.end(), [](const trace::JobLog& log) {
    return std::any_of(log.sayings.begin(), log.sayings.end(), [](const Saying& saying) {
      return saying.kind == SayingKind::gave_up || saying.kind == SayingKind::blocking_wait;
    });
  });
}

using Calls = std::map<uint64_t, const trace::Op*>;  // by position

Calls calls_on(const trace::Process& process, const CommKey& key) {
  Calls calls;
  for (const trace::Op& op : process.ops) {
    const bool is_of_it = op.comm < process.comms.size() && process.comms[op.comm].key == key;
    if (is_of_it && is_collective(op.kind)) calls.emplace(op.seq, &op);
  }
  return calls;
}

const trace::Op* call_at(const Calls& calls, uint64_t seq) {
  const auto found = calls.find(seq);
  return found == calls.end() ? nullptr : found->second;
}

bool are_equal(const trace::Op& a, const trace::Op& b) {
  return a.kind == b.kind && a.count == b.count && a.datatype == b.datatype &&
         a.reduction == b.reduction && a.root_or_peer == b.root_or_peer;
}

// What is not on file may be anything.
bool may_be_equal(const trace::Op* a, const trace::Op* b) {
  return a == nullptr || b == nullptr || are_equal(*a, *b);
}

// Whether `shorter` lost a few lines in front of `seq`, so that its calls stand too early there.
bool may_be_shifted(const Calls& shorter, const Calls& longer, uint64_t seq) {
  constexpr uint64_t kLostMax = 3;
  for (uint64_t lost = 1; lost <= kLostMax; ++lost) {
    if (may_be_equal(call_at(shorter, seq), call_at(longer, seq + lost)) &&
        may_be_equal(call_at(shorter, seq + 1), call_at(longer, seq + lost + 1))) {
      return true;
    }
  }
  return false;
}

// A call that differs alone, with equal calls behind it at their places, differs for sure.
bool may_be_early(const trace::Run& run, const Culprit& culprit) {
  if (!culprit.comm || !culprit.seq || culprit.process >= run.processes.size()) return true;
  const uint64_t seq = *culprit.seq;
  const Calls its = calls_on(run.processes[culprit.process], *culprit.comm);
  const trace::Op* own = call_at(its, seq);
  if (own == nullptr) return true;
  for (const trace::Process& process : run.processes) {
    const Calls theirs = calls_on(process, *culprit.comm);
    const trace::Op* other = call_at(theirs, seq);
    if (other == nullptr || are_equal(*own, *other)) continue;
    const trace::Op* next = call_at(its, seq + 1);
    const trace::Op* other_next = call_at(theirs, seq + 1);
    const bool agree_again =
        next != nullptr && other_next != nullptr && are_equal(*next, *other_next);
    return !agree_again || may_be_shifted(its, theirs, seq) || may_be_shifted(theirs, its, seq);
  }
  return true;
}

// A line that was lost looks like a call that was not made, and moves those behind it.
bool rests_on_absence(Verdict verdict) {
  return verdict == Verdict::missing_call || verdict == Verdict::order_mismatch ||
         verdict == Verdict::p2p_unmatched;
}

// Of whose record a loss would look like this; null: nobody's that is named.
const trace::Process* who_may_have_lost(const trace::Run& run, const Finding& finding) {
  for (const Culprit& culprit : finding.culprits) {
    if (culprit.process >= run.processes.size()) continue;
    const trace::Process& process = run.processes[culprit.process];
    if (!process.knowledge.losses_show) return &process;
  }
  return nullptr;
}

void doubt(const trace::Run& run, Finding& finding) {
  for (Finding& consequence : finding.consequences) doubt(run, consequence);
  const trace::Process* loser = who_may_have_lost(run, finding);
  if (finding.confidence == Confidence::open || loser == nullptr) return;
  const bool is_early = is_mismatch(finding.verdict) && !finding.culprits.empty() &&
                        may_be_early(run, finding.culprits.front());
  if (!is_early && !rests_on_absence(finding.verdict)) return;
  finding.confidence = Confidence::open;
  finding.summary +=
      loser->recorder == "nsys"
          ? "; ranges of Nsight Systems have no numbers, so one that was lost would look the same"
          : "; the log does not number its calls, so one whose line was lost would look the same";
}

}  // namespace

void doubt_lost_lines(const trace::Run& run, std::vector<Finding>& findings) {
  if (has_waited(run)) return;
  for (Finding& finding : findings) doubt(run, finding);
}

}  // namespace rollcall::analysis
