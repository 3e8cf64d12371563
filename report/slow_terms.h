// Shares and spans as the answers to "why is it slow" write them.
#pragma once

#include <string>

namespace rollcall::report {

// "12.5 %"
std::string percent(double share);
// "+12.5 %"
std::string signed_percent(double share);
// "3.25 ms"
std::string span_text(double span_ns);

}  // namespace rollcall::report
