// Other recorders' files, so that the engine serves people who do not run ours yet.
//
// A file is recognised by its content, never by its name; a directory may hold files of several
// recorders and of ours. Each importer fills Process::knowledge with what its source cannot know,
// and says it once as an Issue; the analysis grades its confidence by that.
//
// Whatever it is may be packed (gzip, zstd, xz) and in UTF-16. A text is read line by line in
// bounded memory, and what is in it may stand anywhere; the other formats are held whole, up to
// kForeignBytesMax, but for profiler traces, which are read as they come.
//
// Threads: reentrant.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/import/byte_stream.h"
#include "trace/import/file_kind.h"
#include "trace/model.h"

namespace rollcall::trace {

// The largest file, unpacked, that is read whole.
inline constexpr uint64_t kForeignBytesMax = 1ull << 30;

// What a file was.
struct ImportedFile {
  FileKind kind;
  // Something was found in it, or was said of it in `issues`. False: a file like many others that
  // lie about in directories.
  bool is_known = false;
  uint64_t lines = 0;  // of a text
};

// Whether the calls of a log are put into Process::ops, or left in Process::packed until it is
// known which of them are wanted.
enum class LoggedAs : uint8_t { operations, packed };

// When the file was last written, nanoseconds since the epoch; 0 where the file system does not
// tell.
int64_t time_written_ns(const std::string& path);

// Reads one foreign file; a log may hold several processes. Appends nothing to `processes` when the
// file is unusable, and says why in `issues`. What a log says in words goes to `logs`, if given.
ImportedFile import_file(const std::string& path, std::vector<Process>& processes,
                         std::vector<Issue>& issues, OnBytes on_bytes = {},
                         std::vector<JobLog>* logs = nullptr,
                         LoggedAs calls = LoggedAs::operations);

// The same of bytes that come from elsewhere; `path` is used for names and messages only.
ImportedFile import_stream(const std::string& path, std::unique_ptr<ByteStream> stream,
                           std::vector<Process>& processes, std::vector<Issue>& issues,
                           std::vector<JobLog>* logs = nullptr,
                           LoggedAs calls = LoggedAs::operations);

// The same of a file that has been read.
ImportedFile import_bytes(const std::string& path, std::span<const uint8_t> bytes,
                          std::vector<Process>& processes, std::vector<Issue>& issues,
                          std::vector<JobLog>* logs = nullptr);

// What to tell who named this very file, where nothing came of it.
std::string why_nothing(const ImportedFile& imported);

// --- one function per format; `path` is used for names and messages only -------------------------
void import_flight_recorder(const std::string& path, std::span<const uint8_t> bytes, bool json,
                            std::vector<Process>& processes, std::vector<Issue>& issues);
void import_inspector(const std::string& path, std::span<const uint8_t> bytes,
                      std::vector<Process>& processes, std::vector<Issue>& issues);
void import_ras_json(const std::string& path, std::span<const uint8_t> bytes,
                     std::vector<Process>& processes, std::vector<Issue>& issues);
void import_ras_text(const std::string& path, std::span<const uint8_t> bytes,
                     std::vector<Process>& processes, std::vector<Issue>& issues);

// Says where the process stood, of the rank in its file's name; there are no calls in it.
void import_py_spy(const std::string& path, std::span<const uint8_t> bytes,
                   std::vector<JobLog>& logs, std::vector<Issue>& issues);
// An export of Nsight Systems, where it lies; or one that came packed or through a pipe.
void import_nsys(const std::string& path, std::vector<Process>& processes,
                 std::vector<Issue>& issues);
void import_nsys(const std::string& path, std::span<const uint8_t> bytes,
                 std::vector<Process>& processes, std::vector<Issue>& issues);
// Read as they come, for they are large.
void import_kineto(const std::string& path, ByteStream& stream, std::vector<Process>& processes,
                   std::vector<Issue>& issues);

// The same on every rank that hashes the same text.
CommKey key_from_text(std::string_view text);

}  // namespace rollcall::trace
