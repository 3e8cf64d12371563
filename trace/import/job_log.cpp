#include "trace/import/job_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "trace/import/job_endings.h"
#include "trace/import/job_log_formats.h"
#include "trace/import/job_sayings.h"
#include "trace/import/line_words.h"
#include "trace/import/log_pattern.h"
#include "trace/import/mark_finder.h"
#include "trace/import/torn_line.h"

namespace rollcall::trace {
namespace {

constexpr size_t kSayingsMax = 100'000;
constexpr size_t kQuoteMax = 400;
constexpr size_t kScriptLinesMax = 4;  // of a stack
constexpr size_t kLateTasksMax = 64;
constexpr std::string_view kLastError = "Last error:";
constexpr std::string_view kResultName = "ncclSystemError: ";
constexpr std::string_view kDataLoader = "DataLoader worker (pid";
constexpr std::string_view kKubectl = "kubectl";
constexpr std::string_view kBash = "bash";
constexpr std::string_view kRay = "Ray";
constexpr std::string_view kDeepSpeed = "DeepSpeed";
constexpr std::string_view kTorchLaunch = "torch.distributed.launch";
constexpr std::string_view kKubeflow = "Kubeflow";
constexpr std::string_view kShell = "a shell";
constexpr std::string_view kRayActor = "The actor died unexpectedly";
constexpr std::string_view kLostGpu = "fallen off the bus";
constexpr std::string_view kNpu = "torch_npu";
constexpr std::string_view kTraceback = "Traceback (most recent call last)";

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return std::string(text.substr(0, kQuoteMax));
}

void fill(const LogValues& values, Saying& saying) {
  saying.op = values["op"];
  saying.other_op = values["op2"];
  saying.seq = values.number("seq", kUntold);
  saying.enqueued = values.number("enqueued", kUntold);
  saying.completed = values.number("completed", kUntold);
  saying.elements_in = values.number("in", kUntold);
  saying.elements_out = values.number("out", kUntold);
  saying.ran_ms = values.number("ran", kUntold);
  saying.limit_ms = values.number("limit", kUntold);
  saying.code = values.number("code", kUntold);
  saying.other_rank = rank_from(values.number("other", -1));
  saying.text = trimmed(values["text"]);
  if (values.has("local")) saying.local_rank = rank_from(values.number("local", -1));
  if (values.has("pid")) saying.writer = fmt::format("pid {}", values["pid"]);
}

// DeepEP numbers the ranks of its group, and those of each host by themselves.
void name_member(const LogValues& values, Saying& saying) {
  constexpr int64_t kOfHost = 8;
  int64_t member = values.number("member", -1);
  const int32_t node = rank_from(values.number("node", -1));
  const int32_t gpu = rank_from(values.number("gpu", -1));
  if (node >= 0 && gpu >= 0) member = node * kOfHost + gpu;
  if (member >= 0) saying.writer = fmt::format("DeepEP's rank {}", member);
}

// What a pattern cannot say of its kind.
void fill_kind(const LogValues& values, Saying& saying) {
  switch (saying.kind) {
    case SayingKind::mismatch:
      // Ranks in the group.
      saying.group_rank = rank_from(values.number("rank", -1));
      if (values.has("text")) saying.text = fmt::format(" [{}]", values["text"]);
      if (values.has("op3")) saying.text += fmt::format(" {}", values["op3"]);
      saying.elements_in = values["text"] == values["text2"] ? 1 : 0;
      saying.elements_out = values["op3"] == values["op4"] ? 1 : 0;
      saying.enqueued = values.number("seq2", kUntold);
      if (!values.has("text") || !values.has("text2")) saying.elements_in = kUntold;
      if (!values.has("op3") || !values.has("op4")) saying.elements_out = kUntold;
      break;
    case SayingKind::parameters_differ:
    case SayingKind::missing_ranks:
      saying.rank = rank_from(values.number("rank", -1));
      break;
    case SayingKind::not_joined:
    case SayingKind::outside:
      if (values.has("rank")) saying.rank = rank_from(values.number("rank", -1));
      name_member(values, saying);
      break;
    case SayingKind::not_met:
      if (values.has("out")) {
        if (values.has("rank")) saying.rank = rank_from(values.number("rank", -1));
      } else if (values.has("rank")) {
        saying.group_rank = rank_from(values.number("rank", -1));
      }
      break;
    case SayingKind::died:
      if (values.has("rank")) saying.rank = rank_from(values.number("rank", -1));
      if (values.has("signal")) saying.code = -values.number("signal", 0);
      if (values.has("op") && signal_named(saying.op) != kUntold)
        saying.code = -signal_named(saying.op);
      if (values.has("process")) {
        saying.writer = fmt::format("process {} {}", values["process"], kOfSpawn);
      } else if (values.has("task")) {
        saying.writer = fmt::format("task {} on {}", values["task"], values["text"]);
      } else if (values.has("text3")) {
        saying.writer = fmt::format("tasks {} on {}", values["text3"], values["text"]);
      } else if (values.has("name")) {
        saying.writer = "an actor of Ray";
      }
      if (values.has("text2")) saying.code = status_from_words(values["text2"]);
      break;
    case SayingKind::exception:
    case SayingKind::raised:
      saying.op = values["name"];
      break;
    default:
      break;
  }
}

// Of a rank.
bool is_error_kind(SayingKind kind) {
  return kind == SayingKind::exception || kind == SayingKind::async_error;
}

bool makes_no_saying(SayingKind kind) {
  return kind == SayingKind::init_started || kind == SayingKind::init_completed ||
         kind == SayingKind::restarted || kind == SayingKind::recovered ||
         kind == SayingKind::rank_ended || kind == SayingKind::rest_ended ||
         kind == SayingKind::announced || kind == SayingKind::placed || kind == SayingKind::chained;
}

// Lines with shorter ones are NCCL's, which are read anyway.
bool is_short(const LogFormat& format) { return format.mark.size() < kMarkBytesMin; }

template <typename Predicate>
std::vector<std::string_view> marks_if(Predicate&& predicate) {
  std::vector<std::string_view> found;
  for (const LogFormat& format : kLogFormats) {
    if (predicate(format)) found.push_back(format.mark);
  }
  return found;
}

const std::vector<std::string_view>& all_marks() {
  static const auto marks = [] {
    auto found = marks_if([](const LogFormat& format) { return !is_short(format); });
    found.insert(found.end(), std::begin(kHeaderMarks), std::end(kHeaderMarks));
    return found;
  }();
  return marks;
}

using FormatSet = std::bitset<std::size(kLogFormats)>;

// Of each mark the formats that have it.
struct FormatsByMark {
  MarkFinder finder{{all_marks().begin(), all_marks().end()}};
  std::vector<FormatSet> formats;
  FormatSet others;  // whose marks are too short to be looked for with the rest

