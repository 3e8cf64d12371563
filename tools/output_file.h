// A file that a command writes: made beside its target under a name that nobody can know, and given
// the target's name once it is whole. Whoever reads the target finds the old file or the new one.
//
// The directory may belong to somebody who wishes the caller ill, root above all. So nothing in it
// is followed or opened that this class did not make: the directory is opened once, and everything
// happens below that descriptor; the new file must not exist before (O_EXCL); what the target is,
// is asked without opening it.
//
// The new file has the mode and the owner of the one that it replaces. Where that owner cannot be
// given, nothing is replaced.
//
// While it is written the new file is locked (flock), which tells it from one that a killed command
// left behind. SIGINT, SIGTERM, SIGHUP, an error and the destructor remove it.
//
// Threads: an object belongs to one thread; several threads may have one each.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::tools {

// A directory, held open. Invalid where `error()` is not 0.
class OpenDirectory {
 public:
  // Links in `path` are followed: the user named it.
  explicit OpenDirectory(const std::string& path);
  // A directory in that one, which is no link.
  OpenDirectory(const OpenDirectory& above, const std::string& name);
  ~OpenDirectory();
  OpenDirectory(const OpenDirectory&) = delete;
  OpenDirectory& operator=(const OpenDirectory&) = delete;

  int descriptor() const { return descriptor_; }
  int error() const { return error_; }  // an errno
  const std::string& path() const { return path_; }
  // Of what is in it and is, or may be, a regular file; sorted.
  std::vector<std::string> file_names() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int error_ = 0;
};

// Of a new file where there is none to replace.
enum class Privacy : uint8_t {
  own,    // 0600, as recordings are
  shared  // what the umask leaves of 0666
};

class OutputFile {
 public:
  // Makes the new file for the name `name` in `directory`. Both outlive the object.
  OutputFile(const OpenDirectory& directory, std::string name, Privacy privacy);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void write_at(uint64_t offset, const void* data, size_t bytes);
  void set_size(uint64_t bytes);

  // Gives it the name. False: `why()` says what went wrong, the first thing that did, and whatever
  // was there under the name still is.
  bool put_in_place();
  // The same of a file whose data may then be nowhere else: it is on the disk before the old one is
  // gone. Only where the name still is that of `replaced`; where it is not, somebody else was
  // faster, and `was_overtaken()`.
  bool put_in_place_of(const struct stat& replaced);
  bool was_overtaken() const { return overtaken_; }

  bool failed() const { return !why_.empty(); }
  // A clause without a full stop: "it is a pipe", "No space left on device".
  const std::string& why() const { return why_; }

 private:
  void make(Privacy privacy);
  bool make_once(uint32_t mode, int& error);
  void keep_owner(const struct stat& replaced);
  bool rename_to_target();
  void discard();
  void fail(int error);

  const OpenDirectory& directory_;
  const std::string name_;
  std::string temporary_;  // empty: there is none
  std::string why_;
  int descriptor_ = -1;
  int place_ = -1;  // among those that a signal removes
  bool overtaken_ = false;
};

// Removes what killed commands left in the directory: files with the name of a new one that nobody
// holds locked. Where the file system has no locks, nothing is removed.
void remove_leftovers(const OpenDirectory& directory);

// "it is a pipe", of what is no regular file; empty of one.
std::string_view objection_to_kind(uint32_t mode);

}  // namespace rollcall::tools
