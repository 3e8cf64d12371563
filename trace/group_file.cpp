#include "trace/group_file.h"

#include <fcntl.h>

#include <algorithm>

#include "core/base/limits.h"
#include "core/format/file_name.h"
#include "trace/bytes.h"
#include "trace/regular_file.h"

namespace rollcall::trace {
namespace {

constexpr uint64_t kBytesMax = 1 << 20;
constexpr size_t kDescriptionBytesMax = 80;
constexpr size_t kDigestMin = 32;
constexpr size_t kDigestShown = 8;

bool is_text(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
}

// A digest is told by its begin, as everywhere in reports.
std::string_view short_name(std::string_view name) {
  const bool is_digest = name.size() >= kDigestMin &&
                         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_digest ? name.substr(0, kDigestShown) : name;
}

}  // namespace

std::map<std::string, std::string> parse_groups(std::string_view text_untrusted) {
  std::map<std::string, std::string> descriptions;
  bool is_first = true;
  std::string_view rest = text_untrusted;
  // A line without an end is one that was cut off.
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (is_first) {
      if (line != kGroupFileHead) return {};
      is_first = false;
      continue;
    }
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || !is_text(line)) continue;
    // The ring keeps so much of a name.
    const std::string_view name = line.substr(0, std::min<size_t>(space, kCommNameBytes - 1));
    const std::string_view description = line.substr(space + 1, kDescriptionBytesMax);
    if (!name.empty() && !description.empty()) descriptions[std::string(name)] = description;
  }
  return descriptions;
}

void describe_groups(const std::string& ring, std::vector<Comm>& comms) {
  if (!ring.ends_with(kRingEnding)) return;
  const std::string path =
      ring.substr(0, ring.size() - kRingEnding.size()) + std::string(kGroupFileEnding);
  const FileSource file(OpenedFile{open_regular(AT_FDCWD, path, O_RDONLY, Links::refused)});
  if (file.error() != 0) return;
  std::string text(std::min(file.size(), kBytesMax), '\0');
  text.resize(file.read(0, text.data(), text.size()));
  const std::map<std::string, std::string> descriptions = parse_groups(text);
  for (Comm& comm : comms) {
    const auto found = descriptions.find(comm.name);
    if (found != descriptions.end()) {
      comm.name = found->second + ":" + std::string(short_name(comm.name));
    }
  }
}

}  // namespace rollcall::trace
