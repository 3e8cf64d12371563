// The ring file as its writer sees it: created, reserved, locked and mapped.
//
// Space is reserved before anything is mapped, so a full disk, or one that the job would find full,
// is an error here and not SIGBUS in the job. A write lock (fcntl, classic) is held on the file for
// the life of the process: the kernel drops it when the process ends, by whatever means, and a
// forked child does not inherit it, so a reader that finds the lock free knows that the writer is
// gone. (Where the file system has no locks, as Lustre without -o flock, the header says so.)
// Closing *any* descriptor of the file in the process would drop it as well: nothing else may ever
// open the file here.
//
// Threads: creation is one thread's; the mapping is everybody's.
#pragma once

#include <cstdint>

#include "core/base/text.h"
#include "core/format/file_name.h"
#include "core/format/header_check.h"
#include "core/format/ring_layout.h"

namespace rollcall::ring {

inline constexpr uint32_t kPathBytes = 4096;
// Descriptors are moved up here, or as far as the limit allows, never to one of 0 to 2: programs
// that count on small numbers for their own keep them.
inline constexpr int kDescriptorFloor = 100;

struct Incarnation {
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  uint64_t start_time_ticks = 0;
  uint64_t pid_namespace = 0;
  char boot_id[40] = {};
  char host[kHostNameBytes] = {};
  uint64_t run_id = 0;
};
// What the system says about this process.
Incarnation read_incarnation() noexcept;

struct FileIdentity {
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;  // 0: not known

  bool operator==(const FileIdentity&) const = default;
};

struct RingFile {
  char* memory = nullptr;  // null: not mapped
  uint64_t bytes = 0;
  // Of use while the file is created. Later the job may have closed all descriptors, as daemons do,
  // and have a file of its own behind this number: `identity` tells.
  int descriptor = -1;
  FileIdentity identity;
  bool is_in_memory = false;  // it lies on no disk
  // As in its header, which is for readers: somebody may write over that.
  Incarnation incarnation;
  FileHeader* header = nullptr;
  SelfStatistics* stats = nullptr;
  char* meta = nullptr;
  ThreadEntry* threads = nullptr;
  CommEntry* comms = nullptr;
  EventRecord* events = nullptr;
  OpRecord* ops = nullptr;
  ChannelEntry* channels = nullptr;
  KernelPhasesEntry* kernel_phases = nullptr;
  GraphEntry* graphs = nullptr;
  uint64_t* progress = nullptr;  // directly behind `graphs`, on pages of their own
};

// What failed, for one line on stderr: "cannot <step> <path>: <strerror>".
struct RingError {
  const char* step = nullptr;
  int error_number = 0;
};

// Creates `directory` (0700, with parents) and in it the file; `stem` receives the stem used.
// False: `error` says why, and nothing is left behind. SIGXFSZ is not delivered to the caller.
bool create_ring_file(const char* directory, const Incarnation& incarnation,
                      const RingGeometry& geometry, RingFile& file, TextWriter& stem,
                      RingError& error) noexcept;

// The same where the ring does not live in its run directory (core/format/ring_copy.h): a file of
// its own in `local_directory`, which has to be on a local file system, or where that does not take
// it in memory of this process alone, which no reader can see. `path` receives the file's path, or
// stays empty.
bool create_live_ring(const char* local_directory, const Incarnation& incarnation,
                      const RingGeometry& geometry, RingFile& file, TextWriter& path,
                      RingError& error) noexcept;

// Undoes create_ring_file, of a ring that nobody has recorded into.
void remove_ring_file(RingFile& file, const char* directory, std::string_view stem) noexcept;

// True where what is mapped cannot fail to come back for want of another machine or of a program:
// the kinds of file systems that keep their files on this machine's disks or in its memory. A
// container's overlay is taken for one: the kernel accepts no network file system for the layer
// that is written to.
bool is_on_local_file_system(int descriptor) noexcept;

// A new file <prefix><stem>.ring, with the first number that is free. -1 with errno set.
int create_file(const char* directory, std::string_view prefix, const Incarnation& incarnation,
                TextWriter& stem, TextWriter& path) noexcept;

FileIdentity identity_of(int descriptor) noexcept;

// Stores the magic: from here on the file is whole.
void finish_ring_file(RingFile& file) noexcept;

// For a forked child: the parent's mapping becomes private zeros at the same address (a token of a
// call that was in flight must stay harmless), and the descriptor is closed, if it is still the
// file's.
void abandon_ring_file(RingFile& file) noexcept;

// mkdir -p with mode 0700 for what is missing. False with errno set. One thread at a time.
bool make_directories(const char* path) noexcept;

// True where the file system of `descriptor` can give so much and still keeps half of itself, or
// `kept_max`, for the job; and where it does not say. Where it lies in memory the same has to hold
// of the memory (core/ring/memory_room.h). False with errno set.
bool leaves_room(int descriptor, uint64_t bytes, uint64_t kept_max) noexcept;
// The question about the memory alone.
bool memory_leaves_room(uint64_t bytes, uint64_t kept_max) noexcept;
// True where the file lies on no disk: tmpfs, ramfs.
bool is_in_memory(int descriptor) noexcept;

}  // namespace rollcall::ring
