#include "trace/import/line_prefix.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "trace/import/digit.h"
#include "trace/import/job_endings.h"

namespace rollcall::trace {
namespace {

bool is_of_prefix(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.';
}

// A line that is taken apart from left to right; each take_ moves on only when it finds what it
// wants.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}
  std::string_view rest() const { return rest_; }
  bool at_end() const { return rest_.empty(); }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  // A number of at most nine digits.
  bool take_number(int32_t& number) {
    const std::string_view digits = span_of(is_digit);
    if (digits.empty() || digits.size() > 9) return false;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    rest_.remove_prefix(digits.size());
    return true;
  }
  // Exactly so many digits.
  bool take_digits(size_t count, int32_t& number) {
    if (rest_.size() < count) return false;
    const std::string_view digits = rest_.substr(0, count);
    if (!std::all_of(digits.begin(), digits.end(), is_digit)) return false;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    rest_.remove_prefix(count);
    return true;
  }
  std::string_view take_word() {
    const std::string_view word = span_of(is_of_prefix);
    rest_.remove_prefix(word.size());
    return word;
  }
  // Up to `stop`, which is taken too; empty: there is none.
  std::string_view take_until(std::string_view stop) {
    const size_t at = rest_.find(stop);
    if (at == std::string_view::npos) return {};
    const std::string_view text = rest_.substr(0, at);
    rest_.remove_prefix(at + stop.size());
    return text;
  }
  void take_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
  }
  // What may stand between a prefix and the line.
  void take_blank() { take(" ") || take("\t"); }

 private:
  std::string_view span_of(bool (*belongs)(char)) const {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), belongs);
    return rest_.substr(0, static_cast<size_t>(end - rest_.begin()));
  }
  std::string_view rest_;
};

// --- times -------------------------------------------------------------------------------------

constexpr int64_t kSecondNs = 1'000'000'000;
// What nanoseconds in 64 bits hold, by far; no log is from elsewhere.
constexpr int32_t kYearMin = 1970;
constexpr int32_t kYearMax = 2200;

