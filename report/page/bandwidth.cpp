#include "report/page/bandwidth.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "report/page/document.h"
#include "report/page/markup.h"
#include "report/terms.h"
#include "trace/comm_key_order.h"

namespace rollcall::report {
namespace {

using statistics::OperationRow;

// What may be compared: operation, ranks, hosts.
using Shape = std::tuple<OpKind, int32_t, size_t>;

// Of hosts without files nobody knows how many there are.
constexpr size_t kHostsUnknown = SIZE_MAX;

size_t hosts_of(const analysis::Index& index, const CommKey& key) {
  const uint32_t group = index.find_group(key);
  if (group == analysis::kNone) return 0;
  if (!index.groups()[group].is_whole()) return kHostsUnknown;
  std::set<std::string_view> hosts;
  for (const analysis::Member& member : index.groups()[group].members) {
    hosts.insert(index.run().processes[member.process].host);
  }
  return hosts.size();
}

// Sizes share a row of the table where their numbers have as many bits.
int size_class(const OperationRow& row) { return std::bit_width(row.bytes_to); }

bool is_telling(const OperationRow& row) {
  return row.median_bandwidth.has_value() && row.timed >= kTellingCalls;
}

// Bandwidths of the table: by shape, and by shape and class of sizes.
class Speeds {
 public:
  Speeds(const analysis::Index& index, const std::vector<OperationRow>& rows) : rows_(rows) {
    std::map<CommKey, size_t, trace::CommKeyOrder> hosts;
    for (const OperationRow& row : rows) {
      const auto [found, is_new] = hosts.try_emplace(row.comm, 0);
      if (is_new) found->second = hosts_of(index, row.comm);
      shapes_.emplace_back(row.kind, row.nranks, found->second);
    }
    for (size_t at = 0; at < rows.size(); ++at) {
      if (!is_comparable(at)) continue;
      of_shape_[shapes_[at]].push_back({rows[at].bytes_to, gbps(at)});
      of_class_[{shapes_[at], size_class(rows[at])}].push_back({gbps(at), at});
    }
    for (auto& [shape, sizes] : of_shape_) {
      std::sort(sizes.begin(), sizes.end());
      double most = 0;
      for (auto& [bytes, reached] : sizes) reached = most = std::max(most, reached);
    }
    for (auto& [place, others] : of_class_) std::sort(others.begin(), others.end());
  }

  BandwidthRow row_of(size_t at) const {
    BandwidthRow row{.operation = at, .of_peers = {}, .reached = {}};
    if (!is_comparable(at)) return row;
    row.reached = reached_by(at);
    set_peers(at, row);
    if (*row.reached > 0) {
      const auto median_ns = static_cast<double>(rows_[at].median_ns.value_or(0));
      row.behind_ns =
          median_ns * static_cast<double>(rows_[at].calls) * (1 - gbps(at) / *row.reached);
    }
    return row;
  }

 private:
  bool is_comparable(size_t at) const {
    return is_telling(rows_[at]) && std::get<size_t>(shapes_[at]) != kHostsUnknown;
  }

  double gbps(size_t at) const { return rows_[at].median_bandwidth->bus_gbps; }

  // By this one, too.
  double reached_by(size_t at) const {
    const auto& sizes = of_shape_.at(shapes_[at]);
    const auto larger =
        std::upper_bound(sizes.begin(), sizes.end(), rows_[at].bytes_to,
                         [](uint64_t bytes, const auto& size) { return bytes < size.first; });
    return std::prev(larger)->second;
  }

  // The median of the others is looked up in the order of all, of which this one is one: a
  // communicator has one row of a kind and class.
  void set_peers(size_t at, BandwidthRow& row) const {
    const auto& all = of_class_.at({shapes_[at], size_class(rows_[at])});
    row.peers = static_cast<uint32_t>(all.size() - 1);
    if (row.peers == 0) return;
    const auto own = std::lower_bound(all.begin(), all.end(), std::pair(gbps(at), at));
    const size_t place = (row.peers - 1) / 2;
    const bool is_behind = place >= static_cast<size_t>(own - all.begin());
    row.of_peers = all[place + (is_behind ? 1 : 0)].first;
  }

