#include "analysis/waits/wait_graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Op;
using trace::OpState;
using trace::Process;

// A position fits the hash key of a channel: (group, high half, low half). In this order, as the
// hash takes the first two together: most of a thousand processes' thousand calls would share
// theirs.
ChannelKey position_key(uint32_t group, uint64_t seq) {
  return {group, static_cast<int32_t>(seq >> 32), static_cast<int32_t>(seq)};
}

bool is_over(CommState state) {
  return state == CommState::aborted || state == CommState::revoked ||
         state == CommState::destroyed;
}

void keep_earlier(int64_t& since_ns, int64_t at_ns) {
  if (at_ns != 0 && (since_ns == 0 || at_ns < since_ns)) since_ns = at_ns;
}

// A rank that gives no colour to a split has no communicator of it, only the call itself on file.
// arguments: colour, key, child number, child's index.
bool is_split_without_child(const trace::Event& event, const Process& process) {
  return event.kind == EventKind::CommSplit && event.comm < process.comms.size() &&
         event.arguments[3] < 0 && event.result <= 0;
}

// The thread that the newest call came from.
std::optional<uint32_t> newest_thread(const Process& process) {
  if (!process.ops.empty()) return process.ops.back().thread;
  if (!process.events.empty()) return process.events.back().thread;
  return std::nullopt;
}

// A communicator of two, in a job of more, that its ranks made by themselves.
bool is_pair(const Index& index, const Group& group) {
  return group.origin == CommOrigin::init && group.nranks == 2 && index.active().size() > 2;
}

// Ranks in pairs have the order that they have in the job, as PyTorch's do: nothing on file says
// otherwise.
bool have_pairs_order(const Index& index) {
  return std::none_of(index.groups().begin(), index.groups().end(), [&](const Group& group) {
    if (!is_pair(index, group) || !group.is_whole()) return false;
    const auto rank = [&](size_t m) {
      return index.run().processes[group.members[m].process].job_rank;
    };
    return rank(0) > rank(1);
  });
}

}  // namespace

WaitGraph::WaitGraph(const Index& index, const JobState& job, const Playback& playback,
                     const std::vector<Difference>& differences)
    : index_(index),
      job_(job),
      playback_(playback),
      join_disputes_(find_join_disputes(index, job)) {
  for (const Difference& difference : differences) {
    disputed_.insert(position_key(difference.group, difference.seq));
  }
  host_of_.assign(index.run().processes.size(), kNone);
  add_waiting_hosts();
  add_shared_threads();
  add_creations();
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].kind == NodeKind::collective) expand_collective(n);
    if (nodes_[n].kind == NodeKind::p2p) expand_p2p(n);
  }
  for (Node& node : nodes_) {
    std::sort(node.waits_for.begin(), node.waits_for.end());
    node.waits_for.erase(std::unique(node.waits_for.begin(), node.waits_for.end()),
                         node.waits_for.end());
  }
  find_components();
  find_roots();
}

uint32_t WaitGraph::host(uint32_t process) {
  uint32_t& slot = host_of_[process];
  if (slot == kNone) {
    slot = static_cast<uint32_t>(nodes_.size());
    Node& node = nodes_.emplace_back();
    node.kind = NodeKind::host;
    node.process = process;
  }
  return slot;
}

uint32_t WaitGraph::collective(uint32_t group, uint64_t seq) {
  const auto [slot, is_new] =
      collective_of_.try_emplace(position_key(group, seq), static_cast<uint32_t>(nodes_.size()));
  if (is_new) {
    Node& node = nodes_.emplace_back();
    node.kind = NodeKind::collective;
    node.group = group;
    node.seq = seq;
  }
  return slot->second;
}

uint32_t WaitGraph::p2p(uint32_t process, uint32_t op) {
  const auto [slot, is_new] =
      p2p_of_.try_emplace(position_key(process, op), static_cast<uint32_t>(nodes_.size()));
  if (is_new) {
    Node& node = nodes_.emplace_back();
    node.kind = NodeKind::p2p;
    node.process = process;
    node.op = op;
    node.group = index_.seat(process, index_.op(process, op).comm).group;
    node.seq = index_.op(process, op).seq;
  }
  return slot->second;
}