  FormatsByMark() {
    for (size_t i = 0; i < std::size(kLogFormats); ++i) others.set(i);
    for (const std::string& mark : finder.marks()) {
      FormatSet& found = formats.emplace_back();
      for (size_t i = 0; i < std::size(kLogFormats); ++i) {
        if (kLogFormats[i].mark == mark) found.set(i);
      }
      others &= ~found;
    }
  }
};

// The formats whose marks stand in the text, in one look at it. Most lines hold none.
FormatSet formats_in(std::string_view text) {
  static const FormatsByMark known;
  FormatSet found;
  known.finder.for_each(text, [&](size_t mark) { found |= known.formats[mark]; });
  for (size_t i = 0; i < std::size(kLogFormats); ++i) {
    if (known.others.test(i) && text.find(kLogFormats[i].mark) != text.npos) found.set(i);
  }
  return found;
}

const FormatSet& formats_without_saying() {
  static const FormatSet formats = [] {
    FormatSet found;
    for (size_t i = 0; i < std::size(kLogFormats); ++i) {
      found.set(i, makes_no_saying(kLogFormats[i].kind));
    }
    return found;
  }();
  return formats;
}

void leave_out(uint64_t line, JobLog& log) {
  if (log.left_out_from == 0) log.left_out_from = line;
}

bool has_lines_behind(const LogFormat& format) {
  return format.kind == SayingKind::script_line || format.mark == "Missing ranks:" ||
         format.mark == "stopped sending heartbeats" || format.mark == "imed out task names:";
}

// Words of the warning, or of its line and, behind " ... ", of the warning.
bool holds_words(const Saying& saying, std::string_view words) {
  constexpr std::string_view kGap = " ... ";
  const size_t gap = words.find(kGap);
  if (gap == std::string_view::npos) return saying.text.find(words) != std::string::npos;
  return saying.quote.find(words.substr(0, gap)) != std::string::npos &&
         saying.text.find(words.substr(gap + kGap.size())) != std::string::npos;
}

bool is_harmless(const Saying& saying) {
  // Of a GPU that is gone no query is harmless.
  if (saying.kind != SayingKind::warning || saying.text.find("lost") != std::string::npos) {
    return false;
  }
  return std::any_of(std::begin(kHarmlessWarnings), std::end(kHarmlessWarnings),
                     [&](std::string_view words) { return holds_words(saying, words); });
}

// What anybody may print, or NCCL in every healthy job: no sign that a file is a job's log.
bool is_telling(const LogFormat& format) {
  switch (format.kind) {
    case SayingKind::result:
    case SayingKind::init_started:
    case SayingKind::init_completed:
    case SayingKind::script_line:
    case SayingKind::missing_ranks:
    case SayingKind::restarted:
    case SayingKind::recovered:
    case SayingKind::rank_ended:
    case SayingKind::rest_ended:
    case SayingKind::announced:
    case SayingKind::placed:
    case SayingKind::chained:
    case SayingKind::raised:
      return false;
    default:
      return true;
  }
}

// A line of this form is about an error of any name.
bool is_any_exception(const LogFormat& format) { return format.pattern.starts_with("<name>"); }

// PyTorch prints so what nobody caught, as the process ends. Without the blank it is how torchrun
// shows whatever a process of the role "rank" prints.
bool is_uncaught(const TextLine& line) { return rank_between(line.whole, "[rank", "]: ") >= 0; }

// It is told, and accuses nobody.
void make_raised(Saying& saying) {
  saying.kind = SayingKind::raised;
  saying.writer = fmt::format("rank {}", std::exchange(saying.rank, -1));
}

// The long lines, which consoles break, and those that their writer breaks.
bool may_be_broken(const LogFormat& format) {
  return format.kind == SayingKind::gave_up || format.kind == SayingKind::position ||
         format.kind == SayingKind::other_position || format.kind == SayingKind::blocking_wait ||
         format.mark == "noticed that process rank " || format.mark == "failed (exitcode: ";
}

// What PyTorch and NCCL would print of a call, or in front of any line: no end of another line.
bool begins_anew(const TextLine& line) {
  const bool is_marked =
      std::any_of(std::begin(kLogFormats), std::end(kLogFormats), [&](const LogFormat& format) {
        return line.text.find(format.mark) != std::string_view::npos;
      });
  return is_marked || line.prefix.rank >= 0 || rank_of(line.whole) >= 0 ||
         line.text.find("ProcessGroup") != std::string_view::npos;
}

// An exit status whose rank stands some lines in front of it; of others the line is about anything.
bool is_status_alone(const LogFormat& format) {
  return format.pattern.starts_with("exitcode :") || format.pattern.starts_with("Exit code:");
}

// One whose rank may stand in front of it.
bool is_of_mpiexec(const LogFormat& format) { return format.pattern.starts_with("= "); }

}  // namespace

