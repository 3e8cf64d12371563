// Configuration files: which value holds, and that what else may lie in their place does no harm.
#include "core/base/setting_files.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace rollcall {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCannot = "(cannot)";

class Place {
 public:
  Place() {
    char name[] = "/tmp/rollcall-settings-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Place() { fs::remove_all(folder_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  std::string path() const { return folder_ + "/rollcall.conf"; }
  std::string folder() const { return folder_; }
  std::string write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path(), std::ios::binary) << text;
    chmod(path().c_str(), mode);
    return path();
  }

 private:
  std::string folder_;
};

using Variables = std::vector<std::pair<const char*, std::string>>;

// What a new process says: files are read once in each.
std::string in_child(const Variables& variables, const std::function<std::string()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const char* name : {"ROLLCALL_CONF_FILE", "XDG_CONFIG_HOME", "HOME"}) unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
    const std::string said = body();
    const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t bytes = 0; (bytes = read(ends[0], part, sizeof(part))) > 0;) {
    said.append(part, static_cast<size_t>(bytes));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return said;
}

std::string text_of(const char* name) {
  const char* value = setting(name);
  return value == nullptr ? "(none)" : value;
}

std::string value_in(const std::string& file, const char* name, Variables more = {}) {
  more.emplace_back("ROLLCALL_CONF_FILE", file);
  return in_child(more, [name] { return text_of(name); });
}

std::string complaints() {
  static std::string all;
  all.clear();
  complain_about_setting_files([](std::string_view sentence) { all.append(sentence) += '\n'; });
  return all;
}

std::string complaints_about(const std::string& file) {
  return in_child({{"ROLLCALL_CONF_FILE", file}}, complaints);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A name space in which /etc is empty but for this file; false where none can be had.
bool put_in_etc(const std::string& text) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", "/etc", "tmpfs", 0, "mode=755") != 0) {
    return false;
  }
  std::ofstream("/etc/rollcall.conf") << text;
  return true;
}

}  // namespace

TEST_CASE("a variable is taken from the file where the environment has none, or an empty one") {
  const Place place;
  place.write("# ours\n\n  ROLLCALL_RING_SLOTS = 128 \r\nROLLCALL_VERBOSE=2");
  CHECK(value_in(place.path(), "ROLLCALL_RING_SLOTS") == "128");
  CHECK(value_in(place.path(), "ROLLCALL_VERBOSE") == "2");
  CHECK(value_in(place.path(), "ROLLCALL_RING_SLOTS", {{"ROLLCALL_RING_SLOTS", ""}}) == "128");
  CHECK(value_in(place.path(), "ROLLCALL_RING_SLOTS", {{"ROLLCALL_RING_SLOTS", "64"}}) == "64");
  CHECK(value_in(place.path(), "ROLLCALL_DIR") == "(none)");
  CHECK(complaints_about(place.path()).empty());
}

TEST_CASE("the environment goes before the user's file, and that before the system's") {
  const Place place;
  place.write("ROLLCALL_RING_SLOTS=128\nROLLCALL_VERBOSE=\n");
  const std::string said = in_child(
      {{"XDG_CONFIG_HOME", place.folder()}, {"ROLLCALL_HISTORY", "0"}}, []() -> std::string {
        if (!put_in_etc("ROLLCALL_RING_SLOTS=256\nROLLCALL_VERBOSE=2\nROLLCALL_HISTORY=1\n")) {
          return kCannot;
        }
        std::string line;
        for (const char* name : {"ROLLCALL_RING_SLOTS", "ROLLCALL_VERBOSE", "ROLLCALL_HISTORY"}) {
          const auto origin = static_cast<unsigned>(origin_of_setting(name));
          line += text_of(name) + " from " + std::to_string(origin) + ", ";
        }
        return line + setting_file(SettingOrigin::system_file) + complaints();
      });
  if (said == kCannot) {
    WARN("left out: no mount namespace can be had here");
    return;
  }
  CHECK(said == "128 from 2, 2 from 3, 0 from 1, /etc/rollcall.conf");
}

