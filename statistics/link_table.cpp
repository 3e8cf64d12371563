#include "statistics/link_table.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "analysis/record/index.h"

namespace rollcall::statistics {

using analysis::Index;
using analysis::kNone;

namespace {

void add_up(uint64_t& sum, uint64_t by) { sum += std::min(by, UINT64_MAX - sum); }

// Group of the index, receiver, rank, peer, and the process where its communicator is not known.
// The first two name links whose waits can be compared.
using Link = std::tuple<uint32_t, bool, int32_t, int32_t, uint32_t>;
using Rows = std::map<Link, LinkRow>;

// kNone where the communicator is not analysed: what the process itself says of it counts.
void add_channel(const Index& index, uint32_t p, const trace::NetworkChannel& channel, Rows& rows) {
  static const trace::Comm kUnknown;
  const std::vector<trace::Comm>& comms = index.run().processes[p].comms;
  const bool is_known = channel.comm < comms.size();
  const trace::Comm& comm = is_known ? comms[channel.comm] : kUnknown;
  const uint32_t group = is_known ? index.seat(p, channel.comm).group : kNone;
  LinkRow& row = rows[{group, !channel.is_send, comm.rank, channel.peer, group == kNone ? p : 0}];
  row.comm = group == kNone ? comm.key : index.groups()[group].key;
  row.comm_name = group == kNone ? comm.name : index.groups()[group].name;
  row.nranks = group == kNone ? comm.nranks : index.groups()[group].nranks;
  row.rank = comm.rank;
  row.peer = channel.peer;
  row.is_send = channel.is_send;
  ++row.channels;
  add_up(row.operations_started, channel.operations_started);
  add_up(row.operations_done, channel.operations_done);
  add_up(row.steps, channel.steps);
  add_up(row.bytes, channel.bytes);
  for (size_t i = 0; i < kChannelWaitCount; ++i) add_up(row.wait_ns[i], channel.wait_ns[i]);
}

Rows sum_up(const trace::Run& run) {
  Rows rows;
  const bool is_told = std::any_of(run.processes.begin(), run.processes.end(),
                                   [](const auto& process) { return !process.channels.empty(); });
  if (!is_told) return rows;
  const Index index(run);
  for (const uint32_t p : index.active()) {
    for (const trace::NetworkChannel& channel : run.processes[p].channels) {
      add_channel(index, p, channel, rows);
    }
  }
  return rows;
}

double network_ns(const LinkRow& row) { return row.per_step_ns(row.network_wait()).value_or(0); }

void sort_by_wait(std::span<LinkRow> rows) {
  std::sort(rows.begin(), rows.end(), [](const LinkRow& a, const LinkRow& b) {
    return network_ns(a) != network_ns(b) ? network_ns(a) > network_ns(b)
                                          : std::tie(a.rank, a.peer) < std::tie(b.rank, b.peer);
  });
}

// The links of a communicator and side, sorted. Of two medians the smaller, so that of two links
// the slow one stands out.
void compare(std::span<LinkRow> rows) {
  std::vector<double> waits_ns;
  for (const LinkRow& row : rows) {
    if (row.steps != 0) waits_ns.push_back(network_ns(row));
  }
  if (waits_ns.size() < 2) return;
  const double median_ns = waits_ns[waits_ns.size() / 2];
  for (LinkRow& row : rows) {
    if (row.steps == 0) continue;
    row.behind_median_ns = (network_ns(row) - median_ns) * static_cast<double>(row.steps);
    if (median_ns > 0) row.to_median = network_ns(row) / median_ns;
  }
}

}  // namespace

std::optional<double> LinkRow::per_step_ns(ChannelWait wait) const {
  if (steps == 0) return std::nullopt;
  return static_cast<double>(wait_ns[static_cast<size_t>(wait)]) / static_cast<double>(steps);
}

ChannelWait LinkRow::longest_wait() const {
  const uint64_t* const named = wait_ns + 1;
  const uint64_t* const longest = std::max_element(named, wait_ns + kChannelWaitCount);
  return *longest == 0 ? ChannelWait::none : static_cast<ChannelWait>(longest - wait_ns);
}
static_assert(static_cast<size_t>(ChannelWait::none) == 0);

std::vector<LinkRow> link_table(const trace::Run& run) {
  Rows links = sum_up(run);
  std::vector<LinkRow> rows;
  rows.reserve(links.size());
  for (auto first = links.begin(); first != links.end();) {
    const uint32_t group = std::get<0>(first->first);
    const auto side = [](const Link& link) {
      return std::pair(std::get<0>(link), std::get<1>(link));
    };
    const auto last = std::find_if(first, links.end(), [&](const auto& link) {
      return side(link.first) != side(first->first);
    });
    const size_t begin = rows.size();
    for (; first != last; ++first) rows.push_back(std::move(first->second));
    const std::span<LinkRow> mine = std::span(rows).subspan(begin);
    sort_by_wait(mine);
    if (group != kNone) compare(mine);
  }
  return rows;
}

}  // namespace rollcall::statistics