// Days since the epoch, of the calendar that computers use.
int64_t days_of(int32_t year, int32_t month, int32_t day) {
  const int64_t shifted = month > 2 ? year : year - 1;
  const int64_t era = shifted / 400;
  const int64_t year_of_era = shifted - era * 400;
  const int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

// "12:34:56", with a fraction behind a full stop or a comma.
bool take_clock(Cursor& at, int64_t& time_ns) {
  int32_t hour = 0;
  int32_t minute = 0;
  int32_t second = 0;
  if (!at.take_digits(2, hour) || !at.take(":") || !at.take_digits(2, minute) || !at.take(":") ||
      !at.take_digits(2, second) || hour > 23 || minute > 59 || second > 60) {
    return false;
  }
  time_ns += ((int64_t{hour} * 60 + minute) * 60 + second) * kSecondNs;
  Cursor behind = at;
  int32_t digit = 0;
  if (!(behind.take(".") || behind.take(",")) || !behind.take_digits(1, digit)) return true;
  int64_t unit = kSecondNs / 10;
  do {
    time_ns += unit * digit;
    unit /= 10;
  } while (behind.take_digits(1, digit));
  at = behind;
  return true;
}

// "Z", "+01:00", "-0800"; nothing is UTC.
void take_zone(Cursor& at, int64_t& time_ns) {
  if (at.take("Z")) return;
  Cursor behind = at;
  const bool is_east = behind.take("+");
  int32_t hours = 0;
  int32_t minutes = 0;
  if (!is_east && !behind.take("-")) return;
  if (!behind.take_digits(2, hours)) return;
  behind.take(":");
  if (!behind.take_digits(2, minutes)) return;
  const int64_t offset_ns = (int64_t{hours} * 60 + minutes) * 60 * kSecondNs;
  time_ns += is_east ? -offset_ns : offset_ns;
  at = behind;
}

// "2026-11-27T15:40:00.123Z", with a blank for the T, with "/" in the date.
bool take_iso(Cursor& at, int64_t& time_ns) {
  int32_t year = 0;
  int32_t month = 0;
  int32_t day = 0;
  Cursor here = at;
  if (!here.take_digits(4, year)) return false;
  const std::string_view dash = here.rest().starts_with('/') ? "/" : "-";
  if (!here.take(dash) || !here.take_digits(2, month) || !here.take(dash) ||
      !here.take_digits(2, day) || !(here.take("T") || here.take(" ")) || year < kYearMin ||
      year > kYearMax || month < 1 || month > 12 || day < 1 || day > 31) {
    return false;
  }
  time_ns = days_of(year, month, day) * 24 * 3600 * kSecondNs;
  if (!take_clock(here, time_ns)) return false;
  take_zone(here, time_ns);
  at = here;
  return true;
}

// --- the prefixes ------------------------------------------------------------------------------
// Each takes its form off, fills in what it tells, and returns true; or returns false, and what it
// did to its arguments is thrown away.

// "[rank3]: ", as PyTorch and torchrun write it; people set in what they quote.
bool take_rank(Cursor& at, LinePrefix& prefix) {
  at.take_blanks();
  if (!at.take("[rank") || !at.take_number(prefix.rank) || !at.take("]:")) return false;
  at.take_blank();
  return true;
}

// "[default3]:", the role and the rank on the host, as torchrun writes it.
bool take_role(Cursor& at, LinePrefix& prefix) {
  const bool is_role = at.take("[default") || at.take("[trainer") || at.take("[worker");
  if (!is_role || !at.take_number(prefix.local_rank) || !at.take("]:")) return false;
  at.take_blank();
  return true;
}

// "3: ", right-justified, as `srun -l` writes it.
bool take_srun(Cursor& at, LinePrefix& prefix) {
  at.take_blanks();
  return at.take_number(prefix.task) && at.take(": ");
}

// "[1,3]<stdout>:" of Open MPI, "[prterun-n7-4711@1,3]<stdout>:" of its fifth version,
// "[3]<stderr>:" of Horovod, "[1,mpirank:3,algo-1]<stdout>:" of SageMaker.
bool take_mpirun(Cursor& at, LinePrefix& prefix) {
  int32_t job = 0;
  if (!at.take("[")) return false;
  Cursor behind = at;
  if (!behind.take_word().empty() && behind.take("@")) at = behind;
  behind = at;
  if (behind.take_number(job) && behind.take(",")) at = behind;
  at.take("mpirank:");
  if (!at.take_number(prefix.task)) return false;
  if (at.take(",")) prefix.host = at.take_word();
  if (!at.take("]<std") || !(at.take("out>:") || at.take("err>:") || at.take("diag>:"))) {
    return false;
  }
  at.take_blank();
  return true;
}

// "(TrainWorker[rank=3] pid=4711, ip=10.0.0.7) ", as Ray writes it, and vLLM without the address;
// "(head, rank=0, pid=5634) ", as SkyPilot does.
bool take_ray(Cursor& at, LinePrefix& prefix) {
  at.take("[36m") || at.take("[35m") || at.take("[33m");  // colours whose escape was lost
  if (!at.take("(")) return false;
  const std::string_view inside = at.take_until(")");
  const size_t pid = inside.find("pid=");
  if (pid == std::string_view::npos || inside.find('(') != std::string_view::npos) return false;
  int32_t number = 0;
  Cursor behind(inside.substr(pid + 4));
  if (!behind.take_number(number)) return false;
  prefix.pid = static_cast<uint32_t>(number);
  const size_t rank = inside.substr(0, pid).find("rank=");
  if (rank != std::string_view::npos) {
    // SkyPilot's "(worker1, rank=1, pid=2972, ip=10.0.0.5)" counts nodes.
    Cursor after(inside.substr(rank + 5));
    if (after.take_number(number) && !after.take(",")) prefix.rank = number;
  }
  if (behind.take(", ip=")) prefix.host = behind.rest();
  at.take("[0m");
  at.take_blank();
  return true;
}

// "ERROR 11-27 15:40:00 [core.py:708] ", as vLLM's logger writes it in front of every line of a
// message, and without the first bracket before 0.9.
bool take_vllm(Cursor& at, LinePrefix& prefix) {
  constexpr std::string_view kLevels[] = {"INFO ", "WARNING ", "ERROR ", "CRITICAL ", "DEBUG "};
  int32_t month = 0;
  int32_t day = 0;
  int32_t line = 0;
  const bool has_level = std::any_of(std::begin(kLevels), std::end(kLevels),
                                     [&](std::string_view level) { return at.take(level); });
  if (!has_level || !at.take_digits(2, month) || !at.take("-") || !at.take_digits(2, day) ||
      !at.take(" ") || month < 1 || month > 12 || day < 1 || day > 31) {
    return false;
  }
  prefix.time_ns = days_of(1970, month, day) * 24 * 3600 * kSecondNs;
  if (!take_clock(at, prefix.time_ns) || !at.take(" ")) return false;
  at.take("[");
  while (!at.take_word().empty() && at.take("/")) continue;
  if (!at.take(":") || !at.take_number(line) || !at.take("]")) return false;
  at.take_blank();
  return true;
}

// "- trainer - INFO - ", what Python's logging is mostly told to put behind the time.
bool take_logging(Cursor& at, LinePrefix&) {
  constexpr std::string_view kLevels[] = {"INFO", "WARNING", "ERROR", "CRITICAL", "DEBUG"};
  if (!at.take("- ") || at.take_word().empty() || !at.take(" - ")) return false;
  const std::string_view level = at.take_word();
  return std::find(std::begin(kLevels), std::end(kLevels), level) != std::end(kLevels) &&
         at.take(" - ");
}

// "0a1b2c3d [rank=3] || ", the container and the rank, as Determined writes them behind the time.
bool take_determined(Cursor& at, LinePrefix& prefix) {
  if (at.take_word().empty() || !at.take(" [rank=") || !at.take_number(prefix.rank)) return false;
  if (!at.take("] ||")) return false;
  at.take_blank();
  return true;
}

// " TP3", " DP0 TP3 EP3": what SGLang's logger has behind the time.
void take_places(Cursor& at, LinePrefix& prefix) {
  constexpr std::string_view kPlaces[] = {" DP", " TP", " EP", " PP"};
  const std::string_view begin = at.rest();
  int32_t number = 0;
  for (const std::string_view place : kPlaces) {
    Cursor behind = at;
    if (behind.take(place) && behind.take_number(number)) at = behind;
  }
  const size_t taken = begin.size() - at.rest().size();
  if (taken != 0) prefix.place = begin.substr(1, taken - 1);
}

// "2026-11-27T15:40:00.123Z ", "[2026-11-27 15:40:00] ", and what the container runtime of
// Kubernetes puts behind it on disk: "stdout F ".
bool take_time(Cursor& at, LinePrefix& prefix) {
  const bool has_bracket = at.take("[");
  if (!take_iso(at, prefix.time_ns)) return false;
  if (has_bracket) take_places(at, prefix);
  if (has_bracket && !at.take("]")) return false;
  if (!at.rest().starts_with(' ') && !at.rest().starts_with('\t') && !at.at_end()) return false;
  at.take_blank();
  Cursor behind = at;
  const bool is_stream = behind.take("stdout ") || behind.take("stderr ");
  if (is_stream && (behind.take("F ") || behind.take("P "))) at = behind;
  return true;
}

// "host trainer[4711]: ", "host kernel: ": what follows the time of journald and syslog.
bool take_journal_name(Cursor& at, LinePrefix& prefix) {
  const std::string_view host = at.take_word();
  if (host.empty() || !at.take(" ") || at.take_word().empty()) return false;
  if (at.take("[")) {
    int32_t pid = 0;
    if (!at.take_number(pid) || !at.take("]")) return false;
  }
  if (!at.take(": ")) return false;
  prefix.host = host;
  return true;
}

// "Nov 27 15:40:00 host trainer[4711]: ", and with a time of ISO 8601.
bool take_journal(Cursor& at, LinePrefix& prefix) {
  if (take_iso(at, prefix.time_ns)) return at.take(" ") && take_journal_name(at, prefix);
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const size_t month = kMonths.find(at.rest().substr(0, 3));
  if (at.rest().size() < 3 || month == std::string_view::npos || month % 3 != 0) return false;
  at = Cursor(at.rest().substr(3));
  int32_t day = 0;
  at.take_blanks();
  if (!at.take_number(day) || day < 1 || day > 31 || !at.take(" ")) return false;
  prefix.time_ns = days_of(1970, static_cast<int32_t>(month / 3) + 1, day) * 24 * 3600 * kSecondNs;
  return take_clock(at, prefix.time_ns) && at.take(" ") && take_journal_name(at, prefix);
}

// "[12345.678901] ": the kernel's own, since the boot.
bool take_kernel_time(Cursor& at, LinePrefix&) {
  int32_t seconds = 0;
  int32_t fraction = 0;
  if (!at.take("[")) return false;
  at.take_blanks();
  return at.take_number(seconds) && at.take(".") && at.take_digits(6, fraction) && at.take("] ");
}

// "[pod/trainer-3/main] ", as `kubectl logs --prefix` writes it.
bool take_kubectl(Cursor& at, LinePrefix& prefix) {
  if (!at.take("[pod/")) return false;
  prefix.host = at.take_word();
  if (prefix.host.empty() || !at.take("/") || at.take_word().empty() || !at.take("]")) return false;
  at.take_blank();
  return true;
}

// "{app="trainer", pod="trainer-3"} ", the labels of Loki.
bool take_loki(Cursor& at, LinePrefix& prefix) {
  if (!at.take("{")) return false;
  do {
    at.take_blanks();
    const std::string_view label = at.take_word();
    if (label.empty() || !at.take("=\"")) return false;
    const std::string_view value = at.take_until("\"");
    if (label == "pod" || (prefix.host.empty() && (label == "host" || label == "instance"))) {
      prefix.host = value;
    }
  } while (at.take(","));
  if (!at.take("}")) return false;
  at.take_blanks();
  return true;
}

// "trainer-3  | ", as docker compose writes it.
bool take_compose(Cursor& at, LinePrefix& prefix) {
  prefix.host = at.take_word();
  if (prefix.host.empty()) return false;
  at.take_blanks();
  if (!at.take("|")) return false;
  at.take_blank();
  return true;
}

// "trainer-3 main ", as stern writes it.
bool take_stern(Cursor& at, LinePrefix& prefix) {
  prefix.host = at.take_word();
  const bool is_pod = prefix.host.find('-') != std::string_view::npos;
  return is_pod && at.take(" ") && !at.take_word().empty() && at.take(" ");
}

// "15:40:00.123 ", of a logger that leaves out the date.
bool take_clock_alone(Cursor& at, LinePrefix& prefix) {
  int64_t time_ns = 0;
  if (!take_clock(at, time_ns) || !at.take(" ")) return false;
  prefix.time_ns = time_ns;
  return true;
}

// "RuntimeError", "torch.OutOfMemoryError", "UserWarning", "KeyboardInterrupt": what Python raises
// or warns of is the name of no host and of no file, whatever follows it.
bool is_name_of_error(std::string_view word) {
  return is_exception_name(word) || word.ends_with("Warning") || word.ends_with("Interrupt") ||
         word.ends_with("Iteration") || word == "Error" || word == "Exception";
}

// "[trainer-1, 10.0.0.7] ", the pod and its address, as Azure ML writes them behind the time.
bool take_azure(Cursor& at, LinePrefix& prefix) {
  if (!at.take("[")) return false;
  prefix.host = at.take_word();
  return !prefix.host.empty() && at.take(", ") && !at.take_word().empty() && at.take("] ");
}

// "node7: ", as pdsh, clush and DeepSpeed write it.
bool take_pdsh(Cursor& at, LinePrefix& prefix) {
  prefix.host = at.take_word();
  return !prefix.host.empty() && !is_name_of_error(prefix.host) && at.take(": ");
}

// "[3] ", as `mpiexec -l` of MPICH writes it.
bool take_mpich(Cursor& at, LinePrefix& prefix) {
  return at.take("[") && at.take_number(prefix.task) && at.take("] ");
}

// "57:" of `grep -n`, and "57-" of the lines around a match.
bool take_grep_number(Cursor& at, LinePrefix&) {
  int32_t number = 0;
  return at.take_number(number) && (at.take(":") || at.take("-"));
}

// "logs/rank3.log:57:" of `grep -rn`, "logs/rank3.log:" of `grep -r`, "rank3:57:" of `grep -Hn`.
bool take_grep_file(Cursor& at, LinePrefix& prefix) {
  prefix.file = at.take_until(":");
  if (prefix.file.empty() || prefix.file.find(' ') != std::string_view::npos) return false;
  if (is_name_of_error(prefix.file)) return false;
  Cursor behind = at;
  int32_t number = 0;
  const bool has_number = behind.take_number(number) && behind.take(":");
  if (has_number) at = behind;
  return has_number || prefix.file.find_first_of("./") != std::string_view::npos ||
         begins_as_nccl(at.rest());
}

// "logs/rank3.log-": the lines around a match of `grep -r`. The name ends behind its suffix.
bool take_grep_around(Cursor& at, LinePrefix& prefix) {
  const std::string_view word = at.rest().substr(0, at.rest().find(' '));
  const size_t folder = word.rfind('/', word.find('"'));
  const size_t suffix = word.find('.', folder == std::string_view::npos ? 0 : folder);
  const size_t dash = suffix == std::string_view::npos ? suffix : word.find('-', suffix);
  if (dash == std::string_view::npos) return false;
  prefix.file = word.substr(0, dash);
  at = Cursor(at.rest().substr(dash + 1));
  return prefix.file.find(':') == std::string_view::npos;
}

// "logs/rank3.log-57-": those of `grep -rn`.
bool take_grep_context(Cursor& at, LinePrefix& prefix) {
  int32_t number = 0;
  if (!take_grep_around(at, prefix)) return false;
  return at.take_number(number) && at.take("-");
}

using Take = bool (*)(Cursor&, LinePrefix&);

// Forms that nothing else looks like.
constexpr Take kSure[] = {take_rank,        take_role, take_mpirun,  take_ray,
                          take_journal,     take_time, take_vllm,    take_kubectl,
                          take_kernel_time, take_loki, take_logging, take_determined};

// Forms that other lines look like, too: taken only where what is left begins as a line does that
// we read. grep's come last: a host and a number look like a file and a line.
constexpr Take kUnsure[] = {take_srun,        take_compose,      take_stern,       take_pdsh,
                            take_clock_alone, take_grep_context, take_grep_around, take_mpich,
                            take_grep_number, take_grep_file,    take_azure};
constexpr size_t kSrun = 0;
constexpr size_t kPdsh = 3;
constexpr size_t kGrepAround = 6;
constexpr size_t kGrepNumber = 8;
constexpr size_t kGrepFile = 9;
static_assert(kUnsure[kSrun] == take_srun && kUnsure[kPdsh] == take_pdsh);
static_assert(kUnsure[kGrepAround] == take_grep_around);
static_assert(kUnsure[kGrepNumber] == take_grep_number && kUnsure[kGrepFile] == take_grep_file);

// Left of a line by one form; what it was, where the form is not in front.
std::string_view take_one(Take take, std::string_view line, LinePrefix& prefix) {
  Cursor at(line);
  LinePrefix found = prefix;
  if (!take(at, found)) return line;
  prefix = found;
  return at.rest();
}

// "[E1127 15:40:00.123 ProcessGroupNCCL.cpp:607]", "E1127 15:40:00.123456 4711 ": how PyTorch does.
bool begins_as_glog(std::string_view line) {
  Cursor at(line);
  at.take("[");
  int32_t date = 0;
  int64_t time_ns = 0;
  const bool is_level = at.take("E") || at.take("W") || at.take("I") || at.take("F");
  return is_level && at.take_number(date) && at.take(" ") && take_clock(at, time_ns);
}

// "  "nccl_version": "2.30.7",": how a report of ncclras as JSON begins, or its first line but one.
bool begins_as_ras_json(std::string_view line) {
  Cursor at(line);
  at.take_blanks();
  if (at.take("{")) at.take_blanks();
  return at.take("\"nccl_version\":");
}

// ":4711:4802 [3] NCCL": where NCCL could not find out the name of its host.
bool begins_as_nccl_of_no_host(std::string_view line) {
  constexpr std::string_view kHost = "host";
  return line.starts_with(':') && begins_as_nccl(std::string(kHost) + std::string(line));
}

// Lines of a traceback, and the error that ends it: any program writes them.
bool begins_as_traceback(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(':'));
  return line.starts_with("Traceback (most recent call last):") || line.starts_with("  File \"") ||
         (name.size() < line.size() && is_exception_name(name.substr(name.rfind('.') + 1)));
}

