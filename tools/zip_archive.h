// A ZIP archive whose members are stored as they are, as Perfetto opens it.
//
// Own code, because it is two headers a member: a library would be another dependency of a wheel
// that has to run everywhere, and what deflate would save is lost again where traces are packed
// already. Perfetto's reader knows neither ZIP64 nor sizes behind stored data: members and the
// archive are shorter than 4 GiB, and headers are written once a member's size is known.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/output_file.h"

namespace rollcall::tools {

class ZipArchive {
 public:
  // Nothing else writes to `file`, which outlives the object.
  explicit ZipArchive(OutputFile& file) : file_(file) {}

  // One member after the other; `name` is ASCII, and the archive's alone.
  void begin(const std::string& name);
  void add(std::string_view bytes);
  void end();
  // Behind the last member. The file is still to be put in place.
  void finish();

  // Longer than a ZIP archive can be: nothing is written any more, and the file is of no use.
  bool is_too_long() const { return is_too_long_; }
  // More members than its directory can count, 65,535: likewise.
  bool has_too_many() const { return has_too_many_; }
  bool failed() const { return is_too_long_ || has_too_many_ || file_.failed(); }

 private:
  struct Member {
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t checksum = 0;
  };

  void write(std::string_view bytes);

  OutputFile& file_;
  std::vector<Member> members_;
  uint64_t size_ = 0;
  bool is_too_long_ = false;
  bool has_too_many_ = false;
};

}  // namespace rollcall::tools
