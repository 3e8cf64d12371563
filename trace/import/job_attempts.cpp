#include "trace/import/job_attempts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace rollcall::trace {
namespace {

constexpr int64_t kDayMs = 86'400'000;
constexpr int64_t kOutOfOrderMs = 3'600'000;
// No job stops, starts, meets and fails again within that.
constexpr int64_t kSettleMs = 30'000;

bool is_wait(const Saying& saying) {
  return saying.kind == SayingKind::gave_up || saying.kind == SayingKind::blocking_wait;
}

// Transfers are counted apart from collectives.
bool is_transfer(const std::string& op) {
  return op == "SEND" || op == "RECV" || op == "COALESCED" || op == "UNKNOWN" ||
         op == "RECVANYSOURCE";
}

// abort() of a watchdog, and the launcher's SIGTERM: another host may tell of them later.
bool is_aftermath(const Saying& saying) {
  return saying.kind == SayingKind::died && (saying.code == -6 || saying.code == -15);
}

bool is_failure(const Saying& saying) {
  switch (saying.kind) {
    case SayingKind::gave_up:
    case SayingKind::blocking_wait:
    case SayingKind::async_error:
    case SayingKind::host_stuck:
    case SayingKind::mismatch:
    case SayingKind::died:
    case SayingKind::exception:
      return true;
    default:
      return false;
  }
}

class Separator {
 public:
  Separator(const std::vector<AttemptMark>& marks, JobLog& log) : marks_(marks), log_(log) {
    const int64_t told = attempt_in_path(log.file);
    log_.attempts = {{.line = 1, .number = told == kUntold ? 0 : told, .sign = {}}};
    log_.are_attempts_told = true;
    is_of_one_attempt_ = told != kUntold;
  }

  void separate() {
    if (is_of_one_attempt_) return;
    size_t mark = 0;
    for (size_t i = 0; i < log_.sayings.size(); ++i) {
      for (; mark < marks_.size() && marks_[mark].at <= i; ++mark) read(marks_[mark]);
      place(log_.sayings[i]);
    }
    for (; mark < marks_.size(); ++mark) read(marks_[mark]);
  }

 private:
  struct Last {
    const Saying* saying = nullptr;
    uint32_t attempt = 0;
  };

  uint32_t current() const { return static_cast<uint32_t>(log_.attempts.size() - 1); }

  void begin(uint64_t line, int64_t number, int64_t day_ms, std::string sign) {
    log_.attempts.push_back({line, number, std::move(sign)});
    begin_day_ms_ = day_ms;
    has_failed_ = false;
  }

  void read(const AttemptMark& mark) {
    if (mark.is_launcher) return read_launcher(mark);
    const std::pair<int32_t, int32_t> place(mark.nranks, mark.rank);
    nranks_ = std::max(nranks_, mark.nranks);
    const auto known = writers_.find(place);
    const bool is_other = known != writers_.end() && known->second != mark.writer;
    writers_[place] = mark.writer;
    if (!is_other || mark.nranks != nranks_ || !has_failed_) return;
    log_.are_attempts_told = false;
    begin(mark.line, log_.attempts.back().number + 1, mark.day_ms,
          "another process becomes rank " + std::to_string(mark.rank));
  }

  // Each host's launcher says so.
  void read_launcher(const AttemptMark& mark) {
    const int64_t now = log_.attempts.back().number;
    if (mark.number == kUntold) {
      if (!has_failed_ && current() > 0) return;
      log_.are_attempts_told = false;
      return begin(mark.line, now + 1, mark.day_ms, "the launcher starts the processes again");
    }
    const bool is_next = mark.number > now;
    const bool is_new_job = mark.number == 0 && has_failed_;
    if (!is_next && !is_new_job) return;
    if (is_new_job) log_.are_attempts_told = false;
    begin(mark.line, is_next ? mark.number : now + 1, mark.day_ms,
          "the launcher starts the processes again");
  }