bool begins_as_line(std::string_view line) {
  if (begins_as_nccl(line) || begins_as_nccl_of_no_host(line) || begins_as_glog(line) ||
      begins_as_ras_json(line)) {
    return true;
  }
  if (line.starts_with("[Rank ") || line.starts_with("[PG ") || line.starts_with("NVRM: ") ||
      line.starts_with("NCCL ") || line.starts_with("Missing ranks:")) {
    return true;
  }
  return std::any_of(std::begin(kSure), std::end(kSure), [&](Take take) {
    LinePrefix ignored;
    return take_one(take, line, ignored).size() != line.size();
  });
}

}  // namespace

bool begins_as_nccl(std::string_view line) {
  Cursor at(line);
  int32_t pid = 0;
  int32_t tid = 0;
  return !at.take_word().empty() && at.take(":") && at.take_number(pid) && at.take(":") &&
         at.take_number(tid) && (at.take(" [") || at.take(" NCCL "));
}

// "2:  words" is what `srun -l` writes, and `grep -n`; "job.log:  words" pdsh, and `grep -r`. Which
// of the two it was, other lines show.
void PrefixTaker::confirm(size_t form, std::string_view line) {
  confirmed_ |= 1u << form;
  if (form != kSrun && form != kPdsh) return;
  const size_t other = form == kSrun ? kGrepNumber : kGrepFile;
  LinePrefix ignored;
  if (begins_as_line(take_one(kUnsure[other], line, ignored))) confirmed_ |= 1u << other;
}

