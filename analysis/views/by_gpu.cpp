#include "analysis/views/by_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "analysis/record/index.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Event;
using trace::Op;
using trace::Process;
using trace::Run;

constexpr uint32_t kNoPart = 0xffffffff;
constexpr size_t kGpusMax = 64;  // as many as a mask has bits

// Of one process: which of its GPUs, counted from 0, each communicator belongs to.
struct Layout {
  std::vector<int32_t> devices;   // by GPU, rising; -1 unknown
  std::vector<uint32_t> part_of;  // by index into Process::comms
};

bool is_rank(const Comm& comm) {
  return comm.state != CommState::empty && !comm.key.is_null() && comm.rank >= 0;
}

bool has_two_ranks_of_one(const Process& process) {
  std::map<std::pair<uint64_t, uint64_t>, int32_t> ranks;
  for (const Comm& comm : process.comms) {
    if (!is_rank(comm)) continue;
    const auto [known, is_new] = ranks.try_emplace({comm.key.high, comm.key.low}, comm.rank);
    if (!is_new && known->second != comm.rank) return true;
  }
  return false;
}

// Gives communicators to GPUs, and refuses one that already has another rank of it.
class Seating {
 public:
  explicit Seating(const Process& process) : process_(process) {
    layout_.part_of.assign(process.comms.size(), kNoPart);
  }

  std::optional<Layout> seat_all() {
    std::set<int32_t> devices;
    for (const Comm& comm : process_.comms) {
      if (comm.device >= 0) devices.insert(comm.device);
    }
    if (devices.size() < 2 || devices.size() > kGpusMax) return std::nullopt;
    layout_.devices.assign(devices.begin(), devices.end());
    for (uint32_t i = 0; i < process_.comms.size(); ++i) {
      const int32_t device = process_.comms[i].device;
      if (device < 0) continue;
      const auto at = std::lower_bound(layout_.devices.begin(), layout_.devices.end(), device);
      if (!seat(i, static_cast<uint32_t>(at - layout_.devices.begin()))) return std::nullopt;
    }
    for (uint32_t i = 0; i < process_.comms.size(); ++i) {
      if (layout_.part_of[i] == kNoPart && !seat_somewhere(i)) return std::nullopt;
    }
    return std::move(layout_);
  }

 private:
  bool seat(uint32_t comm, uint32_t part) {
    const CommKey& key = process_.comms[comm].key;
    if (!key.is_null() && !taken_.insert({{key.high, key.low}, part}).second) return false;
    layout_.part_of[comm] = part;
    return true;
  }

  bool seat_somewhere(uint32_t comm) {
    const uint32_t parent = process_.comms[comm].parent;
    if (parent < layout_.part_of.size() && layout_.part_of[parent] != kNoPart) {
      return seat(comm, layout_.part_of[parent]);
    }
    for (uint32_t part = 0; part < layout_.devices.size(); ++part) {
      if (seat(comm, part)) return true;
    }
    return false;
  }

  const Process& process_;
  Layout layout_;
  std::set<std::pair<std::pair<uint64_t, uint64_t>, uint32_t>> taken_;
};

std::optional<Layout> layout_of(const Process& process) {
  if (process.superseded || process.is_foreign() || !has_two_ranks_of_one(process)) return {};
  return Seating(process).seat_all();
}

// Takes one process apart.
class Cutter {
 public:
  Cutter(const Process& whole, const Layout& layout) : whole_(whole), layout_(layout) {
    Process bare = whole;
    bare.comms.clear();
    bare.ops.clear();
    bare.events.clear();
    bare.graphs.clear();
    bare.phases.clear();
    bare.channels.clear();
    parts_.assign(layout.devices.size(), bare);
    for (size_t part = 0; part < parts_.size(); ++part) {
      parts_[part].gpu = layout.devices[part];
      parts_[part].is_first_part = part == 0;
    }
  }