  void place(Saying& saying) {
    saying.attempt = current();
    const bool has_rank = saying.rank >= 0;
    if (has_rank && is_wait(saying)) {
      place_wait(saying);
    } else if (saying.kind == SayingKind::position && last_.contains(saying.rank) &&
               last_.at(saying.rank).saying->seq == saying.seq) {
      saying.attempt = last_.at(saying.rank).attempt;
    } else if (saying.kind == SayingKind::script_line) {
      saying.attempt = placed_;
    } else if (has_rank || is_aftermath(saying)) {
      const int64_t since_ms = day_span_ms(begin_day_ms_, saying.day_ms);
      const bool is_late = current() > 0 && since_ms != kUntold && since_ms < kSettleMs;
      if (is_late && (saying.kind != SayingKind::died || is_aftermath(saying))) --saying.attempt;
    }
    placed_ = saying.attempt;
    has_failed_ = has_failed_ || (saying.attempt == current() && is_failure(saying));
  }

  void place_wait(Saying& saying) {
    Last& last = last_[saying.rank];
    Last& last_here = last_in_group_[{saying.rank, saying.group}];
    if (is_behind(last, saying) || is_behind(last_here, saying)) {
      log_.are_attempts_told = false;
      begin(saying.line, log_.attempts.back().number + 1, last.saying->day_ms,
            "rank " + std::to_string(saying.rank) + " had given up before");
    }
    saying.attempt = current();
    const int64_t since_ms = day_span_ms(begin_day_ms_, saying.day_ms);
    const bool is_known = since_ms != kUntold && saying.ran_ms != kUntold;
    if (current() > 0 && is_known && since_ms < saying.ran_ms) --saying.attempt;
    last = last_here = {&saying, saying.attempt};
  }

  // Whether a rank that gave up `last` in this attempt can have given up `second` only as another
  // process.
  bool is_behind(const Last& last, const Saying& second) const {
    if (last.saying == nullptr || last.attempt != current()) return false;
    const Saying& first = *last.saying;
    const int64_t since_ms = day_span_ms(first.day_ms, second.day_ms);
    if (since_ms != kUntold && second.ran_ms != kUntold) return since_ms >= second.ran_ms;
    const bool is_comparable = first.kind == second.kind && !first.group.empty() &&
                               first.group == second.group && !is_transfer(first.op) &&
                               !is_transfer(second.op);
    return is_comparable && second.seq != kUntold && second.seq < first.seq;
  }

  const std::vector<AttemptMark>& marks_;
  JobLog& log_;
  bool is_of_one_attempt_ = false;
  bool has_failed_ = false;  // in the attempt that is being read
  int64_t begin_day_ms_ = kUntold;
  uint32_t placed_ = 0;  // the attempt of the saying before
  int32_t nranks_ = -1;
  std::map<std::pair<int32_t, std::string>, Last> last_in_group_;
  std::map<int32_t, Last> last_;                                // by rank: what it gave up last
  std::map<std::pair<int32_t, int32_t>, std::string> writers_;  // of (nranks, rank)
};

}  // namespace

int64_t day_span_ms(int64_t from_ms, int64_t to_ms) {
  if (from_ms == kUntold || to_ms == kUntold) return kUntold;
  const int64_t span_ms = to_ms - from_ms;
  if (span_ms >= 0) return span_ms;
  return span_ms > -kOutOfOrderMs ? 0 : span_ms + kDayMs;
}

int64_t attempt_in_path(const std::string& path) {
  constexpr std::string_view kDirectory = "attempt_";
  for (size_t at = 0; (at = path.find(kDirectory, at)) != std::string::npos; ++at) {
    if (at > 0 && path[at - 1] != '/') continue;
    const char* first = path.data() + at + kDirectory.size();
    int64_t number = -1;
    const auto [last, error] = std::from_chars(first, path.data() + path.size(), number);
    const bool is_whole = last != path.data() + path.size() && *last == '/';
    if (error == std::errc() && is_whole && number >= 0) return number;
  }
  return kUntold;
}

void separate_attempts(const std::vector<AttemptMark>& marks, JobLog& log) {
  Separator(marks, log).separate();
}

}  // namespace rollcall::trace
