#include "core/base/setting_files.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <iterator>

#include "core/base/keep_errno.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/base/variables.h"

namespace rollcall {
namespace {

enum class Type : uint8_t { path, size, count, flag, words, text };
enum class Source : uint8_t { anywhere, environment };

struct Variable {
  const char* name;
  Type type;
  Source source;
};
constexpr Variable kVariables[] = {
#define ROLLCALL_X(name, type, source, fallback, meaning) {#name, Type::type, Source::source},
    ROLLCALL_VARIABLES(ROLLCALL_X)
#undef ROLLCALL_X
};
constexpr size_t kVariableCount = std::size(kVariables);
constexpr const char* kSystemFile = "/etc/rollcall.conf";
constexpr size_t kPathBytesMax = 4096;
constexpr size_t kComplaintBytes = 512;

// kVariableCount where there is none of that name.
size_t index_of(std::string_view name) noexcept {
  size_t index = 0;
  while (index < kVariableCount && name != kVariables[index].name) ++index;
  return index;
}

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view without_blanks(std::string_view text) noexcept {
  size_t from = 0;
  while (from < text.size() && is_blank(text[from])) ++from;
  size_t to = text.size();
  while (to > from && is_blank(text[to - 1])) --to;
  return part_of(text, from, to - from);
}

bool has_control_character(std::string_view text) noexcept {
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) return true;
  }
  return false;
}

// An environment's value that may lead to a file of the user's.
const char* own_variable(const char* name) noexcept {
  if (getauxval(AT_SECURE) != 0) return nullptr;
  const char* value = getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// The values of both files, and what is wrong with them.
class SettingFiles {
 public:
  // `listener` may be null: the first complaint about each file is kept.
  void read(SettingComplaint listener) noexcept;

  const char* value_of(size_t variable) const noexcept {
    return origins_[variable] == SettingOrigin::none ? nullptr : values_ + places_[variable];
  }
  SettingOrigin origin_of(size_t variable) const noexcept { return origins_[variable]; }
  const char* path_of(SettingOrigin which) const noexcept {
    return which == SettingOrigin::system_file ? kSystemFile : user_path_;
  }
  bool is_read(SettingOrigin which) const noexcept { return is_read_[number(which)]; }
  void repeat_complaints(SettingComplaint listener) const noexcept;

 private:
  static size_t number(SettingOrigin which) noexcept {
    return which == SettingOrigin::system_file ? 1 : 0;
  }

  bool find_user_file() noexcept;
  void read_file(SettingOrigin which, bool is_named) noexcept;
  bool may_be_read(const char* path, int descriptor) noexcept;
  bool read_text(const char* path, int descriptor) noexcept;
  void read_lines(SettingOrigin which) noexcept;
  void read_line(SettingOrigin which, std::string_view line) noexcept;
  bool keep_value(size_t variable, std::string_view value) noexcept;
  bool write_expanded(TextWriter& out, std::string_view value) noexcept;
  void complain(std::string_view what, std::string_view consequence) noexcept;

  SettingComplaint listener_ = nullptr;
  const char* path_ = nullptr;  // of the file that is read now
  uint32_t line_number_ = 0;    // 0: the file as a whole
  size_t file_ = 0;
  bool is_read_[2] = {};
  uint32_t complaints_[2] = {};
  char first_complaint_[2][kComplaintBytes] = {};
  char user_path_[kPathBytesMax] = {};
  SettingOrigin origins_[kVariableCount] = {};
  uint32_t places_[kVariableCount] = {};
  size_t values_used_ = 0;
  char values_[kSettingValueBytesMax] = {};
  size_t text_bytes_ = 0;
  char text_[kSettingFileBytesMax + 1] = {};
};

// --- the file --------------------------------------------------------------------------------

void SettingFiles::complain(std::string_view what, std::string_view consequence) noexcept {
  TextBuffer<kComplaintBytes> sentence;
  sentence.text(path_);
  if (line_number_ != 0) sentence.text(", line ").number(line_number_);
  sentence.text(": ").text(what).text("; ").text(consequence);
  if (listener_ != nullptr) return listener_(sentence.view());
  if (complaints_[file_]++ == 0) {
    copy_padded(std::span<char>(first_complaint_[file_], kComplaintBytes - 1), sentence.view());
  }
}

void SettingFiles::repeat_complaints(SettingComplaint listener) const noexcept {
  for (size_t file = 0; file < std::size(complaints_); ++file) {
    if (complaints_[file] == 0) continue;
    TextBuffer<kComplaintBytes + 64> sentence;
    sentence.text(first_complaint_[file]);
    if (complaints_[file] > 1) {
      sentence.text(" (").number(complaints_[file] - 1).text(" more: `rollcall config`)");
    }
    listener(sentence.view());
  }
}

// False: there is no place for it. ROLLCALL_CONF_FILE names a file that has to be there.
bool SettingFiles::find_user_file() noexcept {
  TextWriter path{std::span<char>(user_path_)};
  const char* named = own_variable("ROLLCALL_CONF_FILE");
  if (named != nullptr) {
    path.text(named).c_str();
    return true;
  }
  const char* base = own_variable("XDG_CONFIG_HOME");
  const char* home = own_variable("HOME");
  if (base != nullptr && *base == '/') {
    path.text(base);
  } else if (home != nullptr && *home == '/') {
    path.text(home).text("/.config");
  } else {
    return false;
  }
  path.text("/rollcall.conf").c_str();
  if (path.cut_bytes() != 0) user_path_[0] = '\0';
  return path.cut_bytes() == 0;
}

constexpr std::string_view kFileUnused = "the file is not used";
constexpr std::string_view kLineUnused = "the line is not used";

bool SettingFiles::may_be_read(const char* path, int descriptor) noexcept {
  struct statx status {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) != 0) {
    return complain("it cannot be looked at", kFileUnused), false;
  }
  if (!S_ISREG(status.stx_mode)) return complain("this is no file", kFileUnused), false;
  if (status.stx_uid != 0 && status.stx_uid != geteuid()) {
    TextBuffer<128> what;
    what.text("it belongs to user ").number(status.stx_uid);
    what.text(", neither to root nor to user ").number(geteuid());
    return complain(what.view(), kFileUnused), false;
  }
  if ((status.stx_mode & (S_IWGRP | S_IWOTH)) != 0) {
    TextBuffer<kComplaintBytes> cure;
    cure.text("it is not used before `chmod go-w ").text(path).text("`");
    return complain("others than its owner may write to it", cure.view()), false;
  }
  if (status.stx_size > kSettingFileBytesMax) {
    return complain("it is larger than 64 KiB", kFileUnused), false;
  }
  return true;
}

