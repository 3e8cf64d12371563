#include "tools/exclude_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include "analysis/verdict.h"
#include "tools/output_file.h"
#include "trace/bytes.h"

namespace rollcall::tools {
namespace {

constexpr size_t kFileBytesMax = 1u << 20;

// Whoever reads the list gives the names to a shell, or to Slurm.
bool is_host_name(std::string_view name) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.front() != '-' && name.front() != '.' &&
         name.find_first_not_of(kLetters) == std::string_view::npos;
}

bool has_line(std::string_view text, std::string_view line) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (text.substr(0, end) == line) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

// False: `error` says why it cannot be read. No file is an empty one.
bool read_list(const std::string& path, std::string& text, std::string& error) {
  const trace::FileSource source(path);
  if (source.error() == ENOENT) return true;
  if (source.error() != 0) {
    error = std::strerror(source.error());
    return false;
  }
  if (source.size() > kFileBytesMax) {
    error = "it has more than a MiB, and is no list of hosts";
    return false;
  }
  text.resize(source.size());
  text.resize(source.read(0, text.data(), text.size()));
  if (!text.empty() && text.back() != '\n') text += '\n';
  return true;
}

// Held while the list is read and written anew, which replaces it: so the lock is on a file beside
// it. Network file systems lock files, and no folders. A lock that cannot be had for seconds is
// gone without: whoever asks has a job to look after.
class ListLock {
 public:
  explicit ListLock(const std::string& path)
      : descriptor_(::open((path + ".lock").c_str(),
                           O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666)) {
    constexpr auto kStep = std::chrono::milliseconds(20);
    constexpr int kTries = 100;
    for (int i = 0; i < kTries && descriptor_ >= 0; ++i) {
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
      std::this_thread::sleep_for(kStep);
    }
  }
  ~ListLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ListLock(const ListLock&) = delete;
  ListLock& operator=(const ListLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

std::vector<std::string> hosts_to_exclude(const Incident& incident) {
  if (!incident.is_certain || incident.origin != name_of(analysis::Origin::node)) return {};
  std::vector<std::string> hosts = incident.hosts;
  std::erase_if(hosts, [](const std::string& host) { return !is_host_name(host); });
  return hosts;
}

bool add_hosts(const std::string& path, const std::vector<std::string>& hosts,
               std::vector<std::string>& added, std::string& error) {
  const std::filesystem::path file(path);
  const std::string folder = file.parent_path().empty() ? "." : file.parent_path().string();
  const OpenDirectory place(folder);
  if (place.error() != 0) {
    error = std::strerror(place.error());
    return false;
  }
  // Another job may add to the list at this moment.
  const ListLock lock(path);
  std::string text;
  if (!read_list(path, text, error)) return false;
  for (const std::string& host : hosts) {
    if (has_line(text, host)) continue;
    text += host + "\n";
    added.push_back(host);
  }
  if (added.empty()) return true;
  OutputFile output(place, file.filename().string(), Privacy::shared);
  output.write(text);
  if (output.put_in_place()) return true;
  error = output.why();
  return false;
}

}  // namespace rollcall::tools
