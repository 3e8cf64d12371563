// How a job ended that did not end well, as the `rollcall run` beside it saw: a small file of its
// own in the run directory, <host>.<pid>.<start>.ended, of lines "key=value" (docs/FORMAT.md).
//
// A job on several hosts has several such commands, and leaves as many files as failed. A job that
// ended with 0 leaves none.
//
// Threads: plain functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/model.h"

namespace rollcall::trace {

inline constexpr std::string_view kJobEndEnding = ".ended";

std::string text_of(const JobEnd& end);
// Anybody may have written it. nullopt: it is none of this version.
std::optional<JobEnd> parse_job_end(std::string_view text_untrusted);

// Those of the files that can be read; what cannot is an Issue.
std::vector<JobEnd> read_job_ends(const std::vector<std::string>& paths,
                                  std::vector<Issue>& issues);

std::string_view name_of(EndReason reason);

}  // namespace rollcall::trace
