#include "tools/watch.h"

#include <unistd.h>

#include <algorithm>

#include "tools/ring_files.h"
#include "trace/liveness.h"
#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash;
}

// Of everything that moves while a job advances; 0 when nothing was recorded yet.
uint64_t fingerprint_of(const std::string& directory) {
  uint64_t hash = 0;
  for (const std::string& path : list_rings(directory)) {
    const auto header = read_header(path);
    if (!header) continue;
    hash = mix(hash, header->pid);
    hash = mix(hash, header->next_ticket);
    hash = mix(hash, header->next_event_ticket);
  }
  return hash;
}

bool is_over(const std::string& path) {
  const auto header = read_header(path);
  const int descriptor = trace::open_regular(path);
  if (!header || descriptor < 0) {
    if (descriptor >= 0) ::close(descriptor);
    return false;
  }
  const trace::Liveness liveness = trace::probe_liveness(*header, descriptor).liveness;
  ::close(descriptor);
  return liveness == trace::Liveness::exited || liveness == trace::Liveness::dead;
}

// Nobody is left who could wait: the job ends, or a launcher starts it again.
bool are_all_over(const std::string& directory) {
  const std::vector<std::string> rings = list_rings(directory);
  return std::all_of(rings.begin(), rings.end(), is_over);
}

}  // namespace

bool Watch::is_stalled(int64_t now_ns) {
  if (!enabled()) return false;
  const uint64_t fingerprint = fingerprint_of(directory_);
  if (fingerprint != fingerprint_) {
    fingerprint_ = fingerprint;
    advanced_ns_ = now_ns;
    spoke_ns_ = 0;
    return false;
  }
  if (advanced_ns_ == 0) return false;
  const int64_t since_ns = spoke_ns_ != 0 ? spoke_ns_ : advanced_ns_;
  if (now_ns - since_ns < patience_ns_) return false;
  spoke_ns_ = now_ns;
  return !are_all_over(directory_);
}

}  // namespace rollcall::tools
