// `rollcall top`: what every rank of a running job does, the worst first, on one screen.
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/clock.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/rank_table.h"
#include "tools/step_costs.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// A look takes at most this part of the time, however many ranks there are.
constexpr int64_t kLookPart = 20;
constexpr size_t kHostsShown = 5;
constexpr size_t kColumnsOfPipe = 200;
// Whoever asks once waits so long for what the steps cost.
constexpr int64_t kCostsOnceNs = 2 * kSecondNs;

struct Arguments {
  std::string directory;
  bool once = false;
  bool json = false;
  double interval_s = 2;
};

int64_t realtime_ns() {
  using std::chrono::duration_cast;
  return duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool waits(const RankState& rank) {
  return rank.liveness != "exited" &&
         (rank.state == CallState::in_call || rank.state == CallState::on_gpu);
}

bool is_gone(const RankState& rank) { return rank.liveness == "exited" || rank.liveness == "dead"; }

// --- for programs -----------------------------------------------------------------------------

std::string json_of(const std::string& directory, const std::vector<RankState>& ranks,
                    const StepCosts& costs, int64_t now_ns) {
  using Json = nlohmann::ordered_json;
  const auto known = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(report::valid_utf8(text));
  };
  Json json;
  json["schema"] = "rollcall.top/1";
  json["dir"] = report::valid_utf8(directory);
  json["time"] = report::iso_time(now_ns);
  json["steps"] = known(costs.sentence);
  json["ranks"] = Json::array();
  for (const RankState& rank : ranks) {
    const bool has_call = rank.state != CallState::none;
    Json one;
    one["rank"] = rank.rank >= 0 ? Json(rank.rank) : Json(nullptr);
    one["host"] = known(rank.host);
    one["pid"] = rank.pid;
    one["liveness"] = rank.liveness;
    one["state"] = has_call ? Json(name_of(rank.state)) : Json(nullptr);
    one["age_ns"] = has_call ? Json(rank.age_ns) : Json(nullptr);
    one["op"] = known(rank.op);
    one["comm"] = rank.comm.is_null() ? Json(nullptr) : Json(report::key_hex(rank.comm));
    one["comm_name"] = known(rank.comm_name);
    one["position"] = has_call ? Json(rank.position) : Json(nullptr);
    one["lag"] = has_call ? Json(rank.lag) : Json(nullptr);
    one["line"] = known(rank.line);
    const auto charged = costs.charged.find({rank.host, rank.pid});
    one["charged_share"] = charged == costs.charged.end() ? Json(nullptr) : Json(charged->second);
    json["ranks"].push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

// --- for a person -----------------------------------------------------------------------------

// Cut off or filled up; control characters of a file never reach the terminal.
std::string cell(const std::string& text, size_t columns) {
  std::string shown = report::printable(text);
  if (shown.size() > columns) {
    shown.resize(columns - 1);
    shown += '+';
  }
  return fmt::format("{:<{}}", shown, columns);
}

std::string summary_line(const std::string& directory, const std::vector<RankState>& ranks) {
  std::map<std::string, size_t> hosts;
  size_t waiting = 0;
  size_t behind = 0;
  size_t gone = 0;
  for (const RankState& rank : ranks) {
    ++hosts[rank.host];
    waiting += waits(rank) ? 1 : 0;
    behind += rank.lag != 0 && !is_gone(rank) ? 1 : 0;
    gone += is_gone(rank) ? 1 : 0;
  }
  return fmt::format("{} {} on {} {}: {} in a call, {} behind, {} gone   {}", ranks.size(),
                     ranks.size() == 1 ? "rank" : "ranks", hosts.size(),
                     hosts.size() == 1 ? "host" : "hosts", waiting, behind, gone,
                     report::printable(directory));
}

struct HostRow {
  size_t ranks = 0;
  size_t waiting = 0;
  size_t behind = 0;
  int64_t oldest_ns = 0;
};

// Of several hosts those with the oldest call, or most ranks behind.
std::vector<std::string> host_lines(const std::vector<RankState>& ranks) {
  std::map<std::string, HostRow> hosts;
  for (const RankState& rank : ranks) {
    HostRow& host = hosts[rank.host];
    ++host.ranks;
    if (rank.lag != 0 && !is_gone(rank)) ++host.behind;
    if (!waits(rank)) continue;
    ++host.waiting;
    host.oldest_ns = std::max(host.oldest_ns, rank.age_ns);
  }
  if (hosts.size() < 2) return {};
  std::vector<std::pair<std::string, HostRow>> rows(hosts.begin(), hosts.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.second.behind, a.second.oldest_ns) >
           std::make_pair(b.second.behind, b.second.oldest_ns);
  });
  std::vector<std::string> lines{"HOST              RANKS IN CALL BEHIND   OLDEST"};
  for (size_t at = 0; at < rows.size() && at < kHostsShown; ++at) {
    const auto& [name, host] = rows[at];
    lines.push_back(fmt::format("{} {:>5} {:>7} {:>6} {:>8}", cell(name, 17), host.ranks,
                                host.waiting, host.behind,
                                host.waiting == 0 ? "-" : report::duration(host.oldest_ns)));
  }
  if (rows.size() > kHostsShown) {
    lines.push_back(fmt::format("and {} more hosts", rows.size() - kHostsShown));
  }
  return lines;
}

