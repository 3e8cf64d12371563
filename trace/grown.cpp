#include "trace/grown.h"

#include <map>
#include <tuple>

#include "trace/comm_key_order.h"

namespace rollcall::trace {
namespace {

// How a child follows from its parent.
using Descent = std::tuple<uint64_t, uint64_t, CommOrigin, uint32_t, int32_t>;
Descent descent_of(const Comm& comm) {
  return {comm.parent_key.high, comm.parent_key.low, comm.origin, comm.child_number, comm.colour};
}

// Calls `visit` with each grown communicator and the hash of its unique id.
template <typename Visit>
void for_each_grown(Run& run, const Visit& visit) {
  for (Process& process : run.processes) {
    for (const Event& event : process.events) {
      const int64_t child = event.arguments[3];
      const bool is_grown = event.kind == EventKind::CommGrow && event.arguments[4] != 0 &&
                            child >= 0 && static_cast<size_t>(child) < process.comms.size();
      if (is_grown) visit(process.comms[static_cast<size_t>(child)], event.arguments[4]);
    }
  }
}

}  // namespace

void unify_grown(Run& run) {
  std::map<int64_t, CommKey> by_id;
  for_each_grown(run, [&](const Comm& comm, int64_t id) {
    if (!comm.parent_key.is_null() && !comm.key.is_null()) by_id.emplace(id, comm.key);
  });
  if (by_id.empty()) return;
  std::map<CommKey, CommKey, CommKeyOrder> renamed;
  for_each_grown(run, [&](Comm& comm, int64_t id) {
    const auto known = by_id.find(id);
    if (!comm.parent_key.is_null() || known == by_id.end() || comm.key == known->second) return;
    renamed.emplace(comm.key, known->second);
    comm.key = known->second;
  });
  if (renamed.empty()) return;
  // What an old member derived from the grown communicator, by how.
  std::map<Descent, CommKey> derived;
  for (const Process& process : run.processes) {
    for (const Comm& comm : process.comms) {
      if (!comm.parent_key.is_null() && !renamed.contains(comm.parent_key)) {
        derived.emplace(descent_of(comm), comm.key);
      }
    }
  }
  // A parent stands before its children in every table.
  for (Process& process : run.processes) {
    for (Comm& comm : process.comms) {
      const auto parent = renamed.find(comm.parent_key);
      if (comm.parent_key.is_null() || parent == renamed.end()) continue;
      comm.parent_key = parent->second;
      const auto key = derived.find(descent_of(comm));
      if (key == derived.end() || comm.key == key->second) continue;
      renamed.emplace(comm.key, key->second);
      comm.key = key->second;
    }
  }
}

}  // namespace rollcall::trace
