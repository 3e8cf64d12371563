#include "emulator/nccl/conf_file.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace emu_nccl {
namespace {

constexpr size_t kTextBytes = 1023;  // of a name and of a value: NCCL cuts what is longer

// Any name is taken, not only NCCL's; lines without a sign of equality are not looked at.
void read_file(const std::string& path) {
  FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return;
  char line[4096];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    line[std::strcspn(line, "\r\n")] = '\0';
    const char* const equals = std::strchr(line, '=');
    if (*line == '#' || equals == nullptr) continue;
    const std::string whole(line, static_cast<size_t>(equals - line));
    const std::string name = whole.substr(0, kTextBytes);
    setenv(name.c_str(), std::string(equals + 1).substr(0, kTextBytes).c_str(), 0);
  }
  std::fclose(file);
}

}  // namespace

void read_conf_files() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* const chosen = std::getenv("NCCL_CONF_FILE");
    const char* const home = std::getenv("HOME");
    if (chosen != nullptr && *chosen != '\0') {
      read_file(chosen);
    } else if (home != nullptr) {
      read_file(std::string(home) + "/.nccl.conf");
    }
    read_file("/etc/nccl.conf");
  });
}

}  // namespace emu_nccl