// Whether what stands in front of `line` is the name of a pod or a host. Behind one that looks like
// it, and not like "ERROR: ", a line that any program writes shows it, of that one alone.
bool PrefixTaker::shows_pod(std::string_view line, const LinePrefix& prefix) {
  constexpr size_t kPodsMax = 4096;
  if (pods_.contains(prefix.host)) return true;
  const bool may_be_pod = prefix.host.find_first_of("-0123456789") != std::string_view::npos;
  if (!may_be_pod || !begins_as_traceback(line) || pods_.size() >= kPodsMax) return false;
  pods_.emplace(prefix.host);
  return true;
}

// `used` has a bit for each form that was taken from the line before: none is taken twice.
std::string_view PrefixTaker::take_unsure(std::string_view line, LinePrefix& prefix,
                                          uint32_t& used) {
  for (size_t i = 0; i < std::size(kUnsure); ++i) {
    const uint32_t bit = 1u << i;
    LinePrefix found = prefix;
    const std::string_view without = take_one(kUnsure[i], line, found);
    if (without.size() == line.size() || (used & bit) != 0) continue;
    const bool is_confirmed = begins_as_line(without);
    // A full stop and a dash stand in many words: one file's name is no proof of another's.
    const bool is_known = (i != kGrepAround && (confirmed_ & bit) != 0) ||
                          (i == kPdsh && !is_confirmed && shows_pod(without, found));
    if (!is_confirmed && !is_known) continue;
    // Of "3: 12:30:45" the hour is no number of a line.
    if (!is_confirmed && i == kGrepNumber && (used & 1u << kSrun) != 0) continue;
    if (is_confirmed && (confirmed_ & bit) == 0) confirm(i, line);
    used |= bit;
    if (i == kGrepFile && found.file != file_) file_ = found.file;
    prefix = found;
    return without;
  }
  return line;
}

