// A circle in which ranks create a communicator, and others wait for them elsewhere instead.
#pragma once

#include "analysis/rules/circle.h"

namespace rollcall::analysis {

// Of a circle that has a creation in it. Who is right is for the greater number to say: where as
// many create the communicator as do not, all of them are named.
Draft draft_circle_of_creation(const Facts& facts, const Circle& circle);

}  // namespace rollcall::analysis