uint32_t WaitGraph::call(uint32_t process, uint32_t op) {
  const Op& called = index_.op(process, op);
  return is_collective(called.kind)
             ? collective(index_.seat(process, called.comm).group, called.seq)
             : p2p(process, op);
}

// What stands in front of this call on its stream; kNone when it is at the front.
uint32_t WaitGraph::front(uint32_t process, uint32_t behind) {
  const uint32_t stream = playback_.stream_behind(process, behind);
  if (stream == kNone) return kNone;
  const auto [slot, is_new] =
      front_of_.try_emplace(position_key(process, stream), static_cast<uint32_t>(nodes_.size()));
  const uint32_t n = slot->second;
  if (!is_new) return n;
  Node& node = nodes_.emplace_back();
  node.kind = NodeKind::front;
  node.process = process;
  for (const uint32_t blocker : playback_.in_front_of(process, behind)) {
    const uint32_t b = call(process, blocker);
    nodes_[n].waits_for.push_back(b);
  }
  return n;
}

uint32_t WaitGraph::find_collective(uint32_t group, uint64_t seq) const {
  const auto found = collective_of_.find(position_key(group, seq));
  return found == collective_of_.end() ? kNone : found->second;
}

uint32_t WaitGraph::find_p2p(uint32_t process, uint32_t op) const {
  const auto found = p2p_of_.find(position_key(process, op));
  return found == p2p_of_.end() ? kNone : found->second;
}

// A communicator that was ended frees what waited on it, if the process went on afterwards. An
// abort with nothing behind it is how a hung job ends, and says nothing about why it hung.
bool WaitGraph::is_released(uint32_t process, const Op& op) const {
  const Process& owner = index_.run().processes[process];
  const Comm& comm = owner.comms[op.comm];
  if (!is_over(comm.state) || comm.ended_ns == 0) return false;
  const uint32_t last = job_.processes[process].last_op;
  return last != kNoRecord && owner.ops[last].called_ns > comm.ended_ns;
}

void WaitGraph::add_called(uint32_t n, uint32_t process, uint32_t op) {
  nodes_[n].callers.push_back(process);
  keep_earlier(nodes_[n].since_ns, index_.op(process, op).called_ns);
}

void WaitGraph::add_waiting_hosts() {
  for (const uint32_t p : index_.active()) {
    for (const uint32_t i : playback_.waiting(p)) {
      const Op& op = index_.op(p, i);
      if (op.state == OpState::failed || is_released(p, op)) continue;
      const uint32_t h = host(p);
      const uint32_t n = call(p, i);
      add_called(n, p, i);
      nodes_[h].waits_for.push_back(n);
    }
  }
}

// A thread that calls for several GPUs may be waiting for any of them, and then makes no call for
// the others. What it has called in a group that it has not ended, it does not wait for.
void WaitGraph::add_shared_threads() {
  std::map<std::pair<std::string_view, uint32_t>, std::vector<uint32_t>> by_thread;
  for (const uint32_t p : index_.active()) {
    const Process& process = index_.run().processes[p];
    if (process.gpu < 0) continue;
    const std::optional<uint32_t> thread = newest_thread(process);
    if (thread) by_thread[{process.file, *thread}].push_back(p);
  }
  for (const auto& [thread, gpus] : by_thread) {
    if (gpus.size() < 2) continue;
    std::vector<uint32_t> waited;
    for (const uint32_t p : gpus) {
      for (const uint32_t i : playback_.waiting(p)) {
        const Op& op = index_.op(p, i);
        const bool is_free =
            op.state == OpState::failed || is_released(p, op) || is_in_open_group(p, op);
        if (!is_free) waited.push_back(call(p, i));
      }
    }
    for (const uint32_t p : gpus) {
      const uint32_t h = host(p);
      nodes_[h].waits_for.insert(nodes_[h].waits_for.end(), waited.begin(), waited.end());
    }
  }
}

bool WaitGraph::is_in_open_group(uint32_t process, const Op& op) const {
  if (op.group == 0) return false;
  const std::vector<Op>& ops = index_.run().processes[process].ops;
  return std::none_of(ops.rbegin(), ops.rend(), [&](const Op& other) {
    return other.kind == OpKind::GroupEnd && other.group == op.group && other.returned_ns != 0;
  });
}

