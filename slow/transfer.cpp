// RC-SLOW-TRANSFER: everybody has come, and the operations of one communicator still take longer
// than the same ones of its siblings: communicators of other ranks of the same role, that do the
// same in the same place of the step.
//
// It says nothing with fewer than three siblings, for then nobody knows what is usual, and nothing
// of several communicators at a time. It names a communicator, and no rank: which link of it is
// slow these times do not tell.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "slow/evidence.h"
#include "slow/robust.h"

namespace rollcall::slow {
namespace {

constexpr size_t kSiblingsMin = 3;
constexpr size_t kCallsMin = 20;
constexpr double kRatioMin = 1.2;
constexpr double kSlowerMin = 0.8;  // share of the calls
constexpr double kSignificance = 1e-3;
constexpr double kNextShare = 0.2;
constexpr size_t kParts = 3;

using RoleSlot = std::pair<uint32_t, uint32_t>;
using Meetings = std::map<uint32_t, std::vector<uint32_t>>;  // by communicator

struct Slowness {
  double excess_ns = 0;                  // of a step, over all places
  double ratio = 0;                      // the largest of them
  double positive = 0;                   // share of the calls, at that place
  std::map<uint32_t, int64_t> usual_ns;  // by meeting
};

class Rule {
 public:
  Rule(Evidence& evidence, std::vector<std::string>& why_not)
      : evidence_(evidence), why_not_(why_not) {}

  std::optional<Finding> ask() {
    collect();
    for (const auto& [place, of_comm] : places_) compare(of_comm);
    uint32_t worst = kNone;
    for (const auto& [comm, slowness] : slow_) {
      if (worst == kNone || slowness.excess_ns > slow_[worst].excess_ns) worst = comm;
    }
    if (worst == kNone) return std::nullopt;
    for (const auto& [comm, slowness] : slow_) {
      if (comm == worst || slowness.excess_ns < kNextShare * slow_[worst].excess_ns) continue;
      why_not_.push_back(
          "the transfers of several communicators take longer than those of their siblings: which "
          "link they share is not on file");
      return std::nullopt;
    }
    return judge(worst);
  }

 private:
  void collect() {
    const Timeline& timeline = evidence_.timeline();
    std::vector<bool> is_usable(evidence_.steps().count, false);
    for (const uint32_t step : evidence_.steps().usable) is_usable[step] = true;
    for (uint32_t m = 0; m < timeline.meetings.size(); ++m) {
      const Meeting& meeting = timeline.meetings[m];
      if (meeting.kind != MeetingKind::all || !meeting.is_whole) continue;
      const Unit& unit = timeline.units[timeline.seats[meeting.begin]];
      if (unit.step >= is_usable.size() || !is_usable[unit.step]) continue;
      places_[{timeline.gpus[unit.gpu].role, unit.slot}][meeting.comm].push_back(m);
    }
  }

  std::vector<double> spans_of(const std::vector<uint32_t>& meetings) const {
    std::vector<double> spans;
    for (const uint32_t m : meetings) {
      spans.push_back(static_cast<double>(evidence_.timeline().meetings[m].transfer_ns));
    }
    return spans;
  }

  void compare(const Meetings& of_comm) {
    if (of_comm.size() < kSiblingsMin + 1) return;
    std::map<uint32_t, double> medians;
    for (const auto& [comm, meetings] : of_comm) {
      if (meetings.size() < kCallsMin) return;
      medians[comm] = median(spans_of(meetings));
    }
    for (const auto& [comm, meetings] : of_comm) {
      std::vector<double> others;
      for (const auto& [other, value] : medians) {
        if (other != comm) others.push_back(value);
      }
      const double usual_ns = median(std::move(others));
      if (usual_ns <= 0 || medians[comm] < kRatioMin * usual_ns) continue;
      note(comm, meetings, medians[comm], usual_ns);
    }
  }

  void note(uint32_t comm, const std::vector<uint32_t>& meetings, double own_ns, double usual_ns) {
    const std::vector<double> spans = spans_of(meetings);
    const auto slower = static_cast<size_t>(std::count_if(
        spans.begin(), spans.end(), [usual_ns](double span) { return span > usual_ns; }));
    const double share = static_cast<double>(slower) / static_cast<double>(spans.size());
    const double chance =
        sign_test(slower, spans.size()) * static_cast<double>(evidence_.timeline().comms.size());
    if (share < kSlowerMin || chance > kSignificance) return;
    Slowness& slowness = slow_[comm];
    slowness.excess_ns += own_ns - usual_ns;
    if (own_ns / usual_ns > slowness.ratio) {
      slowness.ratio = own_ns / usual_ns;
      slowness.positive = share;
    }
    for (const uint32_t m : meetings) slowness.usual_ns[m] = static_cast<int64_t>(usual_ns);
  }

  std::optional<Finding> judge(uint32_t comm) {
    const Slowness& slowness = slow_[comm];
    std::vector<int64_t> transfer_ns = evidence_.replay().recorded_transfers();
    for (const auto& [m, usual_ns] : slowness.usual_ns) {
      transfer_ns[m] = std::min(transfer_ns[m], usual_ns);
    }
    const std::vector<double> saved = evidence_.saved_ns(evidence_.own_times().all(), transfer_ns);
    Finding finding;
    finding.verdict = analysis::Verdict::slow_transfer;
    finding.comm = comm;
    finding.recovered_ns = median(saved);
    finding.recovered = finding.recovered_ns / evidence_.median_step_ns();
    finding.floor = floor_of(saved, evidence_.median_step_ns());
    finding.positive = slowness.positive;
    finding.excess_ns = slowness.excess_ns;
    finding.ratio = slowness.ratio;
    finding.first_step = evidence_.steps().usable.front();
    finding.last_step = evidence_.steps().usable.back();
    finding.compared = static_cast<uint32_t>(evidence_.compared());
    if (finding.recovered < finding.floor || !lasts(saved, finding.recovered_ns)) {
      why_not_.push_back(fmt::format(
          "the transfers of one communicator take {:.1f} times as long as its siblings', but the "
          "steps would be shorter by {:.1f} % only without that",
          slowness.ratio, 100 * finding.recovered));
      return std::nullopt;
    }
    finding.confidence = evidence_.compared() < kStepsCertain ? analysis::Confidence::open
                                                              : analysis::Confidence::likely;
    return finding;
  }

  static bool lasts(const std::vector<double>& saved, double all_ns) {
    for (size_t part = 0; part < kParts; ++part) {
      const auto begin = saved.begin() + static_cast<ptrdiff_t>(saved.size() * part / kParts);
      const auto end = saved.begin() + static_cast<ptrdiff_t>(saved.size() * (part + 1) / kParts);
      if (median({begin, end}) < 0.5 * all_ns) return false;
    }
    return true;
  }

  Evidence& evidence_;
  std::vector<std::string>& why_not_;
  std::map<RoleSlot, Meetings> places_;
  std::map<uint32_t, Slowness> slow_;  // by communicator
};

}  // namespace

std::optional<Finding> find_slow_transfer(Evidence& evidence, std::vector<std::string>& why_not) {
  return Rule(evidence, why_not).ask();
}

}  // namespace rollcall::slow
