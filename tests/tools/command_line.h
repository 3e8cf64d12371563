// Runs the command and keeps what it said.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace rollcall::test {

struct Outcome {
  int status = -1;  // as a shell reports it; -1: it did not end in time
  std::string out;
  std::string err;
};

// A folder for one test, removed with everything in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A started command, or another program. Its output goes to files in `folder`, which is its working
// directory.
class Started {
 public:
  Started(const Folder& folder, const std::vector<std::string>& arguments,
          const std::vector<std::string>& environment = {}, const char* program = nullptr);
  ~Started();
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  pid_t pid() const { return pid_; }
  // Waits until its stderr or stdout holds `text`.
  bool says(const std::string& text) const;
  Outcome finish();

 private:
  const Folder& folder_;
  pid_t pid_;
};

Outcome run_command(const Folder& folder, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {});
// A line for sh, in which "$ROLLCALL" is the command.
Outcome run_shell(const Folder& folder, const std::string& line);
// Waits until it is so; false: it did not come to that.
bool comes_true(const std::function<bool()>& condition);
std::string read_text(const std::string& path);
// Processes of this machine with `word` in their command line.
int processes_with(const std::string& word);

}  // namespace rollcall::test
