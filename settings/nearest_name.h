// The name that was meant by one that nobody knows.
//
// Threads: plain functions.
#pragma once

#include <span>
#include <string_view>

namespace rollcall::settings {

// Of `known`, the name that fewest slips of the pen lead to: characters inserted, deleted or
// replaced (Levenshtein's distance), two at most, for beyond that a likeness is chance. Of equally
// near ones the first; empty where none is near.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace rollcall::settings