JobLogReader::JobLogReader(const std::string& path) { log_.file = path; }

std::span<const std::string_view> JobLogReader::marks() const {
  static const auto marks_when_full = marks_if(
      [](const LogFormat& format) { return !is_short(format) && makes_no_saying(format.kind); });
  // Behind the first line that was left out they need not be looked for any more.
  return log_.left_out_from == 0 ? all_marks() : marks_when_full;
}

std::span<const std::string_view> JobLogReader::short_marks() const {
  static const auto marks = marks_if(is_short);
  return marks;
}

// Asked of lines of a terminal: the beginning of a form stands there, and not its end.
bool JobLogReader::is_unfinished(std::string_view text) const {
  return std::any_of(std::begin(kLogFormats), std::end(kLogFormats), [&](const LogFormat& format) {
    LogValues values;
    return is_telling(format) && text.find(format.mark) != std::string_view::npos &&
           !match_log_pattern(format.pattern, text, values);
  });
}

void JobLogReader::read_line(const TextLine& line) {
  if (line.is_damaged) return;
  TextLine rest = line;
  while (const std::optional<TornLine> torn = line_within(rest)) {
    read_whole(torn->front);
    rest = torn->behind;
  }
  read_whole(rest);
}

void JobLogReader::read_whole(const TextLine& line) {
  if (warned_ != kNone) read_warned(line);
  if (follows_ != nullptr) read_following(line);
  if (actor_.is_open()) actor_.read(line.text, line.number);
  if (unfinished_ != nullptr && read_end(line)) return;
  if (opening_.is_begun()) {
    const bool goes_on = opening_.join(line);
    if (!goes_on) take_torn_wait(opening_.line());
    if (goes_on && opening_.is_whole()) {
      read_formats(opening_.line());
      opening_.drop();
    }
    if (goes_on) return;
  }
  if (opening_.begin(line)) return;
  const bool is_told = read_formats(line);
  if (tracebacks_.are_open()) read_traceback(line, is_told);
}

