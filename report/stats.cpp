#include "report/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "report/json_terms.h"
#include "report/links.h"
#include "report/terms.h"
#include "statistics/link_table.h"

namespace rollcall::report {
namespace {

using statistics::OperationRow;

std::string comm_text(const OperationRow& row) {
  const std::string name = row.comm_name.empty() ? key_hex(row.comm) : row.comm_name;
  return row.nranks > 0 ? fmt::format("{} ({})", printable(name), row.nranks) : printable(name);
}

std::string size_text(const OperationRow& row) {
  const std::string from = byte_size(row.bytes_from);
  std::string to = byte_size(row.bytes_to);
  if (row.bytes_from == row.bytes_to) return to;
  return from == to ? fmt::format("{} - {} B", row.bytes_from, row.bytes_to)
                    : fmt::format("{} - {}", from, to);
}

std::string time_text(const std::optional<int64_t>& time_ns) {
  return time_ns ? fmt::format("{:.1f}", static_cast<double>(*time_ns) / 1e3) : "-";
}

std::string speed_text(bool known, double gbps) {
  return known ? fmt::format("{:.2f}", gbps) : "-";
}

bool any_timed(const std::vector<OperationRow>& rows) {
  for (const OperationRow& row : rows) {
    if (row.timed != 0) return true;
  }
  return false;
}

// The kernel phases of one communicator on one of its ranks.
struct RankPhases {
  std::string key;
  const trace::Comm* comm;
  double initial_sync_ns() const {
    return static_cast<double>(comm->phases.ns[0]) / static_cast<double>(comm->phases.operations);
  }
};
static_assert(static_cast<size_t>(KernelPhase::initial_sync) == 0);

std::vector<RankPhases> rank_phases(const trace::Run& run) {
  std::vector<RankPhases> list;
  for (const trace::Process& process : run.processes) {
    if (process.superseded) continue;
    for (const trace::Comm& comm : process.comms) {
      if (comm.phases.operations != 0) list.push_back({key_hex(comm.key), &comm});
    }
  }
  std::sort(list.begin(), list.end(), [](const RankPhases& one, const RankPhases& other) {
    return std::tie(one.key, one.comm->rank) < std::tie(other.key, other.comm->rank);
  });
  return list;
}

// One line per communicator: the ranks' shares together, and who waited least for the others.
std::string phases_line(const RankPhases* first, const RankPhases* last) {
  uint64_t operations = 0;
  double ns[kKernelPhaseCount] = {};
  double sum_ns = 0;
  const RankPhases* least = first;
  for (const RankPhases* rank = first; rank != last; ++rank) {
    operations += rank->comm->phases.operations;
    for (size_t i = 0; i < kKernelPhaseCount; ++i) {
      ns[i] += static_cast<double>(rank->comm->phases.ns[i]);
      sum_ns += static_cast<double>(rank->comm->phases.ns[i]);
    }
    if (rank->initial_sync_ns() < least->initial_sync_ns()) least = rank;
  }
  const std::string& name = first->comm->name;
  std::string text = fmt::format("{:<32} {:>10}", printable(name.empty() ? first->key : name),
                                 grouped(operations));
  for (const double part_ns : ns) {
    text += fmt::format(" {:>12.1f} %", sum_ns > 0 ? 100 * part_ns / sum_ns : 0.0);
  }
  if (last - first > 1 && ns[0] > 0) {
    const int rank = least->comm->rank;
    text += fmt::format("  rank {}, {:.1f} us", rank >= 0 ? std::to_string(rank) : "unknown",
                        least->initial_sync_ns() / 1e3);
  }
  return text + "\n";
}

std::string phases_text(const trace::Run& run) {
  const std::vector<RankPhases> list = rank_phases(run);
  if (list.empty()) return {};
  std::string text = fmt::format("\n{:<32} {:>10}", "kernel phases of communicator", "operations");
  for (const std::string_view name : kKernelPhases) text += fmt::format(" {:>14}", name);
  text += "  least initial_sync, per operation\n";
  const RankPhases* const end = list.data() + list.size();
  for (const RankPhases* first = list.data(); first != end;) {
    const RankPhases* last = first;
    while (last != end && last->key == first->key) ++last;
    text += phases_line(first, last);
    first = last;
  }
  return text;
}

Json phases_list(const trace::Run& run) {
  Json list = Json::array();
  for (const RankPhases& rank : rank_phases(run)) {
    list.push_back({{"comm", rank.key},
                    {"comm_name", valid_utf8(rank.comm->name)},
                    {"rank", known_or_null(rank.comm->rank, rank.comm->rank >= 0)},
                    {"operations", rank.comm->phases.operations},
                    {"phases_ns", phases_json(rank.comm->phases)}});
  }
  return list;
}

Json links_list(const trace::Run& run) {
  Json list = Json::array();
  for (const statistics::LinkRow& row : statistics::link_table(run)) {
    const ChannelWait longest = row.longest_wait();
    Json waits = waits_json(row.wait_ns, row.is_send);
    Json means = waits;
    for (Json& mean : means) {
      const double steps = static_cast<double>(std::max<uint64_t>(row.steps, 1));
      mean = known_or_null(mean.get<double>() / steps, row.steps != 0);
    }
    list.push_back({{"comm", known_or_null(key_hex(row.comm), !row.comm.is_null())},
                    {"comm_name", valid_utf8(row.comm_name)},
                    {"nranks", known_or_null(row.nranks, row.nranks > 0)},
                    {"rank", known_or_null(row.rank, row.rank >= 0)},
                    {"peer", known_or_null(row.peer, row.peer >= 0)},
                    {"direction", direction_of(row.is_send)},
                    {"channels", row.channels},
                    {"operations_started", row.operations_started},
                    {"operations_done", row.operations_done},
                    {"steps", row.steps},
                    {"bytes", step_bytes_json(row.bytes, row.steps)},
                    {"waits_ns", std::move(waits)},
                    {"mean_waits_ns", std::move(means)},
                    {"longest_wait", known_or_null(kChannelWaits[static_cast<size_t>(longest)],
                                                   longest != ChannelWait::none)},
                    {"network_to_median", optional_number(row.to_median)}});
  }
  return list;
}

std::string times_text(const trace::Run& run, const std::vector<OperationRow>& rows) {
  if (!any_timed(rows)) {
    const bool was_wanted = std::any_of(
        run.processes.begin(), run.processes.end(),
        [](const trace::Process& process) { return process.meta.count("gpu_timing") != 0; });
    return fmt::format("\nNo call has a GPU time{}.\n",
                       was_wanted ? ", though GPUs were to be timed: `rollcall info` says why"
                                  : ": this run was recorded without GPU timing "
                                    "(ROLLCALL_GPU_TIMING=off, or by the profiler plugin alone)");
  }
  std::string text =
      "\nTimes are the GPU's, per rank, waits for later ranks included. algbw and busbw are "
      "medians in\nGB/s (1e9 bytes), from the fastest rank of each call, as nccl-tests defines "
      "them.\n";
  uint64_t timed = 0;
  uint64_t with_launch = 0;
  for (const OperationRow& row : rows) {
    timed += row.timed;
    with_launch += row.with_launch;
  }
  if (with_launch != 0) {
    text += fmt::format(
        "{} of {} times hold a part of NCCL's launch on the host: the stream had nothing else to "
        "do.\nOf short calls they say little; the profiler plugin tells when NCCL launched.\n",
        grouped(with_launch), grouped(timed));
  }
  return text;
}

}  // namespace

std::string stats_text(const trace::Run& run, const std::vector<OperationRow>& rows) {
  if (rows.empty()) {
    const auto older = std::count_if(
        run.processes.begin(), run.processes.end(),
        [](const trace::Process& process) { return process.superseded && !process.ops.empty(); });
    if (older != 0) {
      return fmt::format(
          "The processes of the newest attempt or run called no operation; {} of older ones did: "
          "name "
          "their directory (`rollcall info` lists the files).\n",
          older);
    }
    return fmt::format("The {} processes of this run called no operation.\n", run.processes.size());
  }
  constexpr const char* kRow = "{:<{}}  {:<13} {:>21} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}\n";
  constexpr std::string_view kFirst = "communicator (ranks)";
  size_t width = kFirst.size();
  for (const OperationRow& row : rows) width = std::max(width, comm_text(row).size());
  std::string text = fmt::format(kRow, kFirst, width, "operation", "bytes", "calls", "timed",
                                 "median us", "p99 us", "algbw", "busbw");
  for (const OperationRow& row : rows) {
    const bool known = row.median_bandwidth.has_value();
    text += fmt::format(kRow, comm_text(row), width, name_of(row.kind), size_text(row),
                        grouped(row.calls), grouped(row.timed), time_text(row.median_ns),
                        time_text(row.p99_ns),
                        speed_text(known, known ? row.median_bandwidth->algorithm_gbps : 0),
                        speed_text(known, known ? row.median_bandwidth->bus_gbps : 0));
  }
  text += times_text(run, rows);
  return text + phases_text(run) + links_text(statistics::link_table(run));
}

std::string stats_json(const trace::Run& run, const std::vector<OperationRow>& rows) {
  Json json;
  json["schema"] = "rollcall.stats/1";
  json["dir"] = valid_utf8(run.directory);
  json["issues"] = issues_json(run);
  json["operations"] = Json::array();
  for (const OperationRow& row : rows) {
    const bool known = row.median_bandwidth.has_value();
    json["operations"].push_back(
        {{"comm", key_hex(row.comm)},
         {"comm_name", valid_utf8(row.comm_name)},
         {"nranks", known_or_null(row.nranks, row.nranks > 0)},
         {"op", name_of(row.kind)},
         {"bytes_from", row.bytes_from},
         {"bytes_to", row.bytes_to},
         {"calls", row.calls},
         {"timed", row.timed},
         {"with_launch", row.with_launch},
         {"median_ns", optional_number(row.median_ns)},
         {"p99_ns", optional_number(row.p99_ns)},
         {"algbw_gbps", known ? Json(row.median_bandwidth->algorithm_gbps) : Json(nullptr)},
         {"busbw_gbps", known ? Json(row.median_bandwidth->bus_gbps) : Json(nullptr)}});
  }
  json["kernel_phases"] = phases_list(run);
  json["links"] = links_list(run);
  return json.dump(2) + "\n";
}

}  // namespace rollcall::report