  std::vector<Process> cut() {
    cut_comms();
    note_takers();
    for (const Op& op : whole_.ops) place(op);
    for (const Event& event : whole_.events) place(event);
    for (const trace::Graph& graph : whole_.graphs) {
      each(takers(by_graph_, graph.graph), [&](Process& part) { part.graphs.push_back(graph); });
    }
    for (const trace::PhaseTimes& phases : whole_.phases) {
      const auto found = by_ticket_.find(phases.ticket);
      if (found != by_ticket_.end()) parts_[found->second].phases.push_back(phases);
    }
    for (trace::NetworkChannel channel : whole_.channels) {
      if (channel.comm >= whole_.comms.size()) continue;
      const uint32_t part = layout_.part_of[channel.comm];
      channel.comm = index_[channel.comm];
      parts_[part].channels.push_back(channel);
    }
    return std::move(parts_);
  }

 private:
  using Masks = std::unordered_map<uint32_t, uint64_t>;

  void cut_comms() {
    for (const uint32_t part : layout_.part_of) {
      index_.push_back(static_cast<uint32_t>(parts_[part].comms.size()));
      parts_[part].comms.emplace_back();
    }
    for (uint32_t i = 0; i < whole_.comms.size(); ++i) {
      const uint32_t part = layout_.part_of[i];
      Comm& comm = parts_[part].comms[index_[i]];
      comm = whole_.comms[i];
      const bool has_parent =
          comm.parent < whole_.comms.size() && layout_.part_of[comm.parent] == part;
      comm.parent = has_parent ? index_[comm.parent] : kCommUnknown;
    }
  }

  // Who has calls in which group and which graph.
  void note_takers() {
    for (const Op& op : whole_.ops) {
      if (is_mark(op.kind) || op.comm >= whole_.comms.size()) continue;
      const uint32_t part = layout_.part_of[op.comm];
      if (op.group != 0) by_group_[op.group] |= uint64_t{1} << part;
      if (op.graph != 0) by_graph_[op.graph] |= uint64_t{1} << part;
      if (!whole_.phases.empty()) by_ticket_[op.ticket] = part;
    }
  }

  // All, where none is known.
  uint64_t takers(const Masks& masks, uint32_t number) const {
    const auto found = masks.find(number);
    return found == masks.end() ? ~uint64_t{0} : found->second;
  }

  template <class Do>
  void each(uint64_t mask, Do act) {
    for (size_t part = 0; part < parts_.size(); ++part) {
      if ((mask >> part & 1) != 0) act(parts_[part]);
    }
  }

  void place(Op op) {
    if (is_mark(op.kind) || op.comm >= whole_.comms.size()) {
      const uint64_t mask =
          op.group != 0 ? takers(by_group_, op.group) : takers(by_graph_, op.graph);
      return each(mask, [&](Process& part) { part.ops.push_back(op); });
    }
    const uint32_t part = layout_.part_of[op.comm];
    op.comm = index_[op.comm];
    parts_[part].ops.push_back(op);
  }

  // The communicator that a call made stands in its arguments.
  static bool makes_child(EventKind kind) {
    return kind == EventKind::CommSplit || kind == EventKind::CommShrink ||
           kind == EventKind::CommGrow;
  }

  void place(Event event) {
    int64_t& child = event.arguments[3];
    const bool has_child =
        makes_child(event.kind) && child >= 0 && static_cast<size_t>(child) < whole_.comms.size();
    const uint32_t by = event.comm < whole_.comms.size() ? event.comm
                        : has_child                      ? static_cast<uint32_t>(child)
                                                         : kCommUnknown;
    if (by == kCommUnknown) {
      return each(~uint64_t{0}, [&](Process& part) { part.events.push_back(event); });
    }
    const uint32_t part = layout_.part_of[by];
    if (event.comm < whole_.comms.size()) event.comm = index_[event.comm];
    if (has_child && layout_.part_of[static_cast<size_t>(child)] == part) {
      child = index_[static_cast<size_t>(child)];
    }
    parts_[part].events.push_back(event);
  }

  const Process& whole_;
  const Layout& layout_;
  std::vector<Process> parts_;
  std::vector<uint32_t> index_;  // in its part, by index into the whole's communicators
  Masks by_group_;
  Masks by_graph_;
  std::unordered_map<uint64_t, uint32_t> by_ticket_;
};

