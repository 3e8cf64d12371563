#include "report/stacks.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/format/call_site.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using Json = nlohmann::ordered_json;
using Ranks = std::vector<int32_t>;

constexpr size_t kBareThreadsShown = 12;
constexpr size_t kPlacesNamed = 3;

// In which threads are found that wait; of others the number tells.
struct SystemCall {
  uint64_t number;
  const char* name;
};
constexpr SystemCall kSystemCalls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_openat, "openat"},
    {SYS_close, "close"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_ioctl, "ioctl"},
    {SYS_mmap, "mmap"},
    {SYS_munmap, "munmap"},
    {SYS_madvise, "madvise"},
    {SYS_futex, "futex"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect6"},
    {SYS_epoll_pwait, "epoll_pwait"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
#endif
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_exit_group, "exit_group"},
};

std::string system_call_name(std::string_view text) {
  if (text == "running") return "running";
  uint64_t number = 0;
  if (!parse_decimal(text.substr(0, text.find(' ')), number)) return {};
  for (const SystemCall& known : kSystemCalls) {
    if (known.number == number) return fmt::format("in {}", known.name);
  }
  return fmt::format("in system call {}", number);
}

void add_to(Ranks& ranks, int32_t rank) {
  if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
}

Ranks without(Ranks all, Ranks some) {
  std::sort(all.begin(), all.end());
  std::sort(some.begin(), some.end());
  Ranks rest;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(rest));
  return rest;
}

size_t count_of(Ranks ranks) {
  std::sort(ranks.begin(), ranks.end());
  return static_cast<size_t>(std::unique(ranks.begin(), ranks.end()) - ranks.begin());
}

}  // namespace

// A frame, below what called it. The root is no frame.
struct MergedStacks::Node {
  std::map<std::string, std::unique_ptr<Node>> callees;
  Ranks ranks;
  size_t threads = 0;
  std::map<std::string, Ranks> waits;  // of threads of which this is the innermost frame

  // The rarest first: whoever stands where nobody else does.
  std::vector<std::pair<const std::string*, const Node*>> in_order() const {
    std::vector<std::pair<const std::string*, const Node*>> nodes;
    for (const auto& [frame, node] : callees) nodes.emplace_back(&frame, node.get());
    std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
      return count_of(a.second->ranks) < count_of(b.second->ranks);
    });
    return nodes;
  }

  void write(const Ranks& all, const Ranks& above, size_t depth, std::string& text) const {
    for (const auto& [frame, node] : in_order()) {
      const bool is_branch = callees.size() > 1 || count_of(node->ranks) != count_of(above);
      const size_t indent = depth + (is_branch && depth != 0 ? 1 : 0);
      std::string line(2 * indent + 2, ' ');
      line += printable(*frame);
      if (is_branch) {
        const Ranks rest = without(all, node->ranks);
        line += fmt::format("   [{}{}]", ranks_in_words(node->ranks),
                            rest.empty() ? "" : fmt::format("; not {}", ranks_in_words(rest)));
      }
      text += line + "\n";
      for (const auto& [what, who] : node->waits) {
        text += fmt::format(
            "{}- {}{}\n", std::string(2 * indent + 4, ' '), what.empty() ? "here" : what,
            count_of(who) == count_of(node->ranks) ? std::string()
                                                   : fmt::format(" ({})", ranks_in_words(who)));
      }
      node->write(all, node->ranks, std::max<size_t>(indent, 1), text);
    }
  }

  Json json(const Ranks& all) const {
    Json list = Json::array();
    for (const auto& [frame, node] : in_order()) {
      Json waiting = Json::array();
      for (const auto& [what, who] : node->waits) {
        waiting.push_back({{"what", valid_utf8(what)}, {"ranks", rank_list(who)}});
      }
      list.push_back({{"frame", valid_utf8(*frame)},
                      {"ranks", rank_list(node->ranks)},
                      {"absent", rank_list(without(all, node->ranks))},
                      {"threads", node->threads},
                      {"waits", std::move(waiting)},
                      {"frames", node->json(all)}});
    }
    return list;
  }
};

MergedStacks::MergedStacks() : root_(std::make_unique<Node>()) {}
MergedStacks::~MergedStacks() = default;

std::string waits_in_words(const trace::StackThread& thread) {
  std::string words = system_call_name(thread.system_call);
  if (words.empty() && thread.state == "R") words = "running";
  const bool has_channel = !thread.wait_channel.empty() && thread.wait_channel != "0";
  if (has_channel) words += fmt::format("{}({})", words.empty() ? "" : " ", thread.wait_channel);
  if (thread.state == "T" || thread.state == "t") words += words.empty() ? "stopped" : ", stopped";
  if (thread.state == "D") words += ", not to be interrupted";
  return words;
}

