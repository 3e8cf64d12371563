#include "core/base/secrets.h"

namespace rollcall {
namespace {

constexpr std::string_view kWords[] = {"key", "bearer", "authorization"};
// Of words that are written together, too: "hftoken", "wandbapikey".
constexpr std::string_view kEndings[] = {"token", "apikey", "accesskey"};
// Nothing else has these in its name, wherever they stand in it.
constexpr std::string_view kAnywhere[] = {"password", "passwd", "passphrase", "secret",
                                          "credential"};
constexpr std::string_view kLeftOut = "…";
constexpr std::string_view kAuthority = "://";

bool is_lower(char c) noexcept { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) noexcept { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_letter(char c) noexcept { return is_lower(c) || is_upper(c); }
char lower(char c) noexcept { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_quote(char c) noexcept { return c == '"' || c == '\''; }
bool is_of_name(char c) noexcept {
  return is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.';
}
bool ends_host(char c) noexcept {
  return c == 0 || c == '/' || c == '?' || c == '#' || c == '\\' || is_space(c) || is_quote(c);
}
// What ends a value that stands within an argument, in no quotes.
bool ends_value(char c) noexcept {
  return is_space(c) || is_quote(c) || c == '&' || c == ';' || c == ',' || c == '}' || c == ')' ||
         c == ']' || c == '|' || c == '>' || c == '<';
}

bool equals_ignoring_case(std::string_view text, std::string_view word) noexcept {
  if (text.size() != word.size()) return false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (lower(text[at]) != word[at]) return false;
  }
  return true;
}

bool ends_ignoring_case(std::string_view text, std::string_view word) noexcept {
  return text.size() >= word.size() &&
         equals_ignoring_case(part_of(text, text.size() - word.size()), word);
}

bool contains_ignoring_case(std::string_view text, std::string_view word) noexcept {
  for (size_t at = 0; at + word.size() <= text.size(); ++at) {
    if (equals_ignoring_case(part_of(text, at, word.size()), word)) return true;
  }
  return false;
}

// One pass from the front to the back.
class Filter {
 public:
  Filter(TextWriter& out, std::string_view text) noexcept : out_(out), text_(text) {}

  void run() noexcept {
    while (at_ < text_.size()) {
      if (is_of_name(text_[at_])) {
        take_name();
      } else if (part_of(text_, at_, kAuthority.size()) == kAuthority) {
        take_authority();
      } else {
        take_one();
      }
    }
  }

 private:
  char peek(size_t at) const noexcept { return at < text_.size() ? text_[at] : '\0'; }

  void take_one() noexcept {
    const char c = text_[at_++];
    // The last argument has a NUL behind it that separates nothing.
    if (c != 0) {
      out_.character(c);
    } else if (at_ < text_.size()) {
      out_.character(' ');
    }
  }

  void take_until(size_t end) noexcept {
    while (at_ < end) take_one();
  }

  void leave_out(size_t end) noexcept {
    if (end == at_) return;
    out_.text(kLeftOut);
    at_ = end;
  }

  size_t end_of_argument(size_t at) const noexcept {
    const size_t end = at < text_.size() ? text_.find('\0', at) : std::string_view::npos;
    return end == std::string_view::npos ? text_.size() : end;
  }

  // The value that begins at `at`. `is_whole`: it is the rest of the argument, spaces included.
  size_t end_of_value(size_t at, bool is_whole) const noexcept {
    if (is_whole) return end_of_argument(at);
    while (at < text_.size() && text_[at] != 0 && !ends_value(text_[at])) ++at;
    return at;
  }

  void take_name() noexcept {
    const size_t start = at_;
    size_t end = at_;
    while (end < text_.size() && is_of_name(text_[end])) ++end;
    const std::string_view name(text_.data() + start, end - start);
    size_t front = start;
    while (front > 0 && text_[front - 1] == '+') --front;  // "+trainer.api_key=", as Hydra has it
    const bool begins_argument = front == 0 || text_[front - 1] == 0;
    out_.text(name);
    at_ = end;
    if (!is_name_of_secret(name)) return;
    take_value(name.front() == '-', begins_argument);
  }

  // Behind the name of a secret: what is its value, if anything is.
  void take_value(bool is_option, bool begins_argument) noexcept {
    size_t at = at_;
    if (is_quote(peek(at))) ++at;  // "name": "value"
    const size_t behind_name = at;
    while (is_space(peek(at))) ++at;
    const char mark = peek(at);
    if (mark == '=' || mark == ':') {
      // "name = value" in an argument of a script, too, and a URL is none.
      if (part_of(text_, at, kAuthority.size()) == kAuthority) return;
      ++at;
      const bool is_whole = mark == '=' && begins_argument && at == at_ + 1;
      return take_assigned(at, is_whole);
    }
    // The next argument, or the next word of this one; an option is not a value.
    if (!is_option && !is_scheme(behind_name)) return;
    if (at == behind_name && (peek(at) != 0 || at >= text_.size())) return;
    const bool is_next_argument = at == behind_name;
    if (is_next_argument) ++at;
    if (peek(at) == '-' || at >= text_.size()) return;
    take_until(at);
    take_quoted_or(is_next_argument);
  }

  void take_assigned(size_t at, bool is_whole) noexcept {
    // Spaces in front of the value, but not into the next argument.
    while (!is_whole && is_space(peek(at))) ++at;
    take_until(at);
    // "Authorization: Bearer value"
    if (!is_whole) skip_scheme();
    take_quoted_or(is_whole);
  }

  void take_quoted_or(bool is_whole) noexcept {
    const char quote = peek(at_);
    if (is_whole || !is_quote(quote)) return leave_out(end_of_value(at_, is_whole));
    take_one();
    size_t end = at_;
    while (end < text_.size() && text_[end] != 0 && text_[end] != quote) {
      end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != 0 ? 2 : 1;
    }
    leave_out(end);
  }

  // Whether the name that was just taken is "Bearer", which has its value behind a space.
  bool is_scheme(size_t end) const noexcept {
    constexpr std::string_view kBearer = "bearer";
    return end >= kBearer.size() &&
           equals_ignoring_case(part_of(text_, end - kBearer.size(), kBearer.size()), kBearer);
  }

  // "Basic", "Bearer", "Token" in front of what they name.
  void skip_scheme() noexcept {
    for (const std::string_view scheme :
         {std::string_view("basic"), std::string_view("bearer"), std::string_view("token")}) {
      if (!equals_ignoring_case(part_of(text_, at_, scheme.size()), scheme)) continue;
      size_t at = at_ + scheme.size();
      if (!is_space(peek(at))) continue;
      while (is_space(peek(at))) ++at;
      return take_until(at);
    }
  }

  // Behind "://": what is in front of the last @ of this part of the URL.
  void take_authority() noexcept {
    take_until(at_ + kAuthority.size());
    size_t end = at_;
    size_t behind_user = at_;
    for (; end < text_.size() && !ends_host(text_[end]); ++end) {
      if (text_[end] == '@') behind_user = end;
    }
    leave_out(behind_user);
  }

  TextWriter& out_;
  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

bool is_name_of_secret(std::string_view name) noexcept {
  size_t end = name.size();
  while (end > 0 && !is_letter(name[end - 1])) --end;
  size_t start = end;
  while (start > 0 && is_letter(name[start - 1])) {
    --start;
    // A capital behind a small letter begins a word; of "APIKey" the K does.
    if (!is_upper(name[start])) continue;
    const bool is_behind_small = start > 0 && is_lower(name[start - 1]);
    const bool is_before_small = start + 1 < end && is_lower(name[start + 1]);
    if (is_behind_small || (is_before_small && start > 0)) break;
  }
  const std::string_view word = part_of(name, start, end - start);
  for (const std::string_view known : kWords) {
    if (equals_ignoring_case(word, known)) return true;
  }
  for (const std::string_view ending : kEndings) {
    if (ends_ignoring_case(word, ending)) return true;
  }
  for (const std::string_view part : kAnywhere) {
    if (contains_ignoring_case(name, part)) return true;
  }
  return false;
}

void write_without_secrets(TextWriter& out, std::string_view command_line) noexcept {
  Filter(out, command_line).run();
}

}  // namespace rollcall
