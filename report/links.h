// The table of links (statistics/link_table.h), for people.
#pragma once

#include <string>
#include <vector>

#include "statistics/link_table.h"

namespace rollcall::report {

// Senders, then receivers: those that are furthest behind their communicator's median link first,
// and how many are left out. Empty where there is no link.
std::string links_text(const std::vector<statistics::LinkRow>& rows);

}  // namespace rollcall::report
