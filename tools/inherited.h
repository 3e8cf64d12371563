// What this process was started with and must change for itself, or not get in the way of.
//
// Threads: the main thread alone, before there are others.
#pragma once

namespace rollcall::tools {

// Puts /dev/null where stdin, stdout or stderr is closed, so that no pipe or file of ours gets such
// a number: it would be taken for the standard one, by us and by what we start. Opened the wrong
// way round, so that reading and writing fail as they would on a closed descriptor. The job gets
// /dev/null there too; if it did not, the recorder's files would land on these numbers in it.
void fill_closed_descriptors();

// Keeps the signal mask, and what becomes of the signals for which the command has dispositions of
// its own, before it sets these.
void note_inherited_signals();
// In a child, before exec: the program gets what it would have got without us. A parent that
// ignores SIGPIPE or SIGCHLD means its programs to ignore them, too.
void restore_inherited_signals();

}  // namespace rollcall::tools
