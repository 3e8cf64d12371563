// What may be written to a terminal, and when.
#pragma once

#include <string>
#include <string_view>

namespace rollcall::tools {

// Colours are for a person in front of a terminal that can show them: never into a pipe or file,
// never with NO_COLOR set (no-color.org) or TERM=dumb.
bool colour_on_stdout();
// Progress lines are redrawn, so they need a terminal too.
bool progress_on_stderr();

// "rollcall: <sentence>" and a newline on stderr, then `lines` as they are. The sentence may quote
// names and arguments of anybody's: control characters become '?', and of newlines only those stay
// that begin an indented line, so that nothing can pass for another message. Whatever happens to
// stderr (a full disk, a closed pipe), nothing else changes: it throws nothing, and no exit status
// depends on it.
void say(const std::string& sentence, const std::string& lines = {}) noexcept;
// `text` as it is, just as carefully.
void print_err(std::string_view text) noexcept;

// Writes all of `text` to stdout; false when nobody reads it any more.
bool print_out(const std::string& text);
// The last word of a subcommand: flushes stdout; `status`, or kExitUnusable with a sentence when
// the output could not be written (disk full). A closed pipe is nobody's error.
int finish_output(int status);

}  // namespace rollcall::tools
