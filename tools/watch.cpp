#include "tools/watch.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "tools/ring_files.h"
#include "trace/liveness.h"
#include "trace/regular_file.h"

namespace rollcall::tools {
namespace {

constexpr int64_t kLookPart = 50;
constexpr int64_t kLookMaxNs = 5'000'000'000;
constexpr int64_t kSpanMaxNs = 3'600'000'000'000;

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

WatchWord Watch::look(int64_t now_ns) {
  if (!enabled() || now_ns < next_look_ns_) return {};
  const auto begin_ns = static_cast<int64_t>(monotonic_now_ns());
  const Look look = positions_.look(now_ns);
  const int64_t took_ns = static_cast<int64_t>(monotonic_now_ns()) - begin_ns;
  next_look_ns_ = now_ns + std::min(took_ns * kLookPart, kLookMaxNs);

  const uint64_t fingerprint = positions_.fingerprint();
  const bool has_moved = fingerprint != std::exchange(fingerprint_, fingerprint);
  const int64_t quiet_ns = now_ns - advanced_ns_;
  if (has_moved) {
    advanced_ns_ = now_ns;
    spoke_ns_ = 0;
    span_ns_ = patience_ns_;
  }
  const Decision decision = stalls_.look(look);
  if (is_open_) {
    // What all wait for is told already.
    if (decision.act == Act::ask) stalls_.answered(false);
    if (!has_moved) return {};
    is_open_ = false;
    return {.act = Act::resumed, .is_of_all = true, .quiet_ns = quiet_ns};
  }
  if (decision.act != Act::nothing) {
    return {.act = decision.act,
            .is_final = decision.quiet_ns >= patience_ns_,
            .quiet_ns = decision.quiet_ns,
            .patience_ns = decision.patience_ns};
  }
  return stalls_.is_open() ? WatchWord{} : look_at_all(now_ns, has_moved);
}

WatchWord Watch::look_at_all(int64_t now_ns, bool has_moved) {
  if (has_moved || advanced_ns_ == 0) return {};
  const int64_t since_ns = spoke_ns_ != 0 ? spoke_ns_ : advanced_ns_;
  if (now_ns - since_ns < span_ns_) return {};
  spoke_ns_ = now_ns;
  if (is_by_default_) span_ns_ = std::min(span_ns_ * 2, kSpanMaxNs);
  if (are_all_over(directory_)) return {};
  is_asked_ = true;
  return {.act = Act::ask,
          .is_of_all = true,
          .is_final = true,
          .quiet_ns = now_ns - advanced_ns_,
          .patience_ns = patience_ns_};
}

void Watch::answered(bool is_hang) {
  if (std::exchange(is_asked_, false)) {
    is_open_ = is_hang;
  } else {
    stalls_.answered(is_hang);
  }
}

}  // namespace rollcall::tools
