#include "tools/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "report/terms.h"
#include "tools/command.h"

namespace rollcall::tools {
namespace {

bool terminal_shows_more_than_text(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) != 0 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

int output_error = 0;

std::string safe_sentence(std::string_view sentence) {
  constexpr std::string_view kIndented = "\n  ";
  std::string safe;
  while (true) {
    const size_t end = sentence.find(kIndented);
    safe += report::printable(sentence.substr(0, end));
    if (end == std::string_view::npos) return safe;
    safe += kIndented;
    sentence.remove_prefix(end + kIndented.size());
  }
}

}  // namespace

bool colour_on_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != 0) return false;
  return terminal_shows_more_than_text(STDOUT_FILENO);
}

bool progress_on_stderr() { return terminal_shows_more_than_text(STDERR_FILENO); }

void print_err(std::string_view text) noexcept {
  // Not fmt::print(), which throws when the write fails.
  [[maybe_unused]] const size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void say(const std::string& sentence, const std::string& lines) noexcept {
  try {
    print_err("rollcall: " + safe_sentence(sentence) + "\n" + lines);
  } catch (const std::bad_alloc&) {
    print_err("rollcall: there is not enough memory to say what is wrong.\n");
  }
}

bool print_out(const std::string& text) {
  if (output_error != 0) return false;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return true;
  output_error = errno;
  return false;
}

int finish_output(int status) {
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  if (output_error == 0 || output_error == EPIPE) return status;
  return unusable(fmt::format("the output could not be written: {}; free space or write elsewhere.",
                              std::strerror(output_error)));
}

}  // namespace rollcall::tools