// Whether `line` is of a form that says more than that something was raised.
bool JobLogReader::read_formats(const TextLine& line) {
  bool is_told = false;
  FormatSet formats = formats_in(line.text);
  if (is_full() && (formats & ~formats_without_saying()).any()) {
    formats &= formats_without_saying();
    leave_out(line.number, log_);
  }
  for (size_t i = 0; formats.any() && i < formats.size(); ++i) {
    const LogFormat& format = kLogFormats[i];
    if (!formats.test(i)) continue;
    if (format.mark == kTraceback) {
      tracebacks_.begin(line, raiser_.take(line));
      continue;
    }
    if (has_lines_behind(format)) {
      // Who is at its end before the others waits for them, and they go on.
      const bool is_of_end = line.text.find("hutdown") != std::string_view::npos;
      if (!is_of_end) follows_ = &format;
      continue;
    }
    const bool is_of_form = take(format, line);
    is_told = is_told || (is_of_form && !is_any_exception(format));
    if (is_of_form || !may_be_broken(format)) continue;
    unfinished_ = &format;
    begun_.text = line.text;
    begun_.whole = line.whole;
    begun_.line = line.number;
    begun_.prefix = line.prefix;
    begun_.parts = 1;
  }
  return is_told;
}

// What ends a traceback. Behind "[rank3]:" PyTorch prints what nobody caught; elsewhere a program
// may print what it got over.
void JobLogReader::read_traceback(const TextLine& line, bool is_told) {
  const bool has_form = !raised_exception(line.text).empty();
  const std::optional<std::string> who = tracebacks_.end(line, has_form);
  if (!who) return;
  const SayingKind kind = is_uncaught(line) ? SayingKind::exception : SayingKind::raised;
  for (const LogFormat& format : kLogFormats) {
    if (is_told) break;
    is_told = format.mark == kTraceback && format.kind == kind && take(format, line);
  }
  if (who->empty() || log_.sayings.empty()) return;
  Saying& saying = log_.sayings.back();
  const bool is_nameless = saying.line == line.number && saying.rank < 0 && saying.writer.empty();
  if (is_nameless) saying.writer = *who;
}

bool JobLogReader::is_full() const { return log_.sayings.size() >= kSayingsMax; }

// The text of a warning that stands on the line behind it.
void JobLogReader::read_warned(const TextLine& line) {
  constexpr std::string_view kOthers[] = {"Exception raised from", "Traceback", "frame #"};
  const bool is_empty =
      begins_as_nccl(line.text) ||
      std::any_of(std::begin(kOthers), std::end(kOthers), [&](std::string_view words) {
        return line.text.find(words) != std::string_view::npos;
      });
  if (!is_empty && trimmed(line.text).empty()) return;
  const size_t at = std::exchange(warned_, kNone);
  if (at >= log_.sayings.size()) return;
  if (is_empty) {
    log_.sayings.erase(log_.sayings.begin() + static_cast<std::ptrdiff_t>(at));
    return;
  }
  Saying& warned = log_.sayings[at];
  warned.text = trimmed(line.text);
  warned.quote = (warned.quote + " " + warned.text).substr(0, kQuoteMax);
}

void JobLogReader::drop_unfinished() {
  const LogFormat* format = std::exchange(unfinished_, nullptr);
  if (format == nullptr || format->kind != SayingKind::gave_up) return;
  take_torn_wait(
      {.text = begun_.text, .whole = begun_.whole, .number = begun_.line, .prefix = begun_.prefix});
}

