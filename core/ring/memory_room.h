// How much memory this process may still fill with files, before somebody is killed for it.
//
// A file on tmpfs is memory that nobody can reclaim. statvfs tells what the file system would take,
// not what the machine, or the memory cgroup of a container, has left: past that the kernel kills
// the job. So the answer is the smallest of what the machine has available and what each memory
// cgroup has left, from the process's own up to the root of what can be seen. (Both versions of
// cgroups; a container with a namespace of its own sees its cgroup as the root.)
//
// Pages of files on disk count as used in a cgroup and are given up when memory is short: a job
// that has read its data set would otherwise never have room. Of those in active use half counts.
//
// Threads: any. Opens and reads files of /proc and /sys, and maps memory to do so.
#pragma once

#include <cstdint>

namespace rollcall::ring {

inline constexpr uint64_t kMemoryUnknown = UINT64_MAX;

struct MemoryRoom {
  // Bytes that are left, and the smallest of the limits; kMemoryUnknown where nothing tells them.
  uint64_t available_bytes = kMemoryUnknown;
  uint64_t limit_bytes = kMemoryUnknown;
};
// `root` stands in front of /proc and of the mount points, for tests.
MemoryRoom read_memory_room(const char* root = "") noexcept;

// What the history of a process may take where it lies in memory: some millions of calls, and no
// more than a sixteenth of what a container may use, so that the eight processes of a machine take
// half of it at the most.
inline constexpr uint64_t kHistoryBytesInMemory = 32ull << 20;
inline constexpr uint64_t kHistoryShareOfMemory = 16;
uint64_t history_bytes_in_memory(const MemoryRoom& room) noexcept;

}  // namespace rollcall::ring
