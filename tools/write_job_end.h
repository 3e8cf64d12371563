// Writes how a job ended into its run directory (trace/job_end.h), for `rollcall diff`.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "trace/model.h"

namespace rollcall::tools {

// `end` without its file and host, which are this process's own. False: `error` is a clause.
bool write_job_end(const std::string& directory, trace::JobEnd end, std::string& error);

}  // namespace rollcall::tools