// Who began to tell of a time-out gave up as well, though the rest of the line is lost.
void JobLogReader::take_torn_wait(const TextLine& begun) {
  constexpr LogFormat kOfCall = {SayingKind::gave_up, "WorkNCCL(",
                                 "WorkNCCL({SeqNum=<seq>, }OpType=<op>, ", "", ""};
  constexpr LogFormat kOfAny = {SayingKind::position, "Watchdog", "Watchdog caught", "", ""};
  if (!take(kOfCall, begun)) take(kOfAny, begun);
}

// A line that a console broke goes on here, where that completes its form.
bool JobLogReader::read_end(const TextLine& line) {
  const LogFormat& format = *unfinished_;
  constexpr int kPartsMax = 4;
  if (begins_anew(line) || ++begun_.parts > kPartsMax) {
    drop_unfinished();
    return false;
  }
  for (const char* between : {"", " "}) {
    const std::string text = begun_.text + between + std::string(line.text);
    const std::string whole = begun_.whole + between + std::string(line.text);
    TextLine joined{.text = text, .whole = whole, .number = begun_.line, .prefix = begun_.prefix};
    if (!take(format, joined)) continue;
    unfinished_ = nullptr;
    return true;
  }
  begun_.text += std::string(" ") + std::string(line.text);
  begun_.whole += std::string(" ") + std::string(line.text);
  return true;
}

// Lines of a form that goes on: the first that is not of it ends it.
void JobLogReader::read_following(const TextLine& line) {
  const size_t before = log_.sayings.size();
  const LogFormat& format = *follows_;
  take(format, line);
  const bool is_of_it = log_.sayings.size() != before;
  const bool is_full =
      before > kScriptLinesMax &&
      std::all_of(log_.sayings.end() - kScriptLinesMax, log_.sayings.end(),
                  [](const Saying& saying) { return saying.kind == SayingKind::script_line; });
  if (!is_of_it || is_full) follows_ = nullptr;
}

// False where the line is not of that form.
bool JobLogReader::take(const LogFormat& format, const TextLine& given) {
  LogValues values;
  if (!match_log_pattern(format.pattern, given.text, values)) return false;
  switch (format.kind) {
    case SayingKind::init_started:
    case SayingKind::init_completed:
      log_.world_size = std::max(log_.world_size, rank_from(values.number("code", -1)));
      mark_attempt(format, given, values);
      mark_place(given, values);
      return true;
    case SayingKind::placed:
      mark_place(given, values);
      return true;
    case SayingKind::announced:
      read_announced(given, values);
      return true;
    case SayingKind::restarted:
      mark_attempt(format, given, values);
      return true;
    case SayingKind::rank_ended:
      ended_.read(values, given.number, time_of(given.text));
      return true;
    case SayingKind::rest_ended:
      is_rest_ended_ = true;
      return true;
    case SayingKind::chained:
      if (given.prefix.rank >= 0) chained_.insert(rank_from(given.prefix.rank));
      return true;
    case SayingKind::recovered:
      std::erase_if(log_.sayings, [](const Saying& saying) {
        return saying.kind == SayingKind::not_met && saying.ran_ms != kUntold;
      });
      warned_ = kNone;
      return true;
    default:
      if (values.has("ranks")) {
        take_ranks(format, given, values);
      } else {
        keep(saying_of(format, given, values), format, given, values);
      }
      return true;
  }
}

