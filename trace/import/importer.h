// Other recorders' files, so that the engine serves people who do not run ours yet.
//
// A file is recognised by its content, never by its name; a directory may hold files of several
// recorders and of ours. Each importer fills Process::knowledge with what its source cannot know,
// and says it once as an Issue; the analysis grades its confidence by that.
//
// Threads: reentrant.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trace/model.h"

namespace rollcall::trace {

enum class ForeignFormat : uint8_t {
  none,
  flight_recorder_pickle,
  flight_recorder_json,
  nccl_log,
  inspector,
  ras_json,
  ras_text
};

// What the first bytes look like; `none` when it is nothing we read.
ForeignFormat recognise(std::span<const uint8_t> head);

// The largest foreign file that is read whole.
inline constexpr uint64_t kForeignBytesMax = 1ull << 30;

// Reads one foreign file; a log may hold several processes. Appends nothing to `processes` when the
// file is unusable, and says why in `issues`.
void import_file(const std::string& path, std::vector<Process>& processes,
                 std::vector<Issue>& issues);

// The same of a file that has been read; `path` is used for names and messages only.
void import_bytes(const std::string& path, std::span<const uint8_t> bytes,
                  std::vector<Process>& processes, std::vector<Issue>& issues);

// --- one function per format; `path` is used for names and messages only -------------------------
void import_flight_recorder(const std::string& path, std::span<const uint8_t> bytes, bool json,
                            std::vector<Process>& processes, std::vector<Issue>& issues);
void import_nccl_log(const std::string& path, std::span<const uint8_t> bytes,
                     std::vector<Process>& processes, std::vector<Issue>& issues);
void import_inspector(const std::string& path, std::span<const uint8_t> bytes,
                      std::vector<Process>& processes, std::vector<Issue>& issues);
void import_ras_json(const std::string& path, std::span<const uint8_t> bytes,
                     std::vector<Process>& processes, std::vector<Issue>& issues);
void import_ras_text(const std::string& path, std::span<const uint8_t> bytes,
                     std::vector<Process>& processes, std::vector<Issue>& issues);

// The same on every rank that hashes the same text.
CommKey key_from_text(std::string_view text);

}  // namespace rollcall::trace
