#include "tools/bring_home.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/format/ring_copy.h"
#include "tools/output_file.h"
#include "tools/ring_files.h"
#include "trace/bytes.h"
#include "trace/live_ring.h"
#include "trace/liveness.h"
#include "trace/ring_reader.h"

namespace rollcall::tools {
namespace {

bool belongs_to_caller(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid();
}

bool is_over(const trace::FileSource& source, const std::string& path) {
  FileHeader header{};
  std::vector<trace::Issue> ignored;
  return trace::read_ring_header(source, path, header, ignored) &&
         trace::probe_behind_exit(header, source.descriptor()).liveness == trace::Liveness::dead;
}

// In its own directory it is a ring like any other.
bool copy_ring(const trace::FileSource& source, OutputFile& to) {
  std::vector<char> piece(1 << 20);
  for (uint64_t at = 0; at < source.size(); at += piece.size()) {
    const size_t wanted = std::min<uint64_t>(piece.size(), source.size() - at);
    if (source.read(at, piece.data(), wanted) != wanted) return false;
    if (at == 0) {
      std::fill_n(piece.begin() + kRingCopyNoteOffset, sizeof(RingCopyNote), '\0');
    }
    to.write_at(at, piece.data(), wanted);
  }
  return true;
}

void bring_home(const std::string& path, const std::string& live_path) {
  const trace::FileSource source(live_path);
  if (source.error() != 0 || !belongs_to_caller(source.descriptor()) ||
      !is_over(source, live_path)) {
    return;
  }
  const std::filesystem::path at(path);
  const OpenDirectory directory(at.has_parent_path() ? at.parent_path().string() : ".");
  struct stat copy {};
  if (directory.error() != 0 ||
      ::fstatat(directory.descriptor(), at.filename().c_str(), &copy, AT_SYMLINK_NOFOLLOW) != 0) {
    return;
  }
  // What fails is tried again by whoever reads the run next.
  OutputFile ring(directory, at.filename().string(), Privacy::own);
  if (copy_ring(source, ring) && ring.put_in_place_of(copy)) ::unlink(live_path.c_str());
}

}  // namespace

void bring_rings_home(const std::string& directory) {
  for (const std::string& path : list_rings(directory)) {
    const trace::LiveRing live = trace::find_live_ring(path);
    if (!live.path.empty()) bring_home(path, live.path);
  }
}

}  // namespace rollcall::tools
