#include "report/page/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "report/lines.h"
#include "report/page/document.h"
#include "report/page/markup.h"
#include "report/terms.h"
#include "trace/comm_key_order.h"

namespace rollcall::report {
namespace {

using analysis::CommSummary;
using analysis::Group;
using analysis::kNone;

constexpr size_t kOrderShown = 16;
constexpr size_t kDepthShown = 3;  // levels with a margin of their own

struct Entry {
  const CommSummary* comm = nullptr;
  uint32_t group = kNone;
  int64_t created_ns = 0;  // by the first rank that has a time; 0: none has
  uint64_t number = 0;     // in the order in which they were made; 0: not known
};

int64_t created_ns_of(const analysis::Index& index, const Group& group) {
  int64_t first_ns = 0;
  for (const analysis::Member& member : group.members) {
    const int64_t own_ns = index.run().processes[member.process].comms[member.comm].created_ns;
    if (own_ns > 0 && (first_ns == 0 || own_ns < first_ns)) first_ns = own_ns;
  }
  return first_ns;
}

// In the order of the report, which is that of the files.
std::vector<Entry> entries_of(const analysis::Index& index, const analysis::Report& report) {
  std::vector<Entry> entries;
  for (const CommSummary& comm : report.comms) {
    Entry entry{.comm = &comm, .group = index.find_group(comm.key)};
    if (entry.group != kNone) {
      entry.created_ns = created_ns_of(index, index.groups()[entry.group]);
    }
    entries.push_back(entry);
  }
  std::vector<Entry*> by_time;
  for (Entry& entry : entries) {
    if (entry.created_ns > 0) by_time.push_back(&entry);
  }
  std::stable_sort(by_time.begin(), by_time.end(),
                   [](const Entry* a, const Entry* b) { return a->created_ns < b->created_ns; });
  for (size_t at = 0; at < by_time.size(); ++at) by_time[at]->number = at + 1;
  return entries;
}

// Its ranks rise with those of the job.
bool is_rising(const CommSummary& comm) {
  return std::is_sorted(comm.ranks.begin(), comm.ranks.end());
}

std::vector<std::string> head(bool has_orders) {
  std::vector<std::string> columns{"communicator", "key", "made", "at", "of", "ranks"};
  if (has_orders) columns.emplace_back("its ranks in its order");
  return columns;
}

// "3, 1, 0, 2"
std::string order_of(const CommSummary& comm) {
  if (is_rising(comm)) return "as in the job";
  const std::vector<int32_t>& ranks = comm.ranks;
  std::string text;
  for (size_t at = 0; at < std::min(ranks.size(), kOrderShown); ++at) {
    text += fmt::format("{}{}", at == 0 ? "" : ", ", ranks[at]);
  }
  if (ranks.size() > kOrderShown) {
    text += fmt::format(" and {} more", grouped(ranks.size() - kOrderShown));
  }
  return text;
}

class CommTree {
 public:
  explicit CommTree(const std::vector<Entry>& entries, const analysis::Index& index)
      : entries_(entries),
        index_(index),
        has_orders_(std::any_of(entries.begin(), entries.end(),
                                [](const Entry& entry) { return !is_rising(*entry.comm); })),
        table_(head(has_orders_), kPageRowsMax) {
    std::map<CommKey, size_t, trace::CommKeyOrder> by_key;
    for (size_t at = 0; at < entries.size(); ++at) by_key.emplace(entries[at].comm->key, at);
    children_.resize(entries.size());
    for (size_t at = 0; at < entries.size(); ++at) {
      const auto& parent = entries[at].comm->parent;
      const auto found = parent ? by_key.find(*parent) : by_key.end();
      // A damaged file may call it its own parent.
      if (found == by_key.end() || found->second == at) {
        roots_.push_back(at);
      } else {
        children_[found->second].push_back(at);
      }
    }
    told_.assign(entries.size(), false);
    mark_out_of_step();
  }

  std::string html() {
    add_below(roots_);
    // Those that are each other's parents, in a damaged file.
    for (size_t at = 0; at < entries_.size(); ++at) add_below({at});
    return table_.html();
  }

 private:
  // Of an entry and of all above it: it is to be found among those that come first. Stops where it
  // was before, as in a circle of a damaged file.
  void mark_out_of_step() {
    std::vector<size_t> parents(entries_.size(), entries_.size());
    for (size_t at = 0; at < entries_.size(); ++at) {
      for (const size_t child : children_[at]) parents[child] = at;
    }
    is_out_of_step_.assign(entries_.size(), false);
    for (size_t first = 0; first < entries_.size(); ++first) {
      if (!entries_[first].comm->first_difference_seq) continue;
      for (size_t at = first; at < entries_.size() && !is_out_of_step_[at]; at = parents[at]) {
        is_out_of_step_[at] = true;
      }
    }
  }

  // No recursion: in a damaged file the one may be of the other for as long as there are any.
  void add_below(std::vector<size_t> roots) {
    std::vector<std::pair<size_t, size_t>> open;  // (entry, depth), the next one last
    const auto put = [&](std::vector<size_t>& siblings, size_t depth) {
      std::stable_sort(siblings.begin(), siblings.end(),
                       [this](size_t a, size_t b) { return place_of(a) < place_of(b); });
      for (size_t at = siblings.size(); at-- > 0;) open.emplace_back(siblings[at], depth);
    };
    put(roots, 0);
    while (!open.empty()) {
      const auto [at, depth] = open.back();
      open.pop_back();
      if (told_[at]) continue;
      told_[at] = true;
      add(entries_[at], depth);
      put(children_[at], depth + 1);
    }
  }

  std::pair<bool, uint64_t> place_of(size_t at) const {
    return {!is_out_of_step_[at], entries_[at].number};
  }

  void add(const Entry& entry, size_t depth) {
    const CommSummary& comm = *entry.comm;
    std::vector<std::string> cells{comm.name,
                                   key_hex(comm.key).substr(0, 8),
                                   entry.number == 0 ? "-" : fmt::format("{}", entry.number),
                                   entry.created_ns == 0 ? "-" : utc_time(entry.created_ns),
                                   parent_of(comm),
                                   comm_line(comm)};
    if (has_orders_) cells.push_back(order_of(comm));
    table_.add(cells, fmt::format("depth{}", std::min(depth, kDepthShown)));
  }

  std::string parent_of(const CommSummary& comm) const {
    if (!comm.parent) return "-";
    const uint32_t parent = index_.find_group(*comm.parent);
    return parent == kNone ? key_hex(*comm.parent).substr(0, 8) : index_.groups()[parent].name;
  }

  const std::vector<Entry>& entries_;
  const analysis::Index& index_;
  std::vector<std::vector<size_t>> children_;  // by entry
  std::vector<size_t> roots_;
  std::vector<bool> told_;
  std::vector<bool> is_out_of_step_;  // itself, or one below it
  const bool has_orders_;
  HtmlTable table_;
};

}  // namespace

std::string communicators_html(const analysis::Index& index, const analysis::Report& report) {
  if (report.comms.empty()) return "";
  const std::vector<Entry> entries = entries_of(index, report);
  return paragraph(
             "Made: in which order, each by the first rank that made it, by the clocks of the "
             "hosts. "
             "A communicator that was made of another one stands below it; those out of step come "
             "first, with what is above them.",
             "quiet") +
         CommTree(entries, index).html();
}

}  // namespace rollcall::report
