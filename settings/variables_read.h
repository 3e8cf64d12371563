// Does NCCL read this environment variable? NCCL says nothing of a name it does not know, so a
// mistyped setting, or one of another release, is without effect and unnoticed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rollcall::settings {

// What speaks against a variable that is set.
struct Unread {
  std::string
      why;  // "NCCL 2.28.9 does not read it: NCCL 2.30.3 is the first that does"; empty: it is read
  std::string next;         // a name that is meant, perhaps; empty: none is near
  bool is_certain = false;  // the release was read by the table; a plugin may still read it
};

// `version` is NCCL's version code, 0 where it is not known. A name is let pass that something
// else reads (PyTorch, plugins, build systems, containers), and, of a release that is newer than
// the table, one that nothing in the table resembles.
Unread judge_variable(std::string_view name, uint32_t version);

// Settings that every rank of a communicator needs to have alike.
bool must_agree(std::string_view name);

}  // namespace rollcall::settings
