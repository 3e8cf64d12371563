// Communicators that grew: their old and their new members cannot compute the same key.
//
// An old member knows the parent and not always the unique id; a new one knows the unique id and no
// parent. The member that handed out the id knows both, and its record joins the two: the new
// members' communicators, and what they derived from them, take the old members' keys.
#pragma once

#include "trace/model.h"

namespace rollcall::trace {

void unify_grown(Run& run);

}  // namespace rollcall::trace
