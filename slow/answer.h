// What `rollcall slow` answers: where the time of the steps went, and which one cause of it can be
// proven, if any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/verdict.h"
#include "slow/exposed.h"
#include "slow/timeline.h"

namespace rollcall::slow {

// A call in front of which a culprit takes longer than its peers.
struct Place {
  trace::Op op;        // of the culprit, in one of the steps
  std::string comm;    // its communicator
  double lost_ns = 0;  // median over the steps
  uint32_t unit = kNone;
};

// What makes some steps slow, and when.
enum class JitterCause : uint8_t { host, gpu, transfer };
struct Jitter {
  uint32_t slow_steps = 0;
  // Of most of what they take longer; of a straggler's slow steps, as are the periods.
  JitterCause cause = JitterCause::host;
  double cause_share = 0;
  uint32_t of_many = 0;   // slow steps in which at least half of the ranks took longer
  uint32_t of_one = 0;    // slow steps that one rank made by itself
  uint32_t gpus = 0;      // the ranks that made these
  uint32_t most = kNone;  // of these: index into Answer::gpus of that with most of them
  size_t most_steps = 0;
  uint32_t period = 0;          // steps from one slow step to the next; 0: they keep no distance
  uint32_t period_of_rank = 0;  // the same for those of one rank
};

// What is the matter, and what it costs.
struct Finding {
  analysis::Verdict verdict = analysis::Verdict::straggler;
  analysis::Confidence confidence = analysis::Confidence::likely;
  std::vector<uint32_t> gpus;  // culprits: indices into Answer::gpus
  uint32_t comm = kNone;       // culprit: index into Answer::comms
  uint32_t role = kNone;       // of an imbalance: that which has most to do; kNone: of peers
  double ratio = 0;            // of a transfer to its siblings'; of that role's work to the mean
                               // of all; of peers: standard deviation to mean
  double recovered = 0;        // share of a step that would be saved
  double recovered_ns = 0;     // median over the steps
  double floor = 0;            // the smallest share that would have been said
  double positive = 0;         // share of the steps in which the culprit took longer
  double excess_ns = 0;        // by which it took longer than its peers; median
  bool is_host_bound = false;  // most of it had passed when its process made the call
  double call_ratio = 0;       // time of its calls of NCCL to its peers'; of a slow launch
  Jitter jitter;               // of RC-JITTER, and of a straggler now and then
  uint32_t first_step = 0;
  uint32_t last_step = 0;
  uint32_t compared = 0;            // steps between these
  std::vector<Place> places;        // of the first culprit; the most expensive first
  std::vector<std::string> doubts;  // why it is not certain
};

// One GPU among its peers.
struct GpuRow {
  uint32_t process = kNone;  // index into Run::processes
  int32_t rank = -1;
  uint32_t role = kNone;
  uint32_t peers = 0;
  double own_ns = 0;     // of a step; median
  double excess_ns = 0;  // over the median peer; median over the steps
  double positive = 0;   // share of the steps in which it took longer
  double z = 0;          // robust, of own_ns among its peers
  double charged = 0;    // share of the steps that is charged to it, launches included
  double launch = 0;     // of these to launches
};

struct CommRow {
  std::string name;
  int32_t nranks = -1;
  CommKey key{};
  double charged = 0;  // share of the steps that is charged to its transfers
};

// A level that changed from one step on: of the steps, or, in the median of the ranks of a role, of
// their work in front of a call or of its transfer.
enum class ShiftOf : uint8_t { step, own, transfer };
struct Shift {
  ShiftOf what = ShiftOf::step;
  uint32_t step = 0;  // the first with the new level
  double before_ns = 0;
  double after_ns = 0;
  uint32_t role = kNone;
  Place place = {};  // which call
};

struct Answer {
  std::vector<GpuRow> gpus;
  std::vector<CommRow> comms;
  uint32_t job_gpus = 0;  // 0: not known, for ranks left no file
  Exposed exposed;        // of the compared steps; empty where nothing was compared
  uint32_t steps = 0;     // found
  uint32_t compared = 0;  // of these
  uint32_t special = 0;
  uint32_t first_step = 0;  // that is compared
  uint32_t last_step = 0;
  uint32_t units = 0;           // of a step of the first GPU
  std::vector<uint32_t> inner;  // smaller periods in it
  bool sizes_vary = false;
  double step_ns = 0;        // median
  double variation = 0;      // half of the range from the 5th to the 95th percentile, a share
  double floor = 0;          // nothing below this share is charged to one cause
  bool is_compared = false;  // false: nothing could be measured; `why_not` says why
  double unrecorded = 0;     // share of the steps spent waiting for ranks without a record
  double unexplained = 0;    // share of the steps by which record and charges differ
  std::vector<Shift> shifts;
  double smallest_shift = 0;  // share by which the step time would have had to change to be told
  std::optional<Finding> finding;
  // Why there is no finding: nothing compared, or what stood against the best candidate. One
  // sentence each.
  std::vector<std::string> why_not;
};

struct Question {
  std::vector<int32_t> ranks;  // to be told of; empty: all. All are compared.
  uint32_t first_step = 0;
  uint32_t last_step = kNone;
};

// Linear in the records of the run, but for the sorting of each GPU's; deterministic. A process
// that drives several GPUs is several ranks.
Answer answer(const trace::Run& run, const Question& question = {});

}  // namespace rollcall::slow
