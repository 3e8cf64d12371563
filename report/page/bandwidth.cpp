#include "report/page/bandwidth.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "report/page/document.h"
#include "report/page/markup.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using statistics::OperationRow;

// What may be compared: operation, ranks, hosts.
using Shape = std::tuple<OpKind, int32_t, size_t>;

size_t hosts_of(const analysis::Index& index, const CommKey& key) {
  const uint32_t group = index.find_group(key);
  if (group == analysis::kNone) return 0;
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

// Bandwidths of the table: by shape and class of sizes, and of each row its communicator.
class Speeds {
 public:
  Speeds(const analysis::Index& index, const std::vector<OperationRow>& rows) : rows_(rows) {
    std::map<CommKey, size_t, KeyOrder> hosts;
    for (const OperationRow& row : rows) {
      const auto [found, is_new] = hosts.try_emplace(row.comm, 0);
      if (is_new) found->second = hosts_of(index, row.comm);
      shapes_.emplace_back(row.kind, row.nranks, found->second);
    }
    for (size_t at = 0; at < rows.size(); ++at) {
      if (is_telling(rows[at])) telling_[shapes_[at]][size_class(rows[at])].push_back(at);
    }
  }

  BandwidthRow row_of(size_t at) const {
    BandwidthRow row{.operation = at, .of_peers = {}, .reached = {}};
    const auto shape = telling_.find(shapes_[at]);
    if (!is_telling(rows_[at]) || shape == telling_.end()) return row;
    for (const auto& [size, others] : shape->second) {
      if (size > size_class(rows_[at])) break;
      for (const size_t other : others) {
        row.reached = std::max(row.reached.value_or(0), gbps(other));
      }
    }
    std::vector<double> peers;
    for (const size_t other : shape->second.at(size_class(rows_[at]))) {
      if (!(rows_[other].comm == rows_[at].comm)) peers.push_back(gbps(other));
    }
    row.peers = static_cast<uint32_t>(peers.size());
    if (!peers.empty()) {
      const auto middle = peers.begin() + static_cast<std::ptrdiff_t>(peers.size() / 2);
      std::nth_element(peers.begin(), middle, peers.end());
      row.of_peers = *middle;
    }
    if (*row.reached > 0) {
      const auto median_ns = static_cast<double>(rows_[at].median_ns.value_or(0));
      row.behind_ns =
          median_ns * static_cast<double>(rows_[at].calls) * (1 - gbps(at) / *row.reached);
    }
    return row;
  }

 private:
  struct KeyOrder {
    bool operator()(const CommKey& a, const CommKey& b) const {
      return std::tuple(a.high, a.low) < std::tuple(b.high, b.low);
    }
  };

  double gbps(size_t at) const { return rows_[at].median_bandwidth->bus_gbps; }

  const std::vector<OperationRow>& rows_;
  std::vector<Shape> shapes_;
  std::map<Shape, std::map<int, std::vector<size_t>>> telling_;
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
    "which are communicators of as many ranks on as many hosts with the same operation and size "
    "(their median, and how many they are); and the most that such communicators, this one "
    "included, reached with operations of this kind that are no larger. What is furthest behind "
    "that comes first. What the hardware could do is on no file.";

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