Saying JobLogReader::saying_of(const LogFormat& format, const TextLine& given,
                               const LogValues& values) {
  const std::string_view line = given.text;
  Saying saying;
  saying.kind = format.kind;
  saying.line = given.number;
  saying.rank = given.prefix.rank >= 0 ? rank_from(given.prefix.rank) : rank_of(given.whole);
  saying.local_rank = given.prefix.local_rank >= 0 ? rank_from(given.prefix.local_rank)
                                                   : rank_between(given.whole, "[default", "]");
  saying.day_ms = time_of(given.whole);
  read_group(line, saying);
  fill(values, saying);
  fill_kind(values, saying);
  if (format.kind == SayingKind::warning || format.kind == SayingKind::result) {
    saying.writer = writer_of(line);
    const bool is_task =
        saying.writer.empty() && given.prefix.task >= 0 && format.mark != kLastError;
    if (is_task) saying.writer = fmt::format("task {}", given.prefix.task);
  }
  const size_t at = line.find(format.mark);
  const bool is_error = format.kind == SayingKind::exception || format.kind == SayingKind::raised;
  if (is_error && saying.rank < 0) {
    if (format.mark == kDataLoader) saying.text = trimmed(line.substr(at));
    if (given.prefix.task >= 0) saying.writer = fmt::format("task {}", given.prefix.task);
  }
  if (format.kind == SayingKind::outside && saying.rank < 0 && !given.prefix.place.empty()) {
    saying.writer = given.prefix.place;
  }
  if (format.kind == SayingKind::raised && saying.rank >= 0) {
    make_raised(saying);  // it may have got over that
  }
  if (format.mark == kLostGpu) saying.writer = gpu_.take(given);
  if (format.source == kShell) saying.code = status_from_words(format.pattern);
  if (format.kind == SayingKind::died && saying.rank < 0) {
    // Its launcher shows the command that it started last, whichever process ended.
    if (format.source == kDeepSpeed) saying.writer = "a process that DeepSpeed's launcher started";
    if (format.source == kTorchLaunch) saying.writer = "a process that PyTorch's launcher started";
    if (format.source == kKubeflow) saying.writer = "pod " + saying.text;
    if (format.source == kRay && values.has("name")) actor_.give_to(saying);
    if (stands_for_several(given.whole)) saying.writer = kOneOfSeveral;
    if (format.source == kShell) saying.writer = kOneOfSeveral;
  }
  // A form that goes on has its mark in an earlier line.
  const size_t mark_at = at == std::string_view::npos ? 0 : at;
  const size_t begin = line.size() <= kQuoteMax ? 0 : mark_at > 120 ? mark_at - 120 : 0;
  saying.quote = trimmed(line.substr(begin, kQuoteMax));
  return saying;
}

// A saying for each rank that a line lists.
void JobLogReader::take_ranks(const LogFormat& format, const TextLine& given,
                              const LogValues& values) {
  std::string_view list = values["ranks"];
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, end);
    while (one.starts_with(' ')) one.remove_prefix(1);
    int64_t number = -1;
    const auto [last, error] = std::from_chars(one.data(), one.data() + one.size(), number);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (error != std::errc() || rank_from(number) < 0) continue;
    Saying saying = saying_of(format, given, values);
    saying.rank = rank_from(number);
    keep(std::move(saying), format, given, values);
  }
}

// What a line alone does not make a fact.
bool JobLogReader::is_untenable(Saying& saying, const LogFormat& format, const LogValues& values,
                                const TextLine& given) {
  if (is_harmless(saying)) return true;
  const bool is_known =
      !log_.sayings.empty() && log_.sayings.back().line == saying.line &&
      (log_.sayings.back().kind == saying.kind || log_.sayings.back().kind == SayingKind::raised);
  switch (saying.kind) {
    case SayingKind::async_error:
      return is_known || (format.mark.starts_with(kResultName) && explains_another(saying));
    case SayingKind::exception:
      if (is_known) return true;
      // Anybody may print such a line.
      return format.mark != kTraceback && values.has("name") &&
             !(is_uncaught(given) && is_exception_name(values["name"]));
    case SayingKind::died:
      if (values.has("text2") && saying.code == kUntold) return true;
      // Ray's line holds the words of two forms.
      if (format.source == kRay && is_known) return true;
      if (values.has("task") || values.has("text3")) {
        if (!is_rest_ended_ || may_have_ended_step(saying, log_.sayings)) return false;
        if (late_tasks_.size() < kLateTasksMax) late_tasks_.push_back(saying);
        return true;
      }
      // A command that is run in a container may fail for anything.
      if (format.source == kKubectl) return !is_violent_status(saying.code);
      // Without its script's name a shell tells of an end in a line of its own.
      if (format.source == kShell) {
        const std::string words = trimmed(given.text);
        return words != format.pattern && words != fmt::format("{} (core dumped)", format.pattern);
      }
      // A shell runs much beside the job.
      if (format.source == kBash) return !names_job_command(values["text2"]);
      if (is_status_alone(format)) return !ended_.give_to(saying);
      if (is_of_mpiexec(format) && ended_.give_to(saying)) saying.is_first_death = false;
      return saying.code == 0;
    case SayingKind::machine:
      // A line that says why tells more than that it happened. Ray counts what it ended, and none
      // is a count, too.
      return is_known || (format.source == kRay && values.number("in", 1) == 0);
    case SayingKind::not_met:
      // One try of many.
      return given.whole.find("retrying") != std::string_view::npos;
    default:
      return false;
  }
}