// The share of a step that is charged to a rank stands where any is known.
std::string rank_header(const StepCosts& costs) {
  return fmt::format(
      " RANK HOST         STATE         AGE OP            COMMUNICATOR   POSITION  LAG {}LINE",
      costs.charged.empty() ? "" : "CHARGED ");
}

std::string charged_cell(const RankState& rank, const StepCosts& costs) {
  if (costs.charged.empty()) return "";
  const auto found = costs.charged.find({rank.host, rank.pid});
  return fmt::format(
      "{:>7} ", found != costs.charged.end() ? fmt::format("{:.1f} %", 100 * found->second) : "-");
}

// What the steps cost, in as many lines as it takes.
std::vector<std::string> step_lines(const std::string& sentence, size_t columns) {
  std::vector<std::string> lines;
  std::string_view left = sentence;
  while (!left.empty()) {
    size_t end = left.size();
    if (end > columns) {
      const size_t space = left.rfind(' ', columns);
      end = space == std::string_view::npos || space == 0 ? columns : space;
    }
    lines.push_back(report::printable(std::string(left.substr(0, end))));
    left.remove_prefix(end);
    while (left.starts_with(' ')) left.remove_prefix(1);
  }
  return lines;
}

std::string rank_line(const RankState& rank, const StepCosts& costs) {
  const bool has_call = rank.state != CallState::none;
  // What the process is counts more than where its call is.
  const bool is_running = rank.liveness == "running" || rank.liveness == "unknown";
  const std::string state = is_running ? std::string(name_of(rank.state)) : rank.liveness;
  const std::string comm = !rank.comm_name.empty() ? rank.comm_name
                           : rank.comm.is_null()   ? "-"
                                                   : report::key_hex(rank.comm).substr(0, 8);
  return fmt::format("{:>5} {} {} {:>8} {} {} {:>8} {:>4} {}{}",
                     rank.rank >= 0 ? fmt::format("{}", rank.rank) : "-", cell(rank.host, 12),
                     cell(state, 8), has_call ? report::duration(rank.age_ns) : "-",
                     cell(has_call ? rank.op : "-", 13), cell(comm, 14),
                     has_call ? fmt::format("{}", rank.position) : "-", rank.lag,
                     charged_cell(rank, costs), report::printable(rank.line));
}

struct Screen {
  size_t rows = SIZE_MAX;
  size_t columns = kColumnsOfPipe;
  size_t first = 0;  // rank shown at the top
};

std::vector<std::string> lines_of(const std::string& directory, const std::vector<RankState>& ranks,
                                  const StepCosts& costs, Screen& screen) {
  std::vector<std::string> lines{summary_line(directory, ranks)};
  const std::vector<std::string> steps = step_lines(costs.sentence, screen.columns);
  if (steps.size() + 6 < screen.rows) lines.insert(lines.end(), steps.begin(), steps.end());
  const std::vector<std::string> hosts = host_lines(ranks);
  if (!hosts.empty() && lines.size() + hosts.size() + 5 < screen.rows) {
    lines.emplace_back();
    lines.insert(lines.end(), hosts.begin(), hosts.end());
  }
  lines.emplace_back();
  lines.push_back(rank_header(costs));
  const size_t room = screen.rows - std::min(screen.rows, lines.size() + 1);
  screen.first = std::min(screen.first, ranks.size() - std::min(ranks.size(), room));
  for (size_t at = screen.first; at < ranks.size() && at - screen.first < room; ++at) {
    lines.push_back(rank_line(ranks[at], costs));
  }
  for (std::string& line : lines) {
    if (line.size() > screen.columns) line.resize(screen.columns);
    while (!line.empty() && line.back() == ' ') line.pop_back();
  }
  return lines;
}

// --- on a terminal ----------------------------------------------------------------------------

volatile std::sig_atomic_t was_told_to_end = 0;
void note_end(int) { was_told_to_end = 1; }

