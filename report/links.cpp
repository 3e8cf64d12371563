#include "report/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/terms.h"

namespace rollcall::report {
namespace {

using statistics::LinkRow;

constexpr size_t kLinkRowsMax = 12;  // of each side
constexpr double kTellingShare = 0.01;
constexpr std::string_view kTitles[] = {"sends over the network, of",
                                        "receives over the network, of"};

constexpr std::string_view kMeanings[] = {
#define ROLLCALL_X(name, side, meaning) meaning,
    ROLLCALL_CHANNEL_WAITS(ROLLCALL_X)
#undef ROLLCALL_X
};

std::string comm_text(const LinkRow& row) {
  if (!row.comm_name.empty()) return printable(row.comm_name);
  return row.comm.is_null() ? "unknown" : key_hex(row.comm);
}

std::string rank_text(const LinkRow& row, int32_t rank) {
  if (rank < 0) return "?";
  return row.nranks > 0 && rank >= row.nranks ? "network" : std::to_string(rank);
}

// As the data flow, whoever tells of it.
std::string link_text(const LinkRow& row) {
  const std::string here = rank_text(row, row.rank);
  const std::string there = rank_text(row, row.peer);
  return row.is_send ? here + " -> " + there : there + " -> " + here;
}

std::vector<ChannelWait> waits_of(ChannelSide side) {
  std::vector<ChannelWait> waits;
  for (size_t i = 0; i < kChannelWaitCount; ++i) {
    if (kChannelWaitSides[i] == side) waits.push_back(static_cast<ChannelWait>(i));
  }
  return waits;
}

// Up to 2.26 NCCL does not tell of the bytes of a step.
std::string bytes_text(const LinkRow& row) {
  return row.bytes == 0 && row.steps != 0 ? "-" : byte_size(row.bytes);
}

std::string_view name_of(ChannelWait wait) { return kChannelWaits[static_cast<size_t>(wait)]; }

std::string wait_text(const LinkRow& row, ChannelWait wait) {
  const std::optional<double> mean_ns = row.per_step_ns(wait);
  if (!mean_ns) return "- ";
  return fmt::format("{:.1f}{}", *mean_ns / 1e3, wait == row.longest_wait() ? '*' : ' ');
}

// Nothing where the network is no part of what the link waits for: noise to noise.
std::string to_median_text(const LinkRow& row) {
  double sum_ns = 0;
  for (const uint64_t wait_ns : row.wait_ns) sum_ns += static_cast<double>(wait_ns);
  const auto network_ns = static_cast<double>(row.wait_ns[static_cast<size_t>(row.network_wait())]);
  const bool is_telling = row.to_median && network_ns >= sum_ns * kTellingShare;
  return is_telling ? fmt::format("{:.2f}", *row.to_median) : "-";
}

std::string side_text(std::vector<LinkRow> rows, ChannelSide side) {
  if (rows.empty()) return {};
  std::stable_sort(rows.begin(), rows.end(), [](const LinkRow& a, const LinkRow& b) {
    return a.behind_median_ns > b.behind_median_ns;
  });
  const size_t shown = std::min(rows.size(), kLinkRowsMax);
  const std::string_view title = kTitles[side == ChannelSide::sender ? 0 : 1];
  size_t width = std::max(kTitles[0].size(), kTitles[1].size());
  for (size_t i = 0; i < shown; ++i) width = std::max(width, comm_text(rows[i]).size());
  constexpr const char* kBegin = "{:<{}} {:>16} {:>10} {:>10}";
  std::string text = "\n" + fmt::format(kBegin, title, width, "link", "steps", "bytes");
  const std::vector<ChannelWait> waits = waits_of(side);
  for (const ChannelWait wait : waits) text += fmt::format(" {:>12} ", name_of(wait));
  text += fmt::format(" {:>9}\n", "to median");
  for (size_t i = 0; i < shown; ++i) {
    const LinkRow& row = rows[i];
    text += fmt::format(kBegin, comm_text(row), width, link_text(row), grouped(row.steps),
                        bytes_text(row));
    for (const ChannelWait wait : waits) text += fmt::format(" {:>13}", wait_text(row, wait));
    text += fmt::format(" {:>9}\n", to_median_text(row));
  }
  if (rows.size() > shown) {
    text += fmt::format("{} more links: --json has them.\n", grouped(rows.size() - shown));
  }
  return text;
}

std::string legend() {
  std::string text =
      "\nA link's ends are ranks of its communicator. Waits are in us per step, with a * at a "
      "link's longest.\n\"to median\" compares send_network (recv_network), where it is 1 % of the "
      "waits or more, with that of the\ncommunicator's median link. Where send_network stands out, "
      "the link itself is slow; recv_network is also\nlong where the sender comes late. A step "
      "waits in\n";
  for (size_t i = 1; i < kChannelWaitCount; ++i) {
    text += fmt::format("  {:<12}  for {}\n", kChannelWaits[i], kMeanings[i]);
  }
  return text;
}

}  // namespace

std::string links_text(const std::vector<LinkRow>& rows) {
  if (rows.empty()) return {};
  std::array<std::vector<LinkRow>, 2> sides;
  for (const LinkRow& row : rows) sides[row.is_send ? 0 : 1].push_back(row);
  return side_text(std::move(sides[0]), ChannelSide::sender) +
         side_text(std::move(sides[1]), ChannelSide::receiver) + legend();
}

}  // namespace rollcall::report
