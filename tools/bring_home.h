// Rings that do not live in their run directory (core/format/ring_copy.h) are brought there once
// their process has ended, and removed where they were.
#pragma once

#include <string>

namespace rollcall::tools {

// Of the rings of this run: those that lie on this machine, belong to the caller, and whose process
// is gone. What cannot be brought stays where it is, and is found there the next time.
void bring_rings_home(const std::string& directory);

}  // namespace rollcall::tools
