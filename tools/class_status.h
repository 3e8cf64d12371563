// Exit statuses by the class of a verdict, for whoever decides about a restart by nothing else:
// with --exit-by-class they stand in place of kExitHang, and of the status of a job that failed. A
// verdict of unknown class leaves either as it is. 93 is what NVIDIA's Resiliency Extension takes
// for "do not start it again".
//
// Threads: plain functions.
#pragma once

#include <string_view>

#include "analysis/verdict.h"

namespace rollcall::tools {

inline constexpr int kExitProgram = 93;  // a restart repeats it
inline constexpr int kExitNode = 94;     // another node does not have it
inline constexpr int kExitFabric = 95;   // a restart may meet it again, there or elsewhere
inline constexpr int kExitOutside = 96;  // a signal, a loader, settings: nobody of the job can know

// For the help of each command that has the option.
inline constexpr const char* kExitByClassHelp =
    "exit status by the verdict's class in place of 1: 93 program, 94 node, 95 fabric, 96 outside "
    "(docs/VERDICTS.md)";

// kExitHang where the class is unknown.
int exit_status_of(analysis::Origin origin);
// By the name of the class.
int exit_status_of(std::string_view origin);
// kExitHang, or one of those in its place.
bool is_hang_status(int status);

}  // namespace rollcall::tools
