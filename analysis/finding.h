// What the analysis has to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/verdict.h"
#include "core/format/ring_layout.h"

namespace rollcall::analysis {

// Where a rank stands in one dimension of a mesh: "dp", 3.
struct Coordinate {
  std::string dimension;
  int32_t index = 0;
};

struct Culprit {
  int32_t rank = -1;     // job rank; -1: none known, then `process` names it
  uint32_t process = 0;  // index into Run::processes; kNone: it left no file
  int32_t gpu = -1;      // of a process that drives several: its CUDA device there
  std::string host;
  uint32_t pid = 0;
  std::optional<CommKey> comm;
  std::string comm_name;
  int32_t comm_rank = -1;
  std::optional<uint64_t> seq;
  std::optional<uint64_t> p2p_seq;
  int32_t peer = -1;
  std::string op;                            // "AllReduce"; empty: none
  std::vector<Coordinate> coordinates = {};  // empty: no mesh is known (words/coordinates.h)
};

struct Evidence {
  std::string file;
  std::string record;  // "op 1234" (ticket), "event 7", "comm 3", "header"; empty: the file itself
  std::string text;
};

// Records that a finding quotes beyond this are left out.
inline constexpr size_t kEvidenceMax = 8;

// A call that waits because of a finding. Nobody is at fault in it.
struct Wait {
  std::vector<int32_t> ranks;  // job ranks that wait in it, sorted
  // Job ranks that have not made it, or, where all have, those whose GPUs have not come to it;
  // sorted. Empty: the job gave them no ranks.
  std::vector<int32_t> for_ranks;
  std::string call;             // "AllReduce of 1024 float32 (sum), seq 11 of world"
  std::optional<CommKey> comm;  // nothing for a transfer
  std::string comm_name;
  std::optional<uint64_t> seq;
  std::string text;  // one sentence
};

struct Finding {
  Verdict verdict = Verdict::insufficient;
  Severity severity = Severity::info;
  Confidence confidence = Confidence::open;
  // What the culprits did; nothing where that is no matter of calls, or where nothing on file tells
  // which of two sides did what.
  std::optional<Misstep> misstep;
  std::string summary;  // one sentence in plain English: rank, call, why
  std::string next;     // one line: what to look at next
  std::vector<Culprit> culprits;
  std::vector<int32_t> victims;  // job ranks, sorted
  std::vector<Evidence> evidence;
  // What follows from it: calls that wait, `waits_left_out` more than are listed, and findings that
  // would be findings of their own without this one.
  std::vector<Wait> waits;
  uint32_t waits_left_out = 0;
  std::vector<Finding> consequences;
};

// Ranks wait for it, or compute nonsense.
inline bool is_defect(const Finding& finding) {
  return finding.severity == Severity::hang || finding.severity == Severity::corruption;
}

// The class of the code, or what the record behind the finding tells beyond that: memory of a GPU
// that CUDA itself calls faulty is of the node.
Origin origin_of(const Finding& finding);

// One communicator across its ranks.
struct CommSummary {
  CommKey key{};
  std::string name;  // the user's, else made up: "world", "split 2 of world"
  int32_t nranks = -1;
  std::vector<int32_t> ranks;  // job ranks, by communicator rank
  std::optional<CommKey> parent;
  std::optional<uint64_t> last_common_seq;
  std::optional<uint64_t> first_difference_seq;
};

// The row of one rank in the table "last common call and first difference".
struct RankRow {
  int32_t rank = -1;
  uint32_t process = 0;
  std::string comm_name;
  std::string last_common;  // "seq 11 AllReduce 1024 float32 sum"
  std::string here;         // what this rank has at the first difference; "-" nothing
  std::string state;        // "waits inside", "returned", "never called", "process gone", ...
  std::string since;        // "for 12.3 s"
};

struct Report {
  int status = 3;                 // exit status of `rollcall diff`: see verdicts
  std::vector<Finding> findings;  // the leading one first
  std::vector<CommSummary> comms;
  std::vector<RankRow> table;
  std::string numbering;  // what ranks are where processes drive several GPUs; empty: job ranks
};

}  // namespace rollcall::analysis