// "rank3.log-" around a match that had "rank3.log:" in front. NCCL's lines would otherwise begin
// with a host of that name.
std::string_view PrefixTaker::take_known_file(std::string_view line, LinePrefix& prefix) const {
  if (file_.empty() || !line.starts_with(file_)) return line;
  Cursor at(line.substr(file_.size()));
  if (!at.take("-")) return line;
  Cursor behind = at;
  int32_t number = 0;
  if (behind.take_number(number) && behind.take("-")) return line;  // take_grep_context
  prefix.file = line.substr(0, file_.size());
  return at.rest();
}

std::string_view PrefixTaker::take(std::string_view line, LinePrefix& prefix) {
  constexpr int kPrefixesMax = 8;
  uint32_t used = 0;
  bool is_of_rank = false;  // behind "[rank3]:" stand words of that rank, and no other prefix
  line = take_known_file(line, prefix);
  for (int taken = 0; taken < kPrefixesMax && !begins_as_nccl(line); ++taken) {
    std::string_view left = line;
    for (const Take form : kSure) {
      left = take_one(form, line, prefix);
      if (left.size() == line.size()) continue;
      is_of_rank = is_of_rank || form == take_rank;
      break;
    }
    if (left.size() == line.size() && !is_of_rank) left = take_unsure(line, prefix, used);
    if (left.size() == line.size()) break;
    line = left;
  }
  return line;
}

}  // namespace rollcall::trace