void WaitGraph::expand_collective(uint32_t n) {
  const uint32_t g = nodes_[n].group;
  const uint64_t seq = nodes_[n].seq;
  nodes_[n].is_disputed = disputed_.contains(position_key(g, seq));
  if (nodes_[n].is_disputed) return;
  for (const Member& member : index_.groups()[g].members) {
    const bool called = member.lane.called > seq;
    if (!called) {
      const uint32_t h = host(member.process);
      nodes_[n].waits_for.push_back(h);
      continue;
    }
    if (!member.lane.has(seq)) continue;
    const uint32_t i = member.lane.at(seq);
    if (index_.op(member.process, i).state == OpState::failed ||
        index_.is_held(member.process, i)) {
      const uint32_t h = host(member.process);
      nodes_[n].waits_for.push_back(h);
      continue;
    }
    for (const uint32_t blocker : playback_.in_front_of(member.process, i)) {
      const uint32_t b = call(member.process, blocker);
      nodes_[n].waits_for.push_back(b);
    }
  }
}

void WaitGraph::expand_p2p(uint32_t n) {
  const uint32_t p = nodes_[n].process;
  const Op& op = index_.op(p, nodes_[n].op);
  const bool waits = op.kind == OpKind::WaitSignal;
  const auto [q, other] = waits ? playback_.owed_signal(p, nodes_[n].op) : index_.partner_of(p, op);
  if (q == kNone) return;
  if (other == kNoRecord || index_.op(q, other).state == OpState::failed ||
      index_.is_held(q, other)) {
    const uint32_t h = host(q);
    nodes_[n].waits_for.push_back(h);
    return;
  }
  const uint32_t f = front(q, other);
  if (f != kNone) {
    nodes_[n].waits_for.push_back(f);
  } else {
    // Both are at the front and do not finish: they disagree.
    nodes_[n].is_disputed = true;
  }
}

void WaitGraph::add_creations() {
  const std::vector<uint32_t> disputed = add_disputed_joins();
  const bool are_pairs_in_order = have_pairs_order(index_);
  for (uint32_t g = 0; g < index_.groups().size(); ++g) {
    const Group& group = index_.groups()[g];
    if (group.origin == CommOrigin::split || !group.may_be_matched) continue;
    if (!std::binary_search(disputed.begin(), disputed.end(), g)) {
      add_init(g, are_pairs_in_order);
    }
  }
  add_splits();
}