// Keys come one by one and nothing is echoed, on a screen of its own, until it is destroyed.
class RawTerminal {
 public:
  RawTerminal() {
    for (const int signal : {SIGTERM, SIGHUP, SIGINT}) std::signal(signal, note_end);
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    print_out("\x1b[?1049h\x1b[?25l");
  }
  ~RawTerminal() {
    print_out("\x1b[?25h\x1b[?1049l");
    std::fflush(stdout);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  void measure(Screen& screen) const {
    winsize size{};
    const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row != 0;
    screen.rows = is_known ? size.ws_row : 24;
    screen.columns = is_known && size.ws_col != 0 ? size.ws_col : 80;
  }
  // What was typed within the time.
  static std::string keys(int timeout_ms) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    char text[32];
    if (::poll(&input, 1, timeout_ms) <= 0) return {};
    const ssize_t bytes = ::read(STDIN_FILENO, text, sizeof text);
    // Nobody is there any more.
    if (bytes <= 0) was_told_to_end = 1;
    return std::string(text, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  }

 private:
  termios before_{};
};

// As htop's users know them. False: it is to end.
bool obey(const std::string& keys, Screen& screen) {
  const size_t page = screen.rows > 10 ? screen.rows - 8 : 1;
  if (keys == "q" || keys == "\x1b[21~") return false;
  if (keys == "\x1b[B" || keys == "j") screen.first += 1;
  if (keys == "\x1b[6~") screen.first += page;
  if (keys == "\x1b[A" || keys == "k") screen.first -= std::min<size_t>(screen.first, 1);
  if (keys == "\x1b[5~") screen.first -= std::min(screen.first, page);
  if (keys == "\x1b[H" || keys == "\x1b[1~") screen.first = 0;
  if (keys == "\x1b[F" || keys == "\x1b[4~") screen.first = SIZE_MAX - page;
  return true;
}

void draw(const std::vector<std::string>& lines) {
  std::string text = "\x1b[H";
  for (const std::string& line : lines) text += "\x1b[K" + line + "\n";
  print_out(text + "\x1b[J");
  std::fflush(stdout);
}

void show(const Arguments& arguments) {
  const RawTerminal terminal;
  Screen screen;
  std::vector<RankState> ranks;
  StepCostsReader costs(arguments.directory);
  int64_t next_ns = 0;
  while (was_told_to_end == 0) {
    const auto now_ns = static_cast<int64_t>(monotonic_now_ns());
    if (now_ns >= next_ns) {
      ranks = read_ranks(arguments.directory, realtime_ns());
      const int64_t took_ns = static_cast<int64_t>(monotonic_now_ns()) - now_ns;
      const auto interval_ns = static_cast<int64_t>(arguments.interval_s * 1e9);
      next_ns = now_ns + std::max(interval_ns, took_ns * kLookPart);
    }
    costs.advance(static_cast<int64_t>(monotonic_now_ns()));
    terminal.measure(screen);
    draw(lines_of(arguments.directory, ranks, costs.newest(), screen));
    const int64_t left_ms = (next_ns - static_cast<int64_t>(monotonic_now_ns())) / 1'000'000;
    // An answer about the costs is shown as soon as it is there.
    const int64_t longest_ms = costs.is_waiting() ? 100 : 3'600'000;
    const auto timeout_ms = static_cast<int>(std::clamp<int64_t>(left_ms, 0, longest_ms));
    const std::string keys = RawTerminal::keys(timeout_ms);
    if (keys == " ") next_ns = 0;
    if (!obey(keys, screen)) return;
  }
}

int top(const Arguments& arguments) {
  std::error_code failure;
  if (!std::filesystem::is_directory(arguments.directory, failure)) {
    return unusable(fmt::format("{} is no directory; give the one that `rollcall run` printed",
                                arguments.directory));
  }
  const bool is_on_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  if (is_on_terminal && !arguments.once && !arguments.json) {
    show(arguments);
    return finish_output(kExitGood);
  }
  StepCostsReader costs(arguments.directory);
  costs.wait(kCostsOnceNs);
  const int64_t now_ns = realtime_ns();
  const std::vector<RankState> ranks = read_ranks(arguments.directory, now_ns);
  if (arguments.json) {
    print_out(json_of(arguments.directory, ranks, costs.newest(), now_ns));
  } else {
    Screen screen;
    for (const std::string& line : lines_of(arguments.directory, ranks, costs.newest(), screen)) {
      print_out(line + "\n");
    }
  }
  return finish_output(kExitGood);
}

}  // namespace

void add_top(CommandLine& line) {
  Subcommand command(line, "top", "Show what every rank of a running job does, the worst first.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("DIR", arguments->directory, "run directory").required();
  command.flag("--once", arguments->once, "print it once, as into a pipe");
  command.flag("--json", arguments->json, "for programs: schema rollcall.top/1, once");
  command.option("--interval", arguments->interval_s, "time between two looks (default 2)")
      .seconds_between(0.1, 3600);
  command.footer(
      "\nA rank's row is about its oldest call in flight, or else its newest: where that is, how\n"
      "long ago it was made, on which communicator, how many collectives the rank has called\n"
      "there and how many fewer than the first of its ranks. Where the times of GPUs are on\n"
      "file, the second line says how long the newest steps took and what costs most, and\n"
      "CHARGED which share of a step each rank costs, as `rollcall slow` finds it. Keys: arrows,\n"
      "page up and down, home and end move, space looks at once, q or F10 ends it.\n"
      "\nExamples:\n"
      "  rollcall top DIR\n"
      "  rollcall top DIR --json | jq '.ranks[] | select(.lag > 0)'");
  command.action([arguments] { return top(*arguments); });
}

}  // namespace rollcall::tools
