// What is known of texts that NCCL, launchers, the kernel and the driver print: what they mean, and
// what to do next. One table, from which docs/MESSAGES.md derives; a text that is not in it is
// quoted as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/testimony.h"

namespace rollcall::analysis {

// What a text is in the course of events.
enum class Role : uint8_t {
  cause,        // it may be what the others wait for
  consequence,  // of something else that went wrong before
  context       // a healthy job may print it, too
};

// Of whom a meaning tells.
enum class Subject : uint8_t {
  told,     // it is a whole sentence, and says so itself
  speaker,  // whoever said the text: the meaning is what that one did, without a subject
  waiter    // the same, and what it did was to wait
};

struct Message {
  trace::SayingKind kind;
  std::string_view words;  // that the text holds; empty: any text of this code
  int64_t code;            // exit status, result, Xid; trace::kUntold: any
  Role role;
  std::string_view since;
  std::string_view meaning;
  std::string_view next;
  Subject subject = Subject::told;
};

// Null where nothing is known of it.
const Message* message_of(const trace::Saying& saying);

// Whether something is known of it, and that it is this.
bool has_role(const trace::Saying& saying, Role role);

// "it waited for others until its time was over".
std::string meaning_text(const Message& message);

}  // namespace rollcall::analysis
