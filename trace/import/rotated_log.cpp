#include "trace/import/rotated_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

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

std::string_view without_packing(std::string_view name) {
  for (const std::string_view ending : {".gz", ".zst", ".xz"}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "20260801", "2026-08-01_12", "20260801-120000".
bool is_date(std::string_view text) {
  constexpr int kDigitsMin = 8;
  const bool are_known = std::all_of(text.begin(), text.end(), [](char c) {
    return is_digit(c) || c == '-' || c == '_' || c == 'T' || c == ':' || c == '.';
  });
  return text.starts_with("20") && are_known &&
         std::count_if(text.begin(), text.end(), is_digit) >= kDigitsMin;
}

std::optional<Part> part_of(const std::string& path, const std::set<std::string>& names) {
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
    if (!is_number || names.count(part.base + ".0") != 0) continue;
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

// Whether `newer` begins with all of `older`.
bool begins_with(const std::string& newer, const std::string& older) {
  constexpr size_t kPiece = 1 << 16;
  const std::unique_ptr<ByteStream> its = open_text(older);
  const std::unique_ptr<ByteStream> theirs = open_text(newer);
  if (its == nullptr || theirs == nullptr) return false;
  std::vector<char> mine(kPiece);
  std::vector<char> other(kPiece);
  while (true) {
    const size_t got = its->read(mine.data(), kPiece);
    if (got == 0) return its->complaint().empty();
    if (theirs->read(other.data(), got) != got) return false;
    if (std::memcmp(mine.data(), other.data(), got) != 0) return false;
  }
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
  std::map<std::string, std::vector<Part>> by_base;
  for (const std::string& path : paths) {
    if (std::optional<Part> part = part_of(path, names)) by_base[part->base].push_back(*part);
  }
  std::set<std::string> older;
  for (auto& [base, parts] : by_base) {
    if (!have_order(parts)) parts.clear();
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
    std::unique_ptr<ByteStream> text = open_text(path);
    if (text == nullptr) return false;
    const ForeignFormat format = kind_of(PeekStream(std::move(text)).peek(kHeadBytes)).format;
    return format == ForeignFormat::text || format == ForeignFormat::empty;
  });
}

ImportedFile import_rotated(const std::vector<std::string>& parts, std::vector<Process>& processes,
                            std::vector<Issue>& issues, const OnBytes& on_bytes,
                            std::vector<JobLog>* logs) {
  std::vector<std::string> read;
  std::string names;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (begins_with(parts[i + 1], parts[i])) {
      issues.push_back(
          {parts[i], fmt::format("was not read: {} begins with all of it", file_name(parts[i + 1])),
           0, false});
      continue;
    }
    read.push_back(parts[i]);
    names += names.empty() ? file_name(parts[i]) : ", " + file_name(parts[i]);
  }
  read.push_back(parts.back());
  const ImportedFile imported = import_stream(
      parts.back(), std::make_unique<ChainStream>(read, on_bytes), processes, issues, logs);
  if (read.size() > 1 && imported.is_known) {
    issues.push_back({parts.back(),
                      fmt::format("was read as one log with its older {}, in this order: {}; lines "
                                  "are counted from the first line of the first",
                                  read.size() == 2 ? "part" : "parts", names),
                      0, false});
  }
  return imported;
}

}  // namespace rollcall::trace
