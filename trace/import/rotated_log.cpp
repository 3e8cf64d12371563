#include "trace/import/rotated_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "trace/import/digit.h"
#include "trace/import/line_prefix.h"
#include "trace/regular_file.h"

namespace rollcall::trace {
namespace {

// What the name of an older part says.
struct Part {
  std::string path;
  std::string base;  // the name of the newest
  int number = 0;    // rises with age; 0: a date
  std::string date;  // as printed, which sorts by age
};

constexpr std::string_view kReadPackings[] = {".gz", ".zst", ".xz"};
constexpr std::string_view kOtherPackings[] = {".bz2", ".lz4"};

// The name without the last of these endings that it has.
std::string_view without(std::string_view name, std::span<const std::string_view> endings) {
  for (const std::string_view ending : endings) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

std::string_view without_packing(std::string_view name) {
  return without(without(name, kReadPackings), kOtherPackings);
}

// Packed by what is not read here.
bool is_packed_otherwise(std::string_view name) {
  return without(name, kOtherPackings).size() != name.size();
}

// Takes a number of so many digits off the text; -1: there is none.
int take_number(std::string_view& text, size_t digits) {
  if (text.size() < digits) return -1;
  int number = 0;
  for (const char c : text.substr(0, digits)) {
    if (!is_digit(c)) return -1;
    number = 10 * number + (c - '0');
  }
  text.remove_prefix(digits);
  return number;
}

void take_separator(std::string_view& text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '_' || text[0] == '.')) text.remove_prefix(1);
}

// "20260801", "2026-08-01_12", "20260801-120000"; no address of a host, such as "20.113.10.34".
bool is_date(std::string_view text) {
  const int year = take_number(text, 4);
  take_separator(text);
  const int month = take_number(text, 2);
  take_separator(text);
  const int day = take_number(text, 2);
  return year >= 2000 && year < 2100 && month >= 1 && month <= 12 && day >= 1 && day <= 31 &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_digit(c) || c == '-' || c == '_' || c == 'T' || c == ':' || c == '.';
         });
}

// `plain`: the names without what packed them.
std::optional<Part> part_of(const std::string& path, const std::set<std::string>& names,
                            const std::set<std::string, std::less<>>& plain) {
  const std::string name(without_packing(path));
  const size_t folder = name.rfind('/') + 1;
  const size_t last_dot = name.rfind('.');
  for (size_t at = name.find_first_of(".-", folder + 1); at < name.size();
       at = name.find_first_of(".-", at + 1)) {
    Part part{path, name.substr(0, at), 0, name.substr(at + 1)};
    if (names.count(part.base) == 0) continue;
    if (is_date(part.date)) return part;
    const bool is_number = at == last_dot && !part.date.empty() && part.date.size() <= 2 &&
                           std::all_of(part.date.begin(), part.date.end(), is_digit);
    // A file that counts from 0 is one of several ranks.
    if (!is_number || plain.count(part.base + ".0") != 0) continue;
    part.number = std::stoi(part.date);
    return part;
  }
  return std::nullopt;
}

// All numbers, or all dates: else their order is a guess.
bool have_order(const std::vector<Part>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return (part.number == 0) == (parts.front().number == 0);
  });
}

std::unique_ptr<ByteStream> open_text(const std::string& path, const OnBytes& on_bytes = {}) {
  const int descriptor = open_regular(path);
  if (descriptor < 0) return nullptr;
  return as_utf8(unpacked(std::make_unique<DescriptorStream>(descriptor, true, on_bytes)));
}

// Whether `newer` begins with all of `older`, which is not empty.
bool begins_with(const std::string& newer, const std::string& older) {
  constexpr size_t kPiece = 1 << 16;
  const std::unique_ptr<ByteStream> its = open_text(older);
  const std::unique_ptr<ByteStream> theirs = open_text(newer);
  if (its == nullptr || theirs == nullptr) return false;
  std::vector<char> mine(kPiece);
  std::vector<char> other(kPiece);
  for (bool is_empty = true;; is_empty = false) {
    const size_t got = its->read(mine.data(), kPiece);
    if (got == 0) return !is_empty && its->complaint().empty();
    if (theirs->read(other.data(), got) != got) return false;
    if (std::memcmp(mine.data(), other.data(), got) != 0) return false;
  }
}

