#include "trace/clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "trace/comm_key_order.h"

namespace rollcall::trace {
namespace {

// Clocks of hosts may be set wrong by hours; beyond this a time is no clock's.
constexpr int64_t kClocksApartMaxNs = 24 * 3600 * int64_t{1'000'000'000};
// Bounds that miss zero by less disprove nothing: the times they come from are taken around the
// calls, not in them.
constexpr int64_t kBelievedNs = 10'000'000;

// No farther apart than times can be: bounds are added to each other from host to host.
struct Bounds {
  int64_t low_ns = -kTimeMaxNs;
  int64_t high_ns = kTimeMaxNs;
  uint32_t communicators = 0;

  void intersect(int64_t low, int64_t high) {
    low_ns = std::clamp(low, low_ns, kTimeMaxNs);
    high_ns = std::clamp(high, -kTimeMaxNs, high_ns);
    ++communicators;
  }
  // A clock that was set in between leaves bounds that cross: the middle is as good as any.
  int64_t middle_ns() const { return low_ns + (high_ns - low_ns) / 2; }
  int64_t doubt_ns() const { return std::abs(high_ns - low_ns) / 2; }
  int64_t farthest_ns() const { return std::max(std::abs(low_ns), std::abs(high_ns)); }
  bool allow_zero() const { return low_ns <= kBelievedNs && high_ns >= -kBelievedNs; }
};

struct Host {
  std::vector<uint32_t> processes;
  bool is_running = false;
  std::optional<Bounds> ahead;  // of the reference
};

// One host's part in a communicator: its last rank to come, its first to be through.
struct Part {
  uint32_t host;
  int64_t begun_ns;
  int64_t ready_ns;
};

using Parts = std::map<CommKey, std::vector<Part>, CommKeyOrder>;

std::vector<Host> find_hosts(const Run& run) {
  std::map<std::pair<std::string, std::string>, uint32_t> number_of;
  std::vector<Host> hosts;
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    const Process& process = run.processes[p];
    if (process.is_foreign() || process.superseded) continue;
    const auto [known, is_new] =
        number_of.emplace(std::pair{process.host, process.boot_id}, hosts.size());
    if (is_new) hosts.emplace_back();
    Host& host = hosts[known->second];
    host.processes.push_back(p);
    host.is_running = host.is_running || process.liveness == Liveness::running ||
                      process.liveness == Liveness::stopped;
  }
  return hosts;
}

Parts find_parts(const Run& run, const std::vector<Host>& hosts) {
  Parts parts;
  for (uint32_t h = 0; h < hosts.size(); ++h) {
    for (const uint32_t p : hosts[h].processes) {
      for (const Comm& comm : run.processes[p].comms) {
        if (comm.key.is_null() || comm.created_ns == 0 || comm.ready_ns == 0) continue;
        std::vector<Part>& of_comm = parts[comm.key];
        if (of_comm.empty() || of_comm.back().host != h) {
          of_comm.push_back({h, comm.created_ns, comm.ready_ns});
        } else {
          of_comm.back().begun_ns = std::max(of_comm.back().begun_ns, comm.created_ns);
          of_comm.back().ready_ns = std::min(of_comm.back().ready_ns, comm.ready_ns);
        }
      }
    }
  }
  std::erase_if(parts, [](const auto& entry) { return entry.second.size() < 2; });
  return parts;
}

// Bounds for the hosts that share a communicator with one whose bounds are known. False: no more.
bool bound_neighbours(const Parts& parts, std::vector<Host>& hosts) {
  std::map<uint32_t, Bounds> found;
  for (const auto& [key, of_comm] : parts) {
    const auto known = std::find_if(of_comm.begin(), of_comm.end(), [&](const Part& part) {
      return hosts[part.host].ahead.has_value();
    });
    if (known == of_comm.end()) continue;
    const Bounds& base = *hosts[known->host].ahead;
    for (const Part& part : of_comm) {
      if (hosts[part.host].ahead) continue;
      found[part.host].intersect(base.low_ns + part.begun_ns - known->ready_ns,
                                 base.high_ns + part.ready_ns - known->begun_ns);
    }
  }
  for (const auto& [host, bounds] : found) hosts[host].ahead = bounds;
  return !found.empty();
}

template <typename Change>
void change_times(Process& process, const Change& change) {
  for (int64_t* time : {&process.started_ns, &process.heartbeat_ns, &process.exited_ns}) {
    change(*time);
  }
  for (Comm& comm : process.comms) {
    for (int64_t* time : {&comm.created_ns, &comm.ready_ns, &comm.ended_ns}) change(*time);
  }
  for (Op& op : process.ops) {
    for (int64_t* time :
         {&op.called_ns, &op.returned_ns, &op.started_ns, &op.finished_ns, &op.launched_ns}) {
      change(*time);
    }
  }
  for (Event& event : process.events) {
    for (int64_t* time : {&event.called_ns, &event.returned_ns}) change(*time);
  }
  for (Graph& graph : process.graphs) change(graph.first_ns);
  for (NetworkChannel& channel : process.channels) change(channel.waiting_since_ns);
}

// "7.0 h", "1.50 s"
std::string span_in_words(int64_t span_ns) {
  const double seconds = std::fabs(static_cast<double>(span_ns)) / 1e9;
  if (seconds >= 7200) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 120) return fmt::format("{:.1f} min", seconds / 60);
  return fmt::format("{:.2f} s", seconds);
}

}  // namespace