// "ncclSystemError: ..." stands behind the line that tells of the error.
bool JobLogReader::explains_another(const Saying& saying) const {
  constexpr uint64_t kReach = 8;  // lines
  constexpr size_t kSayings = 64;
  const size_t near = std::min(log_.sayings.size(), kSayings);
  const auto begin = log_.sayings.end() - static_cast<std::ptrdiff_t>(near);
  return std::any_of(begin, log_.sayings.end(), [&](const Saying& known) {
    return (is_error_kind(known.kind) || known.kind == SayingKind::raised) &&
           known.line + kReach >= saying.line;
  });
}

// The lines of an exception behind its first do not name the rank again.
void JobLogReader::inherit_rank(Saying& saying) const {
  constexpr uint64_t kReach = 4;  // lines
  if (saying.rank >= 0 || !saying.writer.empty() || log_.sayings.empty()) return;
  const Saying& last = log_.sayings.back();
  const bool is_error = is_error_kind(last.kind) || last.kind == SayingKind::raised;
  const bool is_of_it =
      saying.kind == SayingKind::outside ? is_error : last.kind == SayingKind::async_error;
  if (!is_of_it || saying.line > last.line + kReach) return;
  if (saying.kind == SayingKind::outside) saying.writer = last.writer;
  saying.rank = last.rank;
  saying.local_rank = last.local_rank;
}

void JobLogReader::keep(Saying&& saying, const LogFormat& format, const TextLine& given,
                        const LogValues& values) {
  if (format.mark == kLastError || format.source == kNpu) inherit_rank(saying);
  const bool is_of_nobody = saying.rank < 0 && saying.writer.empty();
  if (format.mark == kLastError && is_of_nobody) saying.writer = given.prefix.host;
  if (format.mark.starts_with(kRayActor)) actor_.begin(given.number);
  if (is_untenable(saying, format, values, given)) return;
  if (is_about_wait(saying)) {
    log_.last_wait_line = given.number;
    if (given.prefix.pid != 0) waiting_.try_emplace(given.prefix.pid, given.number);
  }
  if (is_repeated(saying)) return;
  log_.leaves_out_alike = log_.leaves_out_alike || stands_for_several(given.whole);
  if (is_full()) return leave_out(given.number, log_);
  // Whom a rank waited for tells more than that it gave up by an exception.
  const bool is_raised_wait = saying.kind == SayingKind::not_met && !log_.sayings.empty() &&
                              log_.sayings.back().line == saying.line &&
                              log_.sayings.back().kind == SayingKind::exception;
  if (is_raised_wait) log_.sayings.pop_back();
  if (is_error_kind(saying.kind) && chained_.erase(saying.rank) != 0) weigh_chain(saying);
  log_.sayings.push_back(std::move(saying));
  if (is_status_alone(format)) ended_.add_alike(log_.sayings);
  if (is_end_of_step(log_.sayings.back())) take_late_tasks();
  const bool has_no_text = format.kind == SayingKind::warning && log_.sayings.back().text.empty();
  if (has_no_text) warned_ = log_.sayings.size() - 1;
}

// srun and slurmstepd write at the same time: what srun tells of the tasks may stand in front of
// the line that says that the step was ended.
void JobLogReader::take_late_tasks() {
  constexpr uint64_t kReach = 64;  // lines
  const uint64_t step_line = log_.sayings.back().line;
  for (Saying& task : std::exchange(late_tasks_, {})) {
    const bool is_near = task.line + kReach >= step_line;
    if (!is_near || is_full() || !may_have_ended_step(task, log_.sayings)) continue;
    log_.sayings.push_back(std::move(task));
  }
}

// Of the errors of a rank that were raised one while the other was handled, the one that tells of
// another rank's end says that this rank began nothing.
void JobLogReader::weigh_chain(Saying& next) {
  constexpr std::ptrdiff_t kReach = 64;  // sayings, of other ranks for the most part
  const auto end = log_.sayings.rend() - log_.sayings.rbegin() > kReach
                       ? log_.sayings.rbegin() + kReach
                       : log_.sayings.rend();
  const auto former = std::find_if(log_.sayings.rbegin(), end, [&](const Saying& saying) {
    return is_error_kind(saying.kind) && saying.rank == next.rank;
  });
  if (former == end) return;
  if (tells_of_another_end(*former)) {
    if (next.kind == SayingKind::exception) make_raised(next);
  } else if (tells_of_another_end(next)) {
    make_raised(*former);
  }
}

