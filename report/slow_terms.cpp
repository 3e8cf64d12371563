#include "report/slow_terms.h"

#include <fmt/format.h>

namespace rollcall::report {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }
std::string span_text(double span_ns) { return fmt::format("{:.2f} ms", span_ns / 1e6); }

}  // namespace rollcall::report
