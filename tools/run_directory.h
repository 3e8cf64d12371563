// A run directory as an argument: reading an existing one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/jobs.h"
#include "trace/model.h"
#include "trace/team.h"

namespace rollcall::tools {

// What a run must hold to be of use to a command. A job's log holds words and no calls: it can be
// judged, and there is nothing in it to count or to draw.
enum class RunNeeds : uint8_t { calls, calls_or_words };

// Reads a run with a progress line: directories, files and "-", which is standard input, together.
// nullopt: nothing in it can be used, and `error` is the sentence that says what to do. `window` 0
// reads everything, unless `records_max` bounds what is held (trace/loader.h). Of a team all fail
// or none; rank 0 gets the run.
std::optional<trace::Run> read_run(const std::vector<std::string>& paths, uint64_t window,
                                   std::string& error, uint64_t records_max = 0,
                                   trace::Team* team = nullptr, RunNeeds needs = RunNeeds::calls);
std::optional<trace::Run> read_run(const std::string& path, uint64_t window, std::string& error,
                                   uint64_t records_max = 0, trace::Team* team = nullptr);

// Whether the paths are two directories: two runs to be held against each other, unless they are
// said to be of one.
bool are_two_directories(const std::vector<std::string>& paths);

// What a reader should know about the files, a line each on stderr, and how many calls are on no
// file: for what has no place for it.
void say_issues(const trace::Run& run);

// The jobs of a directory whose processes had no ROLLCALL_RUN_ID, where there are several.
std::optional<trace::Jobs> jobs_without_number(const trace::Run& run);
// Says on stderr, where there are, that `command` is about the newest, and how to name another.
void say_job_taken(const trace::Run& run, const std::string& command);

// A shell word: quoted where needed.
std::string shell_word(const std::string& text);

}  // namespace rollcall::tools
