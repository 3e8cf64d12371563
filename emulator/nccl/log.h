// NCCL's own log: NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE, with NVIDIA's line formats.
#pragma once

namespace emu_nccl {

enum Subsystem { kLogInit = 1, kLogColl = 2, kLogEnv = 4, kLogDestroy = 8 };

// A warning; its text is what ncclGetLastError returns from then on.
void warn(const char* format, ...) __attribute__((format(printf, 1, 2)));
// An INFO line of a subsystem.
void info(Subsystem subsystem, const char* format, ...) __attribute__((format(printf, 2, 3)));
bool info_wanted(Subsystem subsystem);
// "NCCL version …", once per process, where NCCL_DEBUG asks for it.
void print_version();
const char* last_error();
// Reads the variables again.
void reset_log();

}  // namespace emu_nccl