TEST_CASE("the user's file is found by XDG_CONFIG_HOME, else by HOME, else nowhere") {
  const Place place;
  fs::create_directory(place.folder() + "/.config");
  std::ofstream(place.folder() + "/.config/rollcall.conf") << "ROLLCALL_VERBOSE=0\n";
  chmod((place.folder() + "/.config/rollcall.conf").c_str(), 0644);
  place.write("ROLLCALL_VERBOSE=2\n");
  const auto verbose = [] { return text_of("ROLLCALL_VERBOSE"); };
  CHECK(in_child({{"HOME", place.folder()}}, verbose) == "0");
  CHECK(in_child({{"HOME", place.folder()}, {"XDG_CONFIG_HOME", place.folder()}}, verbose) == "2");
  CHECK(in_child({{"HOME", place.folder()}, {"XDG_CONFIG_HOME", "relative"}}, verbose) == "0");
  CHECK(in_child({{"HOME", "relative"}}, verbose) == "(none)");
  CHECK(in_child({{"HOME", "/" + std::string(5000, 'h')}}, verbose) == "(none)");
  CHECK(in_child({}, complaints).empty());
}

TEST_CASE("a path of a file takes variables of the environment, and a text in their place") {
  const Place place;
  place.write("ROLLCALL_DIR=/s/${WHO}/${JOB:-none}/x\nROLLCALL_GPU_TIMING=${WHO}\n");
  CHECK(value_in(place.path(), "ROLLCALL_DIR", {{"WHO", "me"}}) == "/s/me/none/x");
  CHECK(value_in(place.path(), "ROLLCALL_DIR", {{"WHO", "me"}, {"JOB", "7"}}) == "/s/me/7/x");
  CHECK(value_in(place.path(), "ROLLCALL_DIR") == "(none)");
  CHECK(contains(complaints_about(place.path()), "line 1: the environment has no WHO"));
  CHECK(value_in(place.path(), "ROLLCALL_GPU_TIMING") == "${WHO}");
  place.write("ROLLCALL_DIR=/s/${WHO");
  CHECK(value_in(place.path(), "ROLLCALL_DIR", {{"WHO", "me"}}) == "(none)");
}

TEST_CASE("the last of two lines holds, and one that is not understood is left out and told of") {
  const Place place;
  place.write("ROLLCALL_VERBOSE=0\nROLLCALL_VERBOSE=2\n");
  CHECK(value_in(place.path(), "ROLLCALL_VERBOSE") == "2");
  const std::pair<const char*, const char*> kLines[] = {
      {"ROLLCALL_VERBOSE 2", "line 1: this is not ROLLCALL_NAME=VALUE"},
      {"LD_PRELOAD=/x.so", "line 1: this is not ROLLCALL_NAME=VALUE"},
      {"ROLLCALL_DIR=\"/x\"", "a value is written without quotes"},
      {"ROLLCALL_DIR=/x\033[2J", "a character in it that is no text"},
      {"ROLLCALL_RUN_ID=1", "ROLLCALL_RUN_ID is taken from the environment alone"},
      {"ROLLCALL_CONF_FILE=/x", "ROLLCALL_CONF_FILE is taken from the environment alone"}};
  for (const auto& [line, complaint] : kLines) {
    place.write(std::string(line) + "\nROLLCALL_HISTORY=0\n");
    CHECK(value_in(place.path(), "ROLLCALL_HISTORY") == "0");
    CHECK(value_in(place.path(), "ROLLCALL_DIR") == "(none)");
    CHECK(contains(complaints_about(place.path()), complaint));
    CHECK_FALSE(contains(complaints_about(place.path()), "more"));
  }
}

TEST_CASE("a name that only another release may know is told of by the command alone") {
  const Place place;
  place.write("ROLLCALL_FUTURE=1\n");
  CHECK(complaints_about(place.path()).empty());
  const std::string listed = in_child({{"ROLLCALL_CONF_FILE", place.path()}}, [] {
    static std::string all;
    list_setting_complaints([](std::string_view sentence) { all.append(sentence); });
    return all;
  });
  CHECK(listed == place.path() + ", line 1: ROLLCALL_FUTURE is no variable; the line is not used");
}

