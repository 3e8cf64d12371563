// Two sequences of calls held against each other: a run against an earlier one, or a rank against
// another of the same run.
//
// Communicators are told apart by lineage ("split 0 of world"), not by key, since another run has
// other keys and another rank other groups; peers of sends and receives by distance, since each
// rank has its own neighbours.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "trace/model.h"

namespace rollcall::comparison {

// What one call is, for comparison. `root_or_offset`: root in the communicator, or how many ranks
// further on the peer is (negative: back); -1 beside a kind without either.
struct CallShape {
  OpKind kind = OpKind::AllReduce;
  uint8_t datatype = kUnknown8;
  uint8_t reduction = kUnknown8;
  int32_t root_or_offset = -1;
  uint64_t count = 0;
  uint32_t comm = 0;  // index into CallTable::comm_names()
};

// Numbers shapes and communicators.
class CallTable {
 public:
  uint32_t number_of(const CallShape& shape);
  uint32_t comm_number_of(const std::string& name);
  const CallShape& shape(uint32_t number) const { return shapes_[number]; }
  const std::string& comm_name(uint32_t comm) const { return comm_names_[comm]; }

 private:
  using Key = std::tuple<OpKind, uint8_t, uint8_t, int32_t, uint64_t, uint32_t>;
  std::map<Key, uint32_t> numbers_;
  std::vector<CallShape> shapes_;
  std::map<std::string, uint32_t> comm_numbers_;
  std::vector<std::string> comm_names_;
};

// A stretch of the way from one sequence to the other.
struct Edit {
  enum Kind : uint8_t { same, removed, added } kind = same;
  size_t begin_a = 0;
  size_t begin_b = 0;
  size_t length = 0;
  friend bool operator==(const Edit&, const Edit&) = default;
};

// The fewest removals and additions that turn `a` into `b` (Myers, "An O(ND) difference algorithm
// and its variations", 1986), in order. Where more than `edits_max` would be needed, everything
// between the common beginning and the common end is removed and added, and `is_shortest` is false.
inline constexpr size_t kEditsMax = 2048;
std::vector<Edit> shortest_edits(std::span<const uint32_t> a, std::span<const uint32_t> b,
                                 size_t edits_max, bool& is_shortest);

// A sequence with its loops folded: one call, or a body, so many times.
struct Fold {
  uint32_t call = 0;       // where the body is empty
  std::vector<Fold> body;  // empty: one call
  uint64_t times = 1;
};
std::vector<Fold> fold(std::span<const uint32_t> calls);
std::vector<uint32_t> unfold(std::span<const Fold> folds);

// Ranks that differ alike.
struct Compared {
  std::vector<int32_t> ranks;  // of the first run; of a rank against another: the first
  std::vector<uint32_t> a;     // calls by number
  std::vector<uint32_t> b;
  std::vector<Edit> edits;
  bool is_shortest = true;
  bool is_equal() const {
    return edits.empty() || (edits.size() == 1 && edits[0].kind == Edit::same);
  }
};

struct Comparison {
  CallTable table;
  std::vector<Compared> groups;  // equal ones first, then by first difference
  std::vector<int32_t> only_a;   // ranks without a counterpart
  std::vector<int32_t> only_b;
  std::vector<int32_t> cut;  // ranks whose oldest calls are no longer on file in either run
  bool is_equal() const;
};

// Ranks are matched by job rank. Processes without one, and superseded ones, are left out.
Comparison compare_runs(const trace::Run& a, const trace::Run& b);
// `only_a` or `only_b` holds a rank that the run does not have.
Comparison compare_ranks(const trace::Run& run, int32_t first, int32_t second);

}  // namespace rollcall::comparison
