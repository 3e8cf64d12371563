// Which ranks of a run go into a trace, and what is said of them there: a viewer shows hundreds of
// ranks well and thousands not at all.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/finding.h"
#include "report/perfetto/perfetto.h"
#include "trace/model.h"

namespace rollcall::report {

inline constexpr size_t kRanksWhole = 64;  // a run of so many is written whole
inline constexpr size_t kRanksMax = 256;   // of a larger one, without --ranks

// Of a run of more than kRanksWhole ranks: the culprits, of these the peers and neighbours in the
// communicator, one rank that waits and one that is waited for of each wait, two ranks of each
// class of equal ranks, and then the first ones, up to kRanksWhole. At most kRanksMax. Indices of
// processes, rising. `run` is what the report is of, or its parts (analysis/views/by_gpu.h).
std::vector<uint32_t> ranks_that_matter(const trace::Run& run, const analysis::Report& report);

// Puts the verdict, names of communicators and what is said of single ranks into the options.
void add_verdict(const trace::Run& run, const analysis::Report& report, PerfettoOptions& options);

// The communicator that the report is about, else the largest one; nothing where there is none.
std::optional<CommKey> comm_concerned(const analysis::Report& report);

// Leaves of a process what it did from its call number `seq` - kCallsAround of the communicator on,
// up to number `seq` + kCallsAround. Nothing is left where none of these is on file.
inline constexpr uint64_t kCallsAround = 20;
void keep_around(trace::Process& process, const CommKey& comm, uint64_t seq);

// Leaves of a process what it did from the one time on, and before the other.
void keep_between(trace::Process& process, int64_t from_ns, int64_t until_ns);

}  // namespace rollcall::report