void shift_times(Process& process, int64_t span_ns) {
  change_times(process, [span_ns](int64_t& time_ns) {
    // A scribbled time may be as far away as a number can be, and stays there.
    int64_t shifted_ns = 0;
    if (time_ns != 0 && !__builtin_add_overflow(time_ns, span_ns, &shifted_ns)) {
      time_ns = shifted_ns;
    }
  });
}

void forget_times_to_come(Run& run) {
  const int64_t latest_ns = run.read_at_ns + kClocksApartMaxNs;
  for (Process& process : run.processes) {
    if (process.started_ns > latest_ns) continue;  // its clock was wrong, and all times with it
    uint64_t forgotten = 0;
    change_times(process, [&](int64_t& time_ns) {
      if (time_ns >= 0 && time_ns <= latest_ns) return;
      time_ns = 0;
      ++forgotten;
    });
    if (forgotten == 0) continue;
    run.issues.push_back(
        {.file = process.file,
         .text = fmt::format("{} {} in the future: the file was damaged, and {} not known",
                             forgotten, forgotten == 1 ? "time lies" : "times lie",
                             forgotten == 1 ? "it counts as" : "they count as")});
  }
}

void bound_times(Process& process) {
  change_times(process,
               [](int64_t& time_ns) { time_ns = std::clamp<int64_t>(time_ns, 0, kTimeMaxNs); });
}

void align_clocks(Run& run) {
  std::vector<Host> hosts = find_hosts(run);
  if (hosts.size() < 2) return;
  const auto reference =
      std::max_element(hosts.begin(), hosts.end(), [](const Host& a, const Host& b) {
        if (a.is_running != b.is_running) return b.is_running;
        return a.processes.size() < b.processes.size();
      });
  reference->ahead = Bounds{.low_ns = 0, .high_ns = 0};
  const Parts parts = find_parts(run, hosts);
  while (bound_neighbours(parts, hosts)) {
  }
  const std::string& reference_name = run.processes[reference->processes.front()].host;
  for (const Host& host : hosts) {
    if (!host.ahead) continue;
    const bool is_believed = host.ahead->allow_zero();
    for (const uint32_t p : host.processes) {
      run.processes[p].clock_bound_ns =
          is_believed ? host.ahead->farthest_ns() : host.ahead->doubt_ns();
    }
    if (is_believed) continue;
    const int64_t ahead_ns = host.ahead->middle_ns();
    for (const uint32_t p : host.processes) {
      shift_times(run.processes[p], -ahead_ns);
      bound_times(run.processes[p]);
      run.processes[p].clock_doubt_ns = host.ahead->doubt_ns();
      run.processes[p].clock_moved_ns = -ahead_ns;
    }
    run.issues.push_back(
        {.file = {},
         .text = fmt::format("the clock of {} is {} {} that of {} (give or take {}; {} shared "
                             "communicators prove it); its times were moved",
                             run.processes[host.processes.front()].host, span_in_words(ahead_ns),
                             ahead_ns > 0 ? "ahead of" : "behind", reference_name,
                             span_in_words(host.ahead->doubt_ns()), host.ahead->communicators)});
  }
}

}  // namespace rollcall::trace
