// The roll of a communicator: how far each of its ranks is in each of its collectives, in logical
// time. A column is a position (seq), a row one rank or ranks that are alike, a cell the state of
// the call. Clocks play no part in it.
//
// Ranks whose states and calls are alike share a row where there are more than kRowsSingle;
// culprits have rows of their own. What most ranks called at a position is told once, for the
// column; a row tells where it called something else, or from another line of the script.
//
// Cost: linear in the records on file and in members times columns. Threads: plain functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/finding.h"
#include "analysis/record/index.h"

namespace rollcall::report {

// X(name, letter, glyph, words): a cell's state. The letter stands for it in the page's data, the
// glyph besides the colour in a cell that is large enough.
#define ROLLCALL_CELL_STATES(X)                                     \
  X(absent, 'a', "\u2715", "never called")                          \
  X(lost, 'l', "?", "no record on file")                            \
  X(no_file, 'n', "", "no file of this rank")                       \
  X(unread, 'e', "", "on disk, and not read")                       \
  X(unknown, 'u', "\u00b7", "called; how far it came is not known") \
  X(called, 'c', "\u25b8", "called, has not returned")              \
  X(returned, 'r', "\u25cf", "returned")                            \
  X(launched, 'k', "\u25b4", "launched")                            \
  X(started, 's', "\u25d0", "started on the GPU")                   \
  X(finished, 'f', "\u2713", "finished")                            \
  X(failed, 'x', "!", "refused by NCCL")

enum class CellState : uint8_t {
#define ROLLCALL_X(name, letter, glyph, words) name,
  ROLLCALL_CELL_STATES(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
char letter_of(CellState state);
std::string_view words_of(CellState state);
// Of a call that is on file.
CellState state_of(const trace::Process& process, const trace::Op& op);
// "train.py:63 metrics_of"; empty where it was not recorded.
std::string line_of(const trace::Process& process, const trace::Op& op);

// What a rank called, and from where.
struct RollCall {
  std::string call;  // "AllReduce 1024 float32 sum"
  std::string line;  // "train.py:63 metrics_of"; empty: not recorded
  friend bool operator==(const RollCall&, const RollCall&) = default;
};

struct RollRow {
  std::vector<int32_t> ranks;       // in the communicator, sorted
  std::vector<uint32_t> processes;  // by rank; empty where they left no file
  std::string states;               // a letter for each column
  // (column, index into Roll::calls) where it is not the column's usual one; columns rise.
  std::vector<std::pair<uint32_t, uint32_t>> others;
  bool is_culprit = false;
};

struct Roll {
  uint32_t group = analysis::kNone;  // of the index
  // Columns in stretches of positions: (first seq, columns).
  std::vector<std::pair<uint64_t, uint64_t>> stretches;
  uint64_t columns = 0;
  uint64_t positions = 0;  // that the communicator has; more than columns: the others are left out
  std::vector<RollCall> calls;
  std::vector<uint32_t> usual;  // by column: index into `calls`; kNone: nobody's call is on file
  std::vector<RollRow> rows;
  // Of the leading finding: the position where ranks part.
  std::optional<uint64_t> marked_seq;

  std::optional<uint64_t> column_of(uint64_t seq) const;
};

// More ranks than this share rows.
inline constexpr size_t kRowsSingle = 64;
// Newest positions that a roll has at most; as many again around the first difference, if that is
// older. Fewer where there are more members than kCellsMax lets have so many.
inline constexpr uint64_t kColumnsMax = 4096;
inline constexpr uint64_t kCellsMax = uint64_t{1} << 22;

// Of one group. `findings` name culprits and positions.
Roll roll_of(const analysis::Index& index, uint32_t group, const analysis::Report& report);

// The groups that have a roll, the one to look at first in front: that of the leading finding, else
// one with a difference, then by how many calls they have.
std::vector<uint32_t> groups_to_show(const analysis::Index& index, const analysis::Report& report);

}  // namespace rollcall::report