// The communicators in question, rising.
std::vector<uint32_t> WaitGraph::add_disputed_joins() {
  std::vector<uint32_t> groups;
  for (uint32_t d = 0; d < join_disputes_.size(); ++d) {
    const JoinDispute& dispute = join_disputes_[d];
    groups.insert(groups.end(), dispute.groups.begin(), dispute.groups.end());
    Creation creation;
    creation.group = dispute.groups.front();
    creation.callers = dispute.callers;
    creation.since_ns = dispute.since_ns;
    creation.dispute = d;
    add_creation_node(std::move(creation));
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

namespace {

// All ranks of the job have files: the job says how many it has, or a communicator holds them all.
bool is_all_on_file(const Index& index) {
  const size_t active = index.active().size();
  const auto said = index.run().processes[index.active().front()].meta.find("world_size");
  if (said != index.run().processes[index.active().front()].meta.end() &&
      said->second == std::to_string(active)) {
    return true;
  }
  return std::any_of(index.groups().begin(), index.groups().end(), [&](const Group& group) {
    return group.is_whole() && group.members.size() == active;
  });
}

// It waits for a communicator to come to be.
bool is_joining(const Process& process) {
  return std::any_of(process.comms.begin(), process.comms.end(),
                     [](const Comm& comm) { return comm.state == CommState::initialising; });
}

}  // namespace

// Who may be the other one of a pair of which one is there: not who has one with that already.
void WaitGraph::keep_possible_peers(Creation& creation, bool are_pairs_in_order) const {
  const Group& own = index_.groups()[creation.group];
  if (!is_pair(index_, own) || own.members.size() != 1) return;
  const uint32_t caller = own.members.front().process;
  const int32_t job_rank = index_.run().processes[caller].job_rank;
  const bool is_lower = own.members.front().rank == 0;
  const std::vector<uint32_t> all = creation.candidates;
  if (job_rank >= 0 && are_pairs_in_order) {
    std::erase_if(creation.candidates, [&](uint32_t p) {
      return (index_.run().processes[p].job_rank > job_rank) != is_lower;
    });
  }
  for (uint32_t i = 0; i < index_.run().processes[caller].comms.size(); ++i) {
    const uint32_t g = index_.seat(caller, i).group;
    if (g == kNone || !is_pair(index_, index_.groups()[g])) continue;
    for (const Member& member : index_.groups()[g].members) {
      std::erase(creation.candidates, member.process);
    }
  }
  // Of a pair that somebody makes anew nothing on file tells whose it is.
  if (creation.candidates.empty()) creation.candidates = all;
}

// Which of the candidates, all processes outside of the communicator, are its missing ranks.
// `same_numbers`: its members have their numbers in the job.
void WaitGraph::find_missing(Creation& creation, bool same_numbers) const {
  std::vector<int32_t>& missing = creation.missing_ranks;
  std::vector<uint32_t>& candidates = creation.candidates;
  const Group& group = index_.groups()[creation.group];
  // A communicator of two has its numbers 0 and 1, whichever ranks of the job are in it.
  const bool is_guess = group.origin == CommOrigin::init && group.members.size() == 1 &&
                        static_cast<size_t>(group.nranks) < index_.active().size();
  std::vector<uint32_t> named;
  std::vector<int32_t> numbers;
  for (const uint32_t p : candidates) {
    const int32_t job_rank = index_.run().processes[p].job_rank;
    if (!std::binary_search(missing.begin(), missing.end(), job_rank)) continue;
    named.push_back(p);
    numbers.push_back(job_rank);
  }
  // Who waits in nothing may wait for the id of another pair.
  const auto waits = [&](uint32_t p) {
    return !playback_.waiting(p).empty() || is_joining(index_.run().processes[p]);
  };
  const bool are_elsewhere = std::any_of(named.begin(), named.end(), [&](uint32_t p) {
    return is_joining(index_.run().processes[p]);
  });
  if (same_numbers && !(is_guess && (are_elsewhere || named.size() < missing.size()))) {
    creation.is_guess = is_guess;
    creation.absent = std::move(named);
    std::sort(numbers.begin(), numbers.end());
    std::erase_if(missing,
                  [&](int32_t r) { return std::binary_search(numbers.begin(), numbers.end(), r); });
  } else if (candidates.size() == missing.size() &&
             (!is_guess || (!candidates.empty() && waits(candidates.front())))) {
    creation.is_guess = is_guess;
    creation.absent = candidates;
    missing.clear();
  }
  const bool are_known = !creation.absent.empty() && !creation.is_guess;
  if (are_known || !is_guess || !is_all_on_file(index_)) candidates.clear();
}

// init, shrink and grow: the communicator says how many ranks it has.
void WaitGraph::add_init(uint32_t g, bool are_pairs_in_order) {
  const Group& group = index_.groups()[g];
  if (group.nranks < 0 || group.is_whole()) return;
  Creation creation;
  creation.group = g;
  bool same_numbers = true;  // communicator ranks are job ranks
  std::vector<bool> is_member(index_.run().processes.size(), false);
  for (const Member& member : group.members) {
    const Process& process = index_.run().processes[member.process];
    const Comm& comm = process.comms[member.comm];
    is_member[member.process] = true;
    same_numbers = same_numbers && process.job_rank == member.rank;
    if (comm.state != CommState::initialising) continue;
    creation.callers.push_back(member.process);
    keep_earlier(creation.since_ns, comm.created_ns);
  }
  if (creation.callers.empty()) return;
  // All that may be in a file; a file may claim more than there are.
  constexpr size_t kListedMax = 1024;
  std::vector<int32_t>& missing = creation.missing_ranks;
  const size_t missing_max = std::max(kListedMax, index_.active().size() + 1);
  size_t m = 0;
  for (int32_t r = 0; r < group.nranks && missing.size() < missing_max; ++r) {
    while (m < group.members.size() && group.members[m].rank < r) ++m;
    if (m < group.members.size() && group.members[m].rank == r) continue;
    missing.push_back(r);
  }
  for (const uint32_t p : index_.active()) {
    if (!is_member[p]) creation.candidates.push_back(p);
  }
  if (is_all_on_file(index_)) keep_possible_peers(creation, are_pairs_in_order);
  find_missing(creation, same_numbers);
  if (missing.size() > kListedMax) missing.resize(kListedMax);
  add_creation_node(std::move(creation));
}

// A split is called by every rank of the parent, also by those that get no communicator.
void WaitGraph::add_splits() {
  std::map<std::pair<uint32_t, uint32_t>, Creation> splits;
  std::map<std::pair<uint32_t, uint32_t>, bool> waits;
  for (const uint32_t p : index_.active()) {
    const Process& process = index_.run().processes[p];
    for (const Comm& comm : process.comms) {
      if (comm.origin != CommOrigin::split || comm.state == CommState::empty) continue;
      const uint32_t parent = index_.find_group(comm.parent_key);
      if (comm.parent_key.is_null() || parent == kNone) continue;
      Creation& creation = splits[{parent, comm.child_number}];
      creation.callers.push_back(p);
      if (comm.state != CommState::initialising) continue;
      waits[{parent, comm.child_number}] = true;
      keep_earlier(creation.since_ns, comm.created_ns);
    }
    for (const trace::Event& event : process.events) {
      if (!is_split_without_child(event, process)) continue;
      const uint32_t parent = index_.find_group(process.comms[event.comm].key);
      if (parent == kNone) continue;
      const auto child_number = static_cast<uint32_t>(event.arguments[2]);
      Creation& creation = splits[{parent, child_number}];
      creation.callers.push_back(p);
      if (!event.is_inside()) continue;
      waits[{parent, child_number}] = true;
      keep_earlier(creation.since_ns, event.called_ns);
    }
  }
  for (auto& [key, creation] : splits) {
    const Group& parent = index_.groups()[key.first];
    if (!waits[key] || creation.callers.size() >= parent.members.size()) continue;
    creation.group = key.first;
    creation.is_split = true;
    creation.child_number = key.second;
    std::sort(creation.callers.begin(), creation.callers.end());
    for (const Member& member : parent.members) {
      if (!std::binary_search(creation.callers.begin(), creation.callers.end(), member.process)) {
        creation.absent.push_back(member.process);
      }
    }
    if (!creation.absent.empty()) add_creation_node(std::move(creation));
  }
}

void WaitGraph::add_creation_node(Creation creation) {
  const auto n = static_cast<uint32_t>(nodes_.size());
  Node& node = nodes_.emplace_back();
  node.kind = NodeKind::creation;
  node.group = creation.group;
  node.seq = creation.child_number;
  node.creation = static_cast<uint32_t>(creations_.size());
  node.since_ns = creation.since_ns;
  node.callers = creation.callers;
  for (const uint32_t p : creation.absent) {
    const uint32_t h = host(p);
    nodes_[n].waits_for.push_back(h);
  }
  if (creation.absent.empty()) {
    const auto u = static_cast<uint32_t>(nodes_.size());
    Node& nobody = nodes_.emplace_back();
    nobody.kind = NodeKind::unknown;
    nobody.creation = nodes_[n].creation;
    nodes_[n].waits_for.push_back(u);
  }
  for (const uint32_t p : creation.callers) {
    const uint32_t h = host(p);
    nodes_[h].waits_for.push_back(n);
  }
  creations_.push_back(std::move(creation));
}

// Tarjan's algorithm without recursion: a circle may go through every rank. Components are numbered
// so that whatever a component waits for has a smaller number.
void WaitGraph::find_components() {
  const auto count = static_cast<uint32_t>(nodes_.size());
  std::vector<uint32_t> order(count, kNone);
  std::vector<uint32_t> low(count, 0);
  std::vector<bool> on_stack(count, false);
  std::vector<uint32_t> stack;
  std::vector<std::pair<uint32_t, size_t>> work;
  uint32_t next_order = 0;
  component_.assign(count, kNone);
  for (uint32_t start = 0; start < count; ++start) {
    if (order[start] != kNone) continue;
    work.emplace_back(start, 0);
    while (!work.empty()) {
      const uint32_t n = work.back().first;
      if (work.back().second == 0) {
        order[n] = low[n] = next_order++;
        stack.push_back(n);
        on_stack[n] = true;
      }
      if (work.back().second < nodes_[n].waits_for.size()) {
        const uint32_t t = nodes_[n].waits_for[work.back().second++];
        if (order[t] == kNone) {
          work.emplace_back(t, 0);
        } else if (on_stack[t]) {
          low[n] = std::min(low[n], order[t]);
        }
        continue;
      }
      if (low[n] == order[n]) {
        const auto c = static_cast<uint32_t>(component_size_.size());
        component_size_.push_back(0);
        for (uint32_t t = kNone; t != n;) {
          t = stack.back();
          stack.pop_back();
          on_stack[t] = false;
          component_[t] = c;
          ++component_size_[c];
        }
      }
      work.pop_back();
      if (!work.empty()) {
        const uint32_t below = work.back().first;
        low[below] = std::min(low[below], low[n]);
      }
    }
  }
}

// Of the calls at the front of a stream, by its node, the first of each component: many transfers
// ask for them.
std::vector<std::vector<uint32_t>> WaitGraph::distinct_fronts() const {
  std::vector<std::vector<uint32_t>> distinct(nodes_.size());
  std::vector<uint32_t> newest(component_size_.size(), kNone);  // node that has one of it
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].kind != NodeKind::front) continue;
    for (const uint32_t t : nodes_[n].waits_for) {
      if (std::exchange(newest[component_[t]], n) != n) distinct[n].push_back(t);
    }
  }
  return distinct;
}