// The times in a text's head.
struct HeadTimes {
  int64_t first_ns = 0;  // 0: its lines have none
  int64_t last_ns = 0;
};

HeadTimes times_of(const std::string& path) {
  // A stamp without a date stands in 1970, and may be of any day.
  constexpr int64_t kDatedNs = int64_t{366} * 24 * 3600 * 1'000'000'000;
  HeadTimes times;
  std::unique_ptr<ByteStream> text = open_text(path);
  if (text == nullptr) return times;
  PeekStream stream(std::move(text));
  const std::span<const uint8_t> bytes = stream.peek(kHeadBytes);
  std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  PrefixTaker taker;
  // The last line may be cut within its time.
  for (size_t end = head.find('\n'); end != std::string_view::npos; end = head.find('\n')) {
    LinePrefix prefix;
    taker.take(head.substr(0, end), prefix);
    head.remove_prefix(end + 1);
    if (prefix.time_ns < kDatedNs) continue;
    if (times.first_ns == 0) times.first_ns = prefix.time_ns;
    times.last_ns = std::max(times.last_ns, prefix.time_ns);
  }
  return times;
}

// Texts one behind the other, each beginning on a line of its own.
class ChainStream final : public ByteStream {
 public:
  ChainStream(std::vector<std::string> paths, OnBytes on_bytes)
      : paths_(std::move(paths)), on_bytes_(std::move(on_bytes)) {}

  size_t read(void* to, size_t bytes) override {
    auto* const out = static_cast<char*>(to);
    size_t done = 0;
    while (done < bytes && (now_ != nullptr || open_next())) {
      const size_t got = now_->read(out + done, bytes - done);
      done += got;
      if (got != 0) is_in_line_ = out[done - 1] != '\n';
      if (done == bytes) break;
      take_complaint();
      if (is_in_line_ && next_ < paths_.size()) {
        out[done++] = '\n';
        is_in_line_ = false;
      }
    }
    return done;
  }
  std::string complaint() const override {
    return now_ != nullptr && complaint_.empty() ? now_->complaint() : complaint_;
  }
  bool is_refused() const override { return is_refused_; }

 private:
  bool open_next() {
    if (next_ == paths_.size() || is_refused_) return false;
    now_ = open_text(paths_[next_++], on_bytes_);
    if (now_ != nullptr) return true;
    complaint_ =
        fmt::format("was read without its part {}, which cannot be opened", paths_[next_ - 1]);
    return open_next();
  }

  void take_complaint() {
    if (complaint_.empty() && !now_->complaint().empty()) {
      complaint_ = fmt::format("has a part {} that {}", paths_[next_ - 1], now_->complaint());
    }
    is_refused_ = is_refused_ || now_->is_refused();
    now_.reset();
  }

  std::vector<std::string> paths_;
  OnBytes on_bytes_;
  size_t next_ = 0;
  std::unique_ptr<ByteStream> now_;
  bool is_in_line_ = false;
  std::string complaint_;
  bool is_refused_ = false;
};

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::vector<std::string>> gather_rotated(const std::vector<std::string>& paths) {
  const std::set<std::string> names(paths.begin(), paths.end());
  std::set<std::string, std::less<>> plain;
  for (const std::string& path : paths) plain.emplace(without_packing(path));
  std::map<std::string, std::vector<Part>> by_base;
  std::set<std::string> all;
  for (const std::string& path : paths) {
    const std::optional<Part> part = part_of(path, names, plain);
    if (!part) continue;
    by_base[part->base].push_back(*part);
    all.insert(path);
  }
  std::set<std::string> older;
  for (auto& [base, parts] : by_base) {
    // What is named after a part is none of the log's.
    if (!have_order(parts) || all.count(base) != 0) parts.clear();
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return a.number != b.number ? a.number > b.number : a.date < b.date;
    });
    for (const Part& part : parts) older.insert(part.path);
  }
  std::vector<std::vector<std::string>> logs;
  for (const std::string& path : paths) {
    if (older.count(path) != 0) continue;
    std::vector<std::string> log;
    if (const auto parts = by_base.find(path); parts != by_base.end()) {
      for (const Part& part : parts->second) log.push_back(part.path);
    }
    log.push_back(path);
    logs.push_back(std::move(log));
  }
  return logs;
}

