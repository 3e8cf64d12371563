// A finding in the making, and what its makers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/facts.h"
#include "analysis/finding.h"
#include "analysis/words/doing.h"

namespace rollcall::analysis {

// A finding and what orders it among the others.
struct Draft {
  Finding finding;
  int64_t since_ns = 0;
  uint32_t root = kNone;  // of the wait graph
  uint32_t node = kNone;  // the waiting call that the finding is about
  // Of a finding that is a circle: the calls whose waits its evidence tells.
  std::vector<uint32_t> told;
  bool is_decided = true;  // false: a circle of which nothing tells who began it
  // Where it is, for the table: kNone if nowhere.
  uint32_t group = kNone;
  uint64_t seq = 0;
};

// Of a verdict that does not tell the misstep by itself its maker does.
Draft make_draft(Verdict verdict, Confidence confidence, std::optional<Misstep> misstep = {});

// Of calls that differ by this slip.
Verdict verdict_of(Slip slip);
// Calls at one position of a communicator that name other arguments.
bool is_mismatch(Verdict verdict);
// The same, or a call of a communicator that is missing or comes out of order.
bool is_about_calls(Verdict verdict);
// Of a communicator that some ranks are making and others are not.
Verdict verdict_of_creation(const Facts& facts, const Node& node);

// The processes that it blames, rising.
std::vector<uint32_t> culprits_of(const Finding& finding);
Culprit culprit_of(const Facts& facts, uint32_t process, uint32_t group);
// Job ranks of processes that have one, sorted.
std::vector<int32_t> job_ranks_of(const Facts& facts, const std::vector<uint32_t>& processes);
void set_victims(const Facts& facts, const std::vector<uint32_t>& processes, Finding& finding);

// What follows from `showed` follows from the finding that explains it.
void take_what_follows(Finding& showed, Finding& finding);

void add_evidence(const Facts& facts, const OpRef& where, const std::string& text,
                  Finding& finding);
Evidence op_evidence(const Facts& facts, uint32_t process, uint32_t op, const std::string& text);
Evidence process_evidence(const Facts& facts, uint32_t process);
// The end of a communicator.
Evidence end_evidence(const Facts& facts, uint32_t process, const trace::Event& end);

// "AllReduce of 1024 float32 (sum), seq 11 of world".
std::string node_text(const Facts& facts, uint32_t node);

}  // namespace rollcall::analysis
