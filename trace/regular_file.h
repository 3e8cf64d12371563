// Opens regular files, and nothing else.
//
// To open a device may have an effect (a tape rewinds, a watchdog starts, /dev/ptmx makes a
// terminal), to open a pipe one too, and a run directory may hold either under the name of a
// recording. What a name stands for is therefore settled first, by a descriptor that opens nothing
// (O_PATH), and that very file is then opened, whatever the name has come to stand for meanwhile.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>

namespace rollcall::trace {

enum class Links : uint8_t {
  followed,
  refused  // ELOOP; for what is written to
};

// The descriptor, which is the caller's, or an errno negated: EISDIR of a directory, EINVAL of what
// else is no regular file. `access` is O_RDONLY or O_RDWR. `directory`: where a relative path
// begins, AT_FDCWD for the working directory.
int open_regular(int directory, const std::string& path, int access, Links links = Links::followed);
// Of the working directory, to be read.
int open_regular(const std::string& path);

}  // namespace rollcall::trace
