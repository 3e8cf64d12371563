#include "tests/tools/command_line.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace rollcall::test {
namespace {

namespace fs = std::filesystem;
constexpr int kStepsMax = 12'000;  // of 10 ms

void step() {
  const timespec span{0, 10'000'000};
  nanosleep(&span, nullptr);
}

}  // namespace

Folder::Folder() {
  std::string name = (fs::temp_directory_path() / "rollcall-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

Folder::~Folder() {
  std::error_code failure;
  fs::remove_all(path_, failure);
}

Started::Started(const Folder& folder, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment, const char* program)
    : folder_(folder), pid_(fork()) {
  if (pid_ != 0) return;
  if (chdir(folder.path().c_str()) != 0) _exit(99);
  dup2(open("/dev/null", O_RDONLY), 0);
  dup2(open((folder / "stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
  dup2(open((folder / "stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
  unsetenv("LD_PRELOAD");
  setenv("ROLLCALL_LIB_DIR", ROLLCALL_TEST_LIBRARIES, 1);
  for (const std::string& variable : environment) putenv(strdup(variable.c_str()));
  std::vector<char*> words{strdup("rollcall")};
  for (const std::string& word : arguments) words.push_back(strdup(word.c_str()));
  words.push_back(nullptr);
  execv(program == nullptr ? ROLLCALL_COMMAND : program, words.data());
  _exit(98);
}

Started::~Started() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

bool comes_true(const std::function<bool()>& condition) {
  for (int at = 0; at < kStepsMax; ++at) {
    if (condition()) return true;
    step();
  }
  return false;
}

bool Started::says(const std::string& text) const {
  return comes_true([&] {
    return read_text(folder_ / "stderr").find(text) != std::string::npos ||
           read_text(folder_ / "stdout").find(text) != std::string::npos;
  });
}

Outcome Started::finish() {
  Outcome outcome;
  int status = 0;
  for (int at = 0; at < kStepsMax; ++at) {
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      pid_ = -1;
      break;
    }
    step();
  }
  outcome.out = read_text(folder_ / "stdout");
  outcome.err = read_text(folder_ / "stderr");
  return outcome;
}

Outcome run_command(const Folder& folder, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment) {
  return Started(folder, arguments, environment).finish();
}

Outcome run_shell(const Folder& folder, const std::string& line) {
  return Started(folder, {"-c", line}, {"ROLLCALL=" ROLLCALL_COMMAND}, "/bin/sh").finish();
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // Not by an iterator, which throws where a process ends while it is read about.
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int processes_with(const std::string& word) {
  int count = 0;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator("/proc", failure)) {
    const std::string line = read_text((entry.path() / "cmdline").string());
    if (line.find(word) != std::string::npos) ++count;
  }
  return count;
}

}  // namespace rollcall::test