void JobLogReader::read_announced(const TextLine& line, const LogValues& values) {
  if (values.has("rank")) return raiser_.read(line, fmt::format("rank {}", values["rank"]));
  gpu_.read(line, fmt::format("GPU {}", trimmed(values["text"])));
}

void JobLogReader::mark_place(const TextLine& line, const LogValues& values) {
  const Place place{rank_from(values.number("rank", -1)), rank_from(values.number("code", -1))};
  const std::string writer = writer_of(line.text);
  if (place.rank < 0 || place.nranks < 0) return;
  if (writer.empty() || places_.size() >= kSayingsMax) return;
  Place& known = places_[writer];
  if (known.nranks < place.nranks) known = place;
}

void JobLogReader::mark_attempt(const LogFormat& format, const TextLine& line,
                                const LogValues& values) {
  AttemptMark mark;
  mark.at = log_.sayings.size();
  mark.line = line.number;
  mark.day_ms = time_of(line.whole);
  mark.is_launcher = format.kind == SayingKind::restarted;
  if (mark.is_launcher) {
    restarts_.insert(mark.at);
    // "3/3 attempts left" in front of the first that is started again.
    const int64_t left = values.number("in", kUntold);
    const int64_t all = values.number("out", kUntold);
    if (left >= 0 && all >= left) mark.number = all - left + 1;
    if (values.has("code")) mark.number = rank_from(values.number("code", -1));
    if (mark.number == -1) return;
  } else {
    mark.rank = rank_from(values.number("rank", -1));
    mark.nranks = rank_from(values.number("code", -1));
    mark.writer = writer_of(line.text);
    if (mark.rank < 0 || mark.nranks < 0 || mark.writer.empty()) return;
  }
  if (marks_.size() < kSayingsMax) marks_.push_back(std::move(mark));
}

// PyTorch prints a time-out when it finds it, and again when it throws it: in the same words. What
// stands behind another time-out of the same rank, or in another attempt, is told for the first
// time.
bool JobLogReader::is_repeated(const Saying& saying) const {
  constexpr size_t kReach = 64;
  if (saying.kind == SayingKind::script_line) return false;
  size_t begin = log_.sayings.size() - std::min(log_.sayings.size(), kReach);
  if (!restarts_.empty()) begin = std::max(begin, *restarts_.rbegin());
  for (size_t i = log_.sayings.size(); i-- > begin;) {
    const Saying& known = log_.sayings[i];
    const bool is_same = known.kind == saying.kind && known.rank == saying.rank &&
                         known.group_rank == saying.group_rank && known.seq == saying.seq &&
                         known.group == saying.group && known.op == saying.op &&
                         known.writer == saying.writer && known.text == saying.text &&
                         known.code == saying.code && known.ran_ms == saying.ran_ms &&
                         known.local_rank == saying.local_rank;
    if (is_same) return true;
    const bool is_other_wait = known.kind == SayingKind::gave_up && known.rank == saying.rank;
    if (is_other_wait && saying.kind != SayingKind::gave_up) return false;
  }
  return false;
}

void JobLogReader::finish(std::vector<Process>& /*processes*/, std::vector<JobLog>& logs,
                          std::vector<Issue>& /*issues*/) {
  drop_unfinished();
  if (opening_.is_begun()) take_torn_wait(opening_.line());
  // A result on its way up is no failure where nobody takes it for one: NCCL tries what may fail.
  // An error that a program prints and may get over is kept: beside calls that are equal on all
  // ranks, in this file or in another, nobody may say then that nothing is the matter.
  const bool is_heard = std::ranges::any_of(
      log_.sayings, [](const Saying& saying) { return saying.kind != SayingKind::result; });
  if (!is_heard) return;
  settle_ranks(log_.sayings);
  settle_ends_of_waiting(waiting_, log_.sayings);
  settle_deaths(log_.sayings);
  settle_places(log_.sayings, places_);
  settle_groups(log_.sayings, restarts_);
  separate_attempts(marks_, log_);
  settle_ends_of_mpiexec(log_.sayings);
  settle_alike_groups(log_.sayings);
  logs.push_back(std::move(log_));
}

std::unique_ptr<LineParser> job_log_parser(const std::string& path) {
  return std::make_unique<JobLogReader>(path);
}

}  // namespace rollcall::trace
