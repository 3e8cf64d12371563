// A file system of a few megabytes in a mount namespace of the recording process, so that nothing
// is left mounted whatever happens.
#pragma once

#include <sched.h>
#include <sys/mount.h>

#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall::test {

inline constexpr int kNoMount = 77;

// Root mounts as it is, everybody else where user namespaces are allowed.
inline bool mount_small_disk(const std::string& at, const char* options) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (user != 0) {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", at.c_str(), "tmpfs", 0, options) == 0;
}

// The mount is seen by nobody else, so what is in it is copied to where the test can read it.
inline void copy_files(const std::string& from, const std::string& to) {
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    std::filesystem::copy(entry.path(), to + "/" + entry.path().filename().string());
  }
}

// Runs `body` on a small disk; false where none can be made, which is said.
inline bool on_small_disk(const TemporaryDirectory& directory, const char* options,
                          const std::function<void(const std::string& disk)>& body) {
  const std::string disk = directory.path() + "/disk";
  std::filesystem::create_directory(disk);
  const int status = in_own_process(disk, [&] {
    if (!mount_small_disk(disk, options)) _exit(kNoMount);
    body(disk);
    copy_files(disk, directory.path());
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoMount) {
    WARN("skipped: no file system can be mounted here");
    return false;
  }
  REQUIRE(ended_well(status));
  return true;
}

// Takes all space that is left.
inline void fill(const std::string& disk) {
  const int filler = open((disk + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  while (write(filler, block.data(), block.size()) > 0) {
  }
  close(filler);
}

}  // namespace rollcall::test