// The ranks in the oldest of the communicators that every part has one rank of; empty where there
// is none.
std::vector<int32_t> ranks_in_common(const Run& run) {
  struct Known {
    std::map<uint32_t, int32_t> rank_of;  // by process
    int64_t created_ns = INT64_MAX;
  };
  std::map<std::pair<uint64_t, uint64_t>, Known> by_key;
  size_t parts = 0;
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    if (run.processes[p].superseded) continue;
    ++parts;
    for (const Comm& comm : run.processes[p].comms) {
      if (!is_rank(comm)) continue;
      Known& known = by_key[{comm.key.high, comm.key.low}];
      known.rank_of.emplace(p, comm.rank);
      known.created_ns = std::min(known.created_ns, comm.created_ns);
    }
  }
  const Known* oldest = nullptr;
  for (const auto& [key, known] : by_key) {
    std::set<int32_t> distinct;
    for (const auto& [p, rank] : known.rank_of) distinct.insert(rank);
    const bool has_all = known.rank_of.size() == parts && distinct.size() == parts;
    if (!has_all || (oldest && oldest->created_ns <= known.created_ns)) continue;
    oldest = &known;
  }
  if (!oldest) return {};
  std::vector<int32_t> ranks(run.processes.size(), -1);
  for (const auto& [p, rank] : oldest->rank_of) ranks[p] = rank;
  return ranks;
}

// Numbered on from process to process; by their own ranks where each has as many GPUs, for files
// may be missing.
std::vector<int32_t> ranks_counted(const Run& run, const std::vector<uint32_t>& origin) {
  std::map<uint32_t, int32_t> gpus;
  for (const uint32_t process : origin) ++gpus[process];
  const int32_t each = gpus.begin()->second;
  bool is_even = true;
  for (uint32_t p = 0; p < origin.size(); ++p) {
    is_even = is_even && gpus[origin[p]] == each && run.processes[p].job_rank >= 0;
  }
  std::vector<int32_t> ranks;
  int32_t within = 0;
  for (uint32_t p = 0; p < origin.size(); ++p) {
    within = p > 0 && origin[p] == origin[p - 1] ? within + 1 : 0;
    ranks.push_back(is_even ? run.processes[p].job_rank * each + within : static_cast<int32_t>(p));
  }
  return ranks;
}

void number(Parts& parts) {
  std::vector<int32_t> ranks = ranks_in_common(parts.run);
  const bool is_common = !ranks.empty();
  if (!is_common) ranks = ranks_counted(parts.run, parts.origin);
  size_t gpus = 0;
  size_t processes = 0;
  for (size_t p = 0; p < ranks.size(); ++p) {
    Process& process = parts.run.processes[p];
    process.job_rank = ranks[p];
    if (process.superseded) continue;
    ++gpus;
    processes += process.is_first_part;
  }
  const std::string all =
      fmt::format("{} GPUs of {} process{}", gpus, processes, processes == 1 ? "" : "es");
  parts.numbering = is_common ? "those of the communicator that all " + all + " are in"
                              : "the " + all + ", counted on";
}

}  // namespace

std::optional<Parts> take_apart(const Run& run) {
  std::vector<std::optional<Layout>> layouts;
  bool any = false;
  for (const Process& process : run.processes) {
    layouts.push_back(layout_of(process));
    any = any || layouts.back();
  }
  if (!any) return std::nullopt;
  Parts parts;
  parts.run.directory = run.directory;
  parts.run.issues = run.issues;
  parts.run.live = run.live;
  parts.run.read_at_ns = run.read_at_ns;
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    std::vector<Process> cut = layouts[p] ? Cutter(run.processes[p], *layouts[p]).cut()
                                          : std::vector<Process>{run.processes[p]};
    for (Process& part : cut) {
      parts.run.processes.push_back(std::move(part));
      parts.origin.push_back(p);
    }
  }
  number(parts);
  return parts;
}

namespace {

void put_together(const Parts& parts, Finding& finding) {
  for (Culprit& culprit : finding.culprits) {
    if (culprit.process == kNone) continue;  // it left no file
    culprit.gpu = parts.run.processes[culprit.process].gpu;
    culprit.process = parts.origin[culprit.process];
  }
  for (Finding& consequence : finding.consequences) put_together(parts, consequence);
}

}  // namespace

void put_together(const Parts& parts, Report& report) {
  for (Finding& finding : report.findings) put_together(parts, finding);
  for (RankRow& row : report.table) row.process = parts.origin[row.process];
  report.numbering = parts.numbering;
}

}  // namespace rollcall::analysis
