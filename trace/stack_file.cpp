#include "trace/stack_file.h"

#include <fcntl.h>

#include <algorithm>
#include <map>

#include "core/base/text.h"
#include "core/format/stack_request.h"
#include "trace/bytes.h"
#include "trace/regular_file.h"

namespace rollcall::trace {
namespace {

constexpr size_t kThreadsMax = 65536;
constexpr uint64_t kBytesMax = 2 * kStackFileBytesMax;

std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      plain += text[at];
      continue;
    }
    const char next = text[++at];
    plain += next == 'n' ? '\n' : next == '0' ? '\0' : next;
  }
  return plain;
}

class Parser {
 public:
  // False: what stands in the first line is no text of stacks.
  bool take(std::string_view key, std::string_view value) {
    if (!has_begun_) {
      has_begun_ = true;
      return key == "rollcall_stacks" && value == "1";
    }
    if (key == "thread" || key == "python_thread") {
      begin_thread(value);
    } else if (key == "frame") {
      if (thread_ != nullptr && thread_->frames.size() < kStackFramesMax) {
        thread_->frames.push_back(unescaped(value));
      }
    } else if (thread_ == nullptr || !take_of_thread(key, value)) {
      take_of_process(key, value);
    }
    return true;
  }

  StackFile finish() {
    file_.is_whole = has_end_ && !is_cut_;
    for (auto& [number, thread] : threads_) file_.threads.push_back(std::move(thread));
    return std::move(file_);
  }

 private:
  void begin_thread(std::string_view value) {
    uint64_t number = 0;
    thread_ = nullptr;
    if (!parse_decimal(value, number)) return;
    if (threads_.size() >= kThreadsMax && threads_.count(number) == 0) return;
    thread_ = &threads_[number];
    thread_->number = number;
  }

  bool take_of_thread(std::string_view key, std::string_view value) {
    if (key == "name") return set(thread_->name, value);
    if (key == "state") return set(thread_->state, value);
    if (key == "wait_channel") return set(thread_->wait_channel, value);
    if (key == "system_call") return set(thread_->system_call, value);
    if (key == "holds_gil") return thread_->holds_gil = true;
    if (key == "moving") return thread_->is_moving = true;
    if (key == "outer_frames_cut") return thread_->is_cut = true;
    return false;
  }

  void take_of_process(std::string_view key, std::string_view value) {
    uint64_t number = 0;
    const bool is_number = parse_decimal(value, number);
    if (key == "pid" && is_number) file_.pid = number;
    if (key == "realtime_ns" && is_number) file_.realtime_ns = static_cast<int64_t>(number);
    if (key == "source") file_.is_from_outside = value != "recorder";
    if (key == "python") set(file_.python, value);
    if (key == "python_unread") set(file_.python_unread, value);
    if (key == "cut") is_cut_ = true;
    if (key == "end") has_end_ = true;
  }

  static bool set(std::string& field, std::string_view value) {
    field = unescaped(value);
    return true;
  }

  bool has_begun_ = false;
  bool has_end_ = false;
  bool is_cut_ = false;
  StackFile file_;
  std::map<uint64_t, StackThread> threads_;
  StackThread* thread_ = nullptr;
};

}  // namespace

std::optional<StackFile> parse_stacks(std::string_view text_untrusted) {
  Parser parser;
  std::string_view rest = text_untrusted;
  if (rest.empty()) return std::nullopt;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view value = line.substr(std::min(space + 1, line.size()));
    if (!parser.take(line.substr(0, space), value)) return std::nullopt;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return parser.finish();
}

std::optional<StackFile> read_stack_file(const std::string& path) {
  const FileSource file(OpenedFile{open_regular(AT_FDCWD, path, O_RDONLY, Links::refused)});
  if (file.error() != 0) return std::nullopt;
  std::string text(std::min(file.size(), kBytesMax), '\0');
  text.resize(file.read(0, text.data(), text.size()));
  return parse_stacks(text);
}

}  // namespace rollcall::trace