bool are_texts(const std::vector<std::string>& parts) {
  return std::all_of(parts.begin(), parts.end(), [](const std::string& path) {
    if (is_packed_otherwise(path)) return true;
    std::unique_ptr<ByteStream> text = open_text(path);
    if (text == nullptr) return false;
    const ForeignFormat format = kind_of(PeekStream(std::move(text)).peek(kHeadBytes)).format;
    return format == ForeignFormat::text || format == ForeignFormat::empty;
  });
}

bool follow_in_time(const std::vector<std::string>& parts) {
  // Ranks that write one text stamp their lines in nearly one order.
  constexpr int64_t kDisorderNs = 100'000'000;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const HeadTimes older = times_of(parts[i]);
    const HeadTimes newer = times_of(parts[i + 1]);
    if (older.first_ns == 0 || newer.first_ns == 0) continue;
    if (older.first_ns > newer.first_ns + kDisorderNs) return false;
    const bool overlap = older.last_ns > newer.first_ns + kDisorderNs;
    if (overlap && !begins_with(parts[i + 1], parts[i])) return false;
  }
  return true;
}

namespace {

// The parts that are read, the oldest first.
std::vector<std::string> readable(const std::vector<std::string>& parts,
                                  std::vector<Issue>& issues) {
  std::vector<std::string> read;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (is_packed_otherwise(part)) {
      // Behind a gap nothing would say which calls are missing.
      for (const std::string& one : read) {
        issues.push_back({one,
                          fmt::format("was not read: {}, which follows it, is not unpacked here",
                                      file_name(part)),
                          0, false});
      }
      read.clear();
      issues.push_back({part,
                        "was not read: of rotated logs parts are unpacked that gzip, zstd or xz "
                        "packed; unpack it, and the log is read from there on",
                        0, false});
    } else if (begins_with(parts[i + 1], part)) {
      issues.push_back(
          {part, fmt::format("was not read: {} begins with all of it", file_name(parts[i + 1])), 0,
           false});
    } else {
      read.push_back(part);
    }
  }
  read.push_back(parts.back());
  return read;
}

}  // namespace

ImportedFile import_rotated(const std::vector<std::string>& parts, std::vector<Process>& processes,
                            std::vector<Issue>& issues, const OnBytes& on_bytes,
                            std::vector<JobLog>* logs, LoggedAs calls) {
  const size_t before = processes.size();
  // As import_file() has it: whoever still writes, writes the newest.
  const int64_t written_ns = time_written_ns(parts.back());
  const std::vector<std::string> read = readable(parts, issues);
  const ImportedFile imported = import_stream(
      parts.back(), std::make_unique<ChainStream>(read, on_bytes), processes, issues, logs, calls);
  for (size_t i = before; i < processes.size(); ++i) processes[i].written_ns = written_ns;
  if (read.size() > 1 && imported.is_known) {
    std::string names;
    for (size_t i = 0; i + 1 < read.size(); ++i) {
      names += names.empty() ? file_name(read[i]) : ", " + file_name(read[i]);
    }
    issues.push_back({parts.back(),
                      fmt::format("was read as one log with its older {}, in this order: {}; lines "
                                  "are counted from the first line of the first",
                                  read.size() == 2 ? "part" : "parts", names),
                      0, false});
  }
  return imported;
}

}  // namespace rollcall::trace
