// How fast the operations of a run were: beside the same ones of communicators of the same shape,
// and beside what such communicators reached with no larger ones.
//
// A shape is a number of ranks on a number of hosts. Bandwidth on the bus rises with the size of an
// operation until it stays: one that is below what a smaller or equal one reached is slower than
// there is reason for. What the hardware could do is on no file.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/record/index.h"
#include "statistics/operation_table.h"

namespace rollcall::report {

struct BandwidthRow {
  size_t operation = 0;            // index into the table of operations
  uint32_t peers = 0;              // communicators of the same shape that did the same
  std::optional<double> of_peers;  // GB/s on the bus, their median
  std::optional<double> reached;   // GB/s on the bus; the most of its shape, its own included
  double behind_ns = 0;            // that its calls would have taken less with what was reached
};

// Of fewer calls with a GPU time nothing is expected.
inline constexpr uint64_t kTellingCalls = 8;

// What is furthest behind first; else in the order of the table.
std::vector<BandwidthRow> bandwidth_rows(const analysis::Index& index,
                                         const std::vector<statistics::OperationRow>& operations);

// As a tab. Empty: there is no operation.
std::string bandwidth_html(const analysis::Index& index,
                           const std::vector<statistics::OperationRow>& operations);

}  // namespace rollcall::report