void WaitGraph::add_root(uint32_t component, std::vector<uint32_t> members) {
  Root& root = roots_.emplace_back();
  root.component = component;
  root.is_circle = members.size() > 1;
  for (const uint32_t n : members) {
    if (nodes_[n].kind != NodeKind::host) keep_earlier(root.since_ns, nodes_[n].since_ns);
  }
  root.nodes = std::move(members);
}

void WaitGraph::find_roots() {
  const size_t components = component_size_.size();
  std::vector<std::vector<uint32_t>> members(components);
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].kind != NodeKind::front) members[component_[n]].push_back(n);
  }
  const std::vector<std::vector<uint32_t>> fronts = distinct_fronts();
  const auto visit_awaited = [&](uint32_t n, auto visit) {
    for (const uint32_t t : nodes_[n].waits_for) {
      if (nodes_[t].kind == NodeKind::front) {
        std::for_each(fronts[t].begin(), fronts[t].end(), visit);
      } else {
        visit(t);
      }
    }
  };
  root_of_component_.assign(components, kNone);
  for (uint32_t c = 0; c < components; ++c) {
    if (members[c].empty()) continue;
    uint32_t best = kNone;
    bool is_sink = true;
    for (const uint32_t n : members[c]) {
      visit_awaited(n, [&](uint32_t t) {
        if (component_[t] == c) return;
        is_sink = false;
        const uint32_t candidate = root_of_component_[component_[t]];
        if (candidate == kNone) return;
        if (best == kNone || roots_[candidate].since_ns < roots_[best].since_ns) best = candidate;
      });
    }
    if (is_sink) {
      best = static_cast<uint32_t>(roots_.size());
      add_root(c, members[c]);
    }
    root_of_component_[c] = best;
    // A host has no time of its own: the first call that waits for it dates it.
    for (const uint32_t n : members[c]) {
      if (nodes_[n].kind == NodeKind::host) continue;
      visit_awaited(n, [&](uint32_t t) {
        const uint32_t r = root_of_component_[component_[t]];
        const bool is_direct = r != kNone && roots_[r].component == component_[t];
        if (!is_direct || component_[t] == c) return;
        roots_[r].waiters.push_back(n);
        keep_earlier(roots_[r].since_ns, nodes_[n].since_ns);
      });
    }
  }
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].kind != NodeKind::host || nodes_[n].waits_for.empty()) continue;
    const uint32_t r = root_of_component_[component_[n]];
    if (r != kNone) roots_[r].victims.push_back(nodes_[n].process);
  }
  for (Root& root : roots_) {
    std::sort(root.waiters.begin(), root.waiters.end(),
              [&](uint32_t a, uint32_t b) { return nodes_[a].since_ns < nodes_[b].since_ns; });
    root.waiters.erase(std::unique(root.waiters.begin(), root.waiters.end()), root.waiters.end());
  }
}

}  // namespace rollcall::analysis
