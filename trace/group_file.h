// What the job calls its groups: a <stem>.groups file beside the ring, which the Python module
// rollcall_nccl.torch writes (docs/FORMAT.md has its grammar). NCCL, and so the ring, has only the
// name by which PyTorch itself tells groups apart, a number or a digest.
//
// Threads: plain functions. The text may be anybody's: it is bounded, and nothing in it is trusted.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/model.h"

namespace rollcall::trace {

inline constexpr std::string_view kGroupFileEnding = ".groups";
inline constexpr std::string_view kGroupFileHead = "rollcall_groups 1";

// A group's name in the ring -> its description. Empty: not a text of groups.
std::map<std::string, std::string> parse_groups(std::string_view text_untrusted);
// Names the communicators of `ring` by the file beside it, where there is one: "mesh_tp:5" for "5",
// "mesh_tp:aaa4f203" for a digest. No link is followed.
void describe_groups(const std::string& ring, std::vector<Comm>& comms);

}  // namespace rollcall::trace