bool SettingFiles::read_text(const char* path, int descriptor) noexcept {
  // Looked at again: another file may lie there by now.
  if (!may_be_read(path, descriptor)) return false;
  text_bytes_ = 0;
  while (text_bytes_ < sizeof(text_)) {
    const ssize_t bytes = ::read(descriptor, text_ + text_bytes_, sizeof(text_) - text_bytes_);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return complain("it cannot be read", kFileUnused), false;
    if (bytes == 0) return true;
    text_bytes_ += static_cast<size_t>(bytes);
  }
  return complain("it is larger than 64 KiB", kFileUnused), false;
}

void SettingFiles::read_file(SettingOrigin which, bool is_named) noexcept {
  path_ = path_of(which);
  file_ = number(which);
  line_number_ = 0;
  // Without opening what lies there: that of a device may do something, that of a pipe wait.
  const int place = open_file(path_, O_PATH);
  if (place < 0) {
    if (is_named) complain("ROLLCALL_CONF_FILE names it, and it cannot be opened", kFileUnused);
    return;
  }
  const bool is_believed = may_be_read(path_, place);
  close(place);
  if (!is_believed) return;
  const int descriptor = open_file(path_, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return complain("it cannot be opened for reading", kFileUnused);
  is_read_[file_] = read_text(path_, descriptor);
  close(descriptor);
  if (is_read_[file_]) read_lines(which);
}

void SettingFiles::read(SettingComplaint listener) noexcept {
  const KeepErrno keep;
  int cancel_before = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before);
  listener_ = listener;
  // The first has the last word.
  if (find_user_file()) {
    read_file(SettingOrigin::user_file, own_variable("ROLLCALL_CONF_FILE") != nullptr);
  }
  read_file(SettingOrigin::system_file, false);
  pthread_setcancelstate(cancel_before, nullptr);
}

// --- its lines -------------------------------------------------------------------------------

void SettingFiles::read_lines(SettingOrigin which) noexcept {
  std::string_view rest(text_, text_bytes_);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    ++line_number_;
    read_line(which, without_blanks(part_of(rest, 0, end)));
    rest = end == std::string_view::npos ? std::string_view{} : part_of(rest, end + 1);
  }
}