  const std::vector<OperationRow>& rows_;
  std::vector<Shape> shapes_;
  // By size: the most that was reached up to it.
  std::map<Shape, std::vector<std::pair<uint64_t, double>>> of_shape_;
  // By bandwidth, with the row.
  std::map<std::pair<Shape, int>, std::vector<std::pair<double, size_t>>> of_class_;
};

std::string microseconds(const std::optional<int64_t>& span_ns) {
  return span_ns ? fmt::format("{:.1f}", static_cast<double>(*span_ns) / 1e3) : "-";
}

// Of small operations it is a small part of a GB/s.
std::string gbps_text(double gbps) {
  return gbps >= 0.1 ? fmt::format("{:.2f}", gbps) : fmt::format("{:.2g}", gbps);
}

std::string share_of(double value, const std::optional<double>& of) {
  return of && *of > 0 ? fmt::format("{:.0f} %", 100 * value / *of) : "-";
}

std::vector<std::string> cells_of(const OperationRow& row, const BandwidthRow& beside) {
  const std::string from = byte_size(row.bytes_from);
  const std::string to = byte_size(row.bytes_to);
  std::vector<std::string> cells{row.comm_name.empty() ? key_hex(row.comm) : row.comm_name,
                                 std::string(name_of(row.kind)),
                                 from == to ? to : fmt::format("{} - {}", from, to),
                                 grouped(row.calls),
                                 microseconds(row.median_ns),
                                 microseconds(row.p99_ns)};
  if (!row.median_bandwidth) {
    cells.insert(cells.end(), 4, "-");
    return cells;
  }
  const double bus_gbps = row.median_bandwidth->bus_gbps;
  cells.push_back(gbps_text(row.median_bandwidth->algorithm_gbps));
  cells.push_back(gbps_text(bus_gbps));
  cells.push_back(beside.of_peers
                      ? fmt::format("{} of {} ({})", share_of(bus_gbps, beside.of_peers),
                                    gbps_text(*beside.of_peers), grouped(beside.peers))
                      : std::string("-"));
  cells.push_back(beside.reached ? fmt::format("{} of {}", share_of(bus_gbps, beside.reached),
                                               gbps_text(*beside.reached))
                                 : std::string("-"));
  return cells;
}

constexpr std::string_view kMeanings =
    "Times are the GPU's, per rank, waits for later ranks included. algbw and busbw are medians, "
    "from the fastest rank of each call, as nccl-tests defines them. Beside busbw: that of peers, "
    "which are communicators of as many ranks on as many hosts with the same operation and a size "
    "within a factor of two (their median, and how many they are); and the most that such "
    "communicators, this one included, reached with operations of this kind that are no larger. "
    "Where most time was lost against that comes first. A communicator of which files are missing "
    "is compared with none. What the hardware could do is on no file.";

}  // namespace

std::vector<BandwidthRow> bandwidth_rows(const analysis::Index& index,
                                         const std::vector<OperationRow>& operations) {
  const Speeds speeds(index, operations);
  std::vector<BandwidthRow> rows;
  for (size_t at = 0; at < operations.size(); ++at) rows.push_back(speeds.row_of(at));
  std::stable_sort(rows.begin(), rows.end(), [](const BandwidthRow& a, const BandwidthRow& b) {
    return a.behind_ns > b.behind_ns;
  });
  return rows;
}

std::string bandwidth_html(const analysis::Index& index,
                           const std::vector<OperationRow>& operations) {
  if (operations.empty()) return "";
  HtmlTable table({"communicator", "operation", "size", "calls", "median us", "p99 us",
                   "algbw GB/s", "busbw GB/s", "to peers", "to what was reached"},
                  kPageRowsMax);
  for (const BandwidthRow& row : bandwidth_rows(index, operations)) {
    table.add(cells_of(operations[row.operation], row));
  }
  const bool is_timed = std::any_of(operations.begin(), operations.end(),
                                    [](const OperationRow& row) { return row.timed > 0; });
  return paragraph(is_timed ? kMeanings
                            : std::string_view("No call has a GPU time: there is no bandwidth."),
                   "quiet") +
         table.html();
}

}  // namespace rollcall::report
