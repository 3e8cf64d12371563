// Logs that were rotated while the job wrote them: job.log with job.log.1 and job.log.2.gz, or with
// job.log-20260801. The parts are one text, the oldest first; what is read of each alone has no
// beginning, or no end, and two parts read side by side have no order.
//
// Threads: plain functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trace/import/importer.h"

namespace rollcall::trace {

// Each log with its parts, the oldest first; a file that is no part of another stands alone. In the
// order of the paths, by the newest part. Judged by names: see are_texts().
std::vector<std::vector<std::string>> gather_rotated(const std::vector<std::string>& paths);

// Whether every part is a text by its first bytes, or empty, or packed by what is not read here.
bool are_texts(const std::vector<std::string>& parts);

// Whether no part's lines are younger than those that the next one begins with, where lines have
// times with a date. Files of ranks that count from 1 look like parts by their names alone.
bool follow_in_time(const std::vector<std::string>& parts);

// The parts as one text, under the name of the newest. A part that the next one begins with is a
// copy of its beginning, and left out. One that was packed with bzip2 or lz4 is left out with those
// older than it, and named.
ImportedFile import_rotated(const std::vector<std::string>& parts, std::vector<Process>& processes,
                            std::vector<Issue>& issues, const OnBytes& on_bytes,
                            std::vector<JobLog>* logs, LoggedAs calls = LoggedAs::operations);

}  // namespace rollcall::trace