void SettingFiles::read_line(SettingOrigin which, std::string_view line) noexcept {
  if (line.empty() || line[0] == '#') return;
  if (has_control_character(line)) {
    return complain("there is a character in it that is no text", kLineUnused);
  }
  const size_t equals = line.find('=');
  const std::string_view name = without_blanks(part_of(line, 0, equals));
  if (equals == std::string_view::npos || part_of(name, 0, 9) != "ROLLCALL_") {
    return complain("this is not ROLLCALL_NAME=VALUE, nor a comment behind #", kLineUnused);
  }
  const size_t variable = index_of(name);
  TextBuffer<128> what;
  what.text(part_of(name, 0, 64));
  if (variable == kVariableCount) {
    // Another release's, perhaps: no reason to bother every job.
    if (listener_ != nullptr) complain(what.text(" is no variable").view(), kLineUnused);
    return;
  }
  if (kVariables[variable].source == Source::environment) {
    return complain(what.text(" is taken from the environment alone").view(), kLineUnused);
  }
  const std::string_view value = without_blanks(part_of(line, equals + 1));
  if (value.empty()) return;
  if (value[0] == '"' || value[0] == '\'') {
    return complain(what.text(": a value is written without quotes").view(), kLineUnused);
  }
  const SettingOrigin before = origins_[variable];
  if (before != SettingOrigin::none && before != which) return;
  if (keep_value(variable, value)) origins_[variable] = which;
}

// False, with a complaint, where it does not fit or a variable in it is not set.
bool SettingFiles::keep_value(size_t variable, std::string_view value) noexcept {
  TextWriter out{std::span<char>(values_ + values_used_, sizeof(values_) - values_used_)};
  if (kVariables[variable].type == Type::path) {
    if (!write_expanded(out, value)) return false;
  } else {
    out.text(value);
  }
  out.c_str();
  if (out.cut_bytes() != 0) {
    return complain("the values in the files are too long together", kLineUnused), false;
  }
  places_[variable] = static_cast<uint32_t>(values_used_);
  values_used_ += out.bytes() + 1;
  return true;
}

// ${NAME} is the environment's value, ${NAME:-TEXT} with a text where it has none.
bool SettingFiles::write_expanded(TextWriter& out, std::string_view value) noexcept {
  while (!value.empty()) {
    const size_t begin = value.find("${");
    out.text(part_of(value, 0, begin));
    if (begin == std::string_view::npos) return true;
    value = part_of(value, begin + 2);
    const size_t end = value.find('}');
    if (end == std::string_view::npos) {
      return complain("a ${ in it is not closed", kLineUnused), false;
    }
    const std::string_view inside = part_of(value, 0, end);
    const size_t otherwise = inside.find(":-");
    TextBuffer<128> name;
    name.text(part_of(inside, 0, otherwise));
    const char* found = name.cut_bytes() == 0 ? own_variable(name.c_str()) : nullptr;
    if (found != nullptr) {
      out.text(found);
    } else if (otherwise != std::string_view::npos) {
      out.text(part_of(inside, otherwise + 2));
    } else {
      TextBuffer<192> what;
      what.text("the environment has no ").text(name.view());
      return complain(what.view(), kLineUnused), false;
    }
    value = part_of(value, end + 1);
  }
  return true;
}

// --- the process's ---------------------------------------------------------------------------

constinit SettingFiles the_files{};
constinit pthread_once_t is_read = PTHREAD_ONCE_INIT;

const SettingFiles& files() noexcept {
  pthread_once(&is_read, [] { the_files.read(nullptr); });
  return the_files;
}

const char* in_environment(const char* name) noexcept {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

const char* setting(const char* name) noexcept {
  const char* value = in_environment(name);
  if (value != nullptr) return value;
  const size_t variable = index_of(name);
  return variable == kVariableCount ? nullptr : files().value_of(variable);
}

SettingOrigin origin_of_setting(const char* name) noexcept {
  if (in_environment(name) != nullptr) return SettingOrigin::environment;
  const size_t variable = index_of(name);
  return variable == kVariableCount ? SettingOrigin::none : files().origin_of(variable);
}

const char* setting_file(SettingOrigin which) noexcept { return files().path_of(which); }

bool is_setting_file_read(SettingOrigin which) noexcept { return files().is_read(which); }

void complain_about_setting_files(SettingComplaint complain) noexcept {
  files().repeat_complaints(complain);
}

void list_setting_complaints(SettingComplaint complain) noexcept {
  static constinit SettingFiles again{};
  again.read(complain);
}

}  // namespace rollcall
