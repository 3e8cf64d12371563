// What is said of every log that says something: how much was read, and who speaks in it.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "trace/testimony.h"

namespace rollcall::trace {

std::string description_of(const JobLog& log);

}  // namespace rollcall::trace
