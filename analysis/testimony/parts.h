// What the findings about a job's log are put together from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/finding.h"
#include "trace/testimony.h"

namespace rollcall::analysis {

// `misstep` where the verdict alone does not tell it.
Finding make_finding(Verdict verdict, Confidence confidence, std::optional<Misstep> misstep = {});

// The line as it stands in the log; of so many that all are shown no more.
void add_evidence(const trace::JobLog& log, const trace::Saying& saying, Finding& finding);

// Whether the line is shown there already.
bool is_evidence(const trace::JobLog& log, const trace::Saying& saying, const Finding& finding);

// Shows so many lines fewer as `count` more need, of those that are alike.
void make_room(size_t count, Finding& finding);

// A rank, with the call and the group of a line about it.
Culprit culprit_named(int32_t rank, const trace::Saying& saying);

// "rank 3", "ranks 0-2,5".
std::string ranks_text(const std::vector<int32_t>& ranks);

// The number behind the words; -1 where there is none.
int64_t number_in(std::string_view text, std::string_view words);

// Whether the line, or what was read of it, holds these words.
bool holds(const trace::Saying& saying, std::string_view words);

// "rank 3", or what else the line tells of who wrote it.
inline constexpr std::string_view kNobodyNamed = "a line that names no rank";
std::string speaker_text(const trace::Saying& saying);

// "; each host counts ...": of which rank the end of a process is told that mp.spawn() started;
// else empty.
std::string spawned_text(const trace::Saying& saying);

// JAX's coordination service heard nothing more of a process, which may run on.
bool is_of_heartbeat(const trace::Saying& saying);

// The service runs in process 0, which had not ended where it tells of itself.
void weigh_heartbeat(Finding& finding);

// The first `room` characters, and no part of a number or an address, which would name another.
std::string cut_before(const std::string& text, size_t room);

// "10.1.2.3" of "Got completion from peer 10.1.2.3<43210> with": what a first sentence has no room
// for.
std::string peer_of(const trace::Saying& saying);

}  // namespace rollcall::analysis