TEST_CASE("bytes that are no text, and as many as fit, are read without harm") {
  const Place place;
  std::string noise(kSettingFileBytesMax, '\0');
  for (size_t at = 0; at < noise.size(); ++at) noise[at] = static_cast<char>(at * 7919 >> 3);
  place.write(noise);
  CHECK(value_in(place.path(), "ROLLCALL_DIR") == "(none)");
  place.write(std::string(100, '\0') + "\nROLLCALL_VERBOSE=0\n");
  CHECK(value_in(place.path(), "ROLLCALL_VERBOSE") == "0");
  std::string lines;
  while (lines.size() < kSettingFileBytesMax - 5000) {
    lines += "ROLLCALL_DIR=/" + std::string(4000, 'x') + "\n";
  }
  place.write(lines);
  CHECK(value_in(place.path(), "ROLLCALL_DIR").size() == 4001);
  CHECK(contains(complaints_about(place.path()), "too long together"));
}

TEST_CASE("a file that is too large is not used, not even its begin") {
  const Place place;
  place.write("ROLLCALL_VERBOSE=0\n" + std::string(kSettingFileBytesMax, '#'));
  CHECK(value_in(place.path(), "ROLLCALL_VERBOSE") == "(none)");
  CHECK(complaints_about(place.path()) ==
        place.path() + ": it is larger than 64 KiB; the file is not used\n");
}

TEST_CASE("a pipe, a device, a folder and an endless file are not read, and nobody waits") {
  const Place place;
  REQUIRE(mkfifo(place.path().c_str(), 0600) == 0);
  CHECK(contains(complaints_about(place.path()), "this is no file"));
  for (const char* path : {"/dev/zero", "/dev/ptmx", "/tmp", "/proc/self"}) {
    CHECK(contains(complaints_about(path), "this is no file"));
  }
  fs::remove(place.path());
  fs::create_symlink("/dev/zero", place.path());
  CHECK(contains(complaints_about(place.path()), "this is no file"));
  CHECK(value_in("/proc/self/pagemap", "ROLLCALL_DIR") == "(none)");
  CHECK(contains(complaints_about(place.folder() + "/absent"), "it cannot be opened"));
}

TEST_CASE("a link leads to the file, and an absent file of the usual place is nothing to tell") {
  const Place place;
  std::ofstream(place.folder() + "/other") << "ROLLCALL_VERBOSE=0\n";
  chmod((place.folder() + "/other").c_str(), 0600);
  fs::create_symlink(place.folder() + "/other", place.path());
  CHECK(value_in(place.path(), "ROLLCALL_VERBOSE") == "0");
  CHECK(in_child({{"XDG_CONFIG_HOME", "/nonexistent"}}, complaints).empty());
}

TEST_CASE("a file that others may write to, or that another user owns, is not believed") {
  const Place place;
  for (const mode_t mode : {0622, 0620, 0602}) {
    place.write("ROLLCALL_VERBOSE=0\n", mode);
    CHECK(value_in(place.path(), "ROLLCALL_VERBOSE") == "(none)");
    CHECK(contains(complaints_about(place.path()), "others than its owner may write to it"));
  }
  place.write("ROLLCALL_VERBOSE=0\n", 0644);
  CHECK(value_in(place.path(), "ROLLCALL_VERBOSE") == "0");
  if (geteuid() != 0) {
    WARN("left out: only root can give files away");
    return;
  }
  // In a container without that user, root of which is nobody outside.
  if (chown(place.path().c_str(), 4711, 4711) != 0) {
    REQUIRE((errno == EINVAL || errno == EPERM));
    WARN("left out: this root cannot give files away");
    return;
  }
  CHECK(value_in(place.path(), "ROLLCALL_VERBOSE") == "(none)");
  CHECK(contains(complaints_about(place.path()), "it belongs to user 4711, neither to root"));
}

TEST_CASE("a file that may not be read costs one sentence") {
  const Place place;
  place.write("ROLLCALL_VERBOSE=0\n", 0000);
  if (geteuid() != 0) {
    CHECK(contains(complaints_about(place.path()), "it cannot be opened for reading"));
    return;
  }
  chmod(place.folder().c_str(), 0755);
  const std::string said = in_child({{"ROLLCALL_CONF_FILE", place.path()}}, []() -> std::string {
    if (setegid(4711) == 0 && seteuid(4711) == 0) return complaints();
    return errno == EINVAL || errno == EPERM ? kCannot : "(failed)";
  });
  if (said == kCannot) {
    WARN("left out: this root cannot become another user");
    return;
  }
  CHECK(contains(said, "it cannot be opened for reading"));
}

}  // namespace rollcall