void MergedStacks::add_thread(int32_t rank, const trace::StackThread& thread) {
  std::string waits = waits_in_words(thread);
  if (thread.frames.empty()) {
    if (waits.empty()) waits = "doing nothing that is known";
    bare_threads_[fmt::format("{} {}", thread.name, waits)].push_back(rank);
    return;
  }
  if (thread.holds_gil) waits += waits.empty() ? "holds the GIL" : ", holds the GIL";
  if (thread.is_moving) waits += waits.empty() ? "moving" : ", moving";
  Node* node = root_.get();
  if (thread.is_cut) notes_["outer frames are missing"].push_back(rank);
  for (size_t at = thread.frames.size(); at-- > 0;) {
    std::unique_ptr<Node>& callee = node->callees[thread.frames[at]];
    if (!callee) callee = std::make_unique<Node>();
    node = callee.get();
    add_to(node->ranks, rank);
    ++node->threads;
  }
  node->waits[waits].push_back(rank);
}

void MergedStacks::add(int32_t rank, const trace::StackFile& file) {
  ranks_.push_back(rank);
  if (file.is_from_outside) outside_.push_back(rank);
  if (!file.is_whole) notes_["the list of threads is not complete"].push_back(rank);
  if (!file.python_unread.empty()) {
    notes_[fmt::format("Python {}: {}", file.python, file.python_unread)].push_back(rank);
  }
  for (const trace::StackThread& thread : file.threads) add_thread(rank, thread);
}

void MergedStacks::add_absent(int32_t rank, const std::string& why) {
  absent_[why].push_back(rank);
}

bool MergedStacks::has_frames() const { return !root_->callees.empty(); }

std::string MergedStacks::text() const {
  std::string text;
  if (has_frames()) {
    text += fmt::format("Python, {}:\n", ranks_in_words(ranks_));
    root_->write(ranks_, ranks_, 0, text);
  }
  if (!bare_threads_.empty()) text += "Threads without frames of Python:\n";
  size_t shown = 0;
  for (const auto& [what, ranks] : bare_threads_) {
    if (shown++ == kBareThreadsShown) break;
    const size_t several = ranks.size() - count_of(ranks);
    text += fmt::format("  {}   [{}{}]\n", printable(what), ranks_in_words(ranks),
                        several == 0 ? "" : fmt::format("; {} threads", ranks.size()));
  }
  if (bare_threads_.size() > kBareThreadsShown) {
    text += fmt::format("  and {} other kinds\n", bare_threads_.size() - kBareThreadsShown);
  }
  if (!outside_.empty()) {
    text += fmt::format("Of {} the recorder did not answer: seen from outside, without frames.\n",
                        ranks_in_words(outside_));
  }
  for (const auto& [what, ranks] : notes_) {
    text += fmt::format("Of {}: {}.\n", ranks_in_words(ranks), printable(what));
  }
  for (const auto& [why, ranks] : absent_) {
    text += fmt::format("Not there: {} ({}).\n", ranks_in_words(ranks), printable(why));
  }
  return text;
}

std::string MergedStacks::json() const {
  Json json;
  json["schema"] = "rollcall.stacks/1";
  json["ranks"] = rank_list(ranks_);
  json["frames"] = root_->json(ranks_);
  json["threads"] = Json::array();
  for (const auto& [what, ranks] : bare_threads_) {
    json["threads"].push_back(
        {{"what", valid_utf8(what)}, {"ranks", rank_list(ranks)}, {"threads", ranks.size()}});
  }
  json["outside"] = rank_list(outside_);
  const auto list = [](const std::map<std::string, Ranks>& reasons) {
    Json all = Json::array();
    for (const auto& [why, ranks] : reasons) {
      all.push_back({{"why", valid_utf8(why)}, {"ranks", rank_list(ranks)}});
    }
    return all;
  };
  json["notes"] = list(notes_);
  json["without"] = list(absent_);
  return json.dump(2) + "\n";
}

std::string standing_place(const trace::StackFile& file) {
  const trace::StackThread* thread = nullptr;
  for (const trace::StackThread& one : file.threads) {
    const bool is_first = one.number == file.pid;
    const bool is_better = thread == nullptr || (thread->frames.empty() && !one.frames.empty());
    if (is_better || (is_first && !one.frames.empty())) thread = &one;
  }
  if (thread == nullptr) return {};
  std::string place;
  size_t named = 0;
  for (const bool only_users : {true, false}) {
    for (const std::string& frame : thread->frames) {
      if (named == kPlacesNamed || (only_users && !is_user_code(frame))) continue;
      place +=
          fmt::format("{}{}", named++ == 0 ? "" : kCallerSeparator, file_name(printable(frame)));
    }
    if (named != 0) break;
  }
  const std::string waits = waits_in_words(*thread);
  if (waits.empty()) return place;
  return place.empty() ? waits : fmt::format("{}, {}", place, waits);
}

}  // namespace rollcall::report
