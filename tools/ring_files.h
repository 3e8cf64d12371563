// The headers of a run's ring files, for what must not read whole files: watching and switching.
//
// Threads: none. Everything read is a copy; nothing is trusted but sizes that were checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/format/ring_layout.h"

namespace rollcall::tools {

// Paths of the ring files of a run, one level of folders deep, sorted.
std::vector<std::string> list_rings(const std::string& directory);

// Whether any of these rings is of that run.
bool holds_run(const std::string& directory, uint64_t run_id);

// The largest N of the directories attempt-N in this one that hold rings.
std::optional<uint64_t> newest_attempt(const std::string& directory);

// A copy of the header. nullopt: not a ring file of a version this command knows; `error`, where
// given, says why.
std::optional<FileHeader> read_header(const std::string& path, std::string* error = nullptr);

// The value of a key of the meta area, "" if absent.
std::string read_meta(const std::string& path, const FileHeader& header, const std::string& key);

// Writes capture_switch in the file, where the process that maps it sees it at its next call.
// False: `error` says why not.
bool write_switch(const std::string& path, uint32_t value, std::string& error);

}  // namespace rollcall::tools
