#include "tests/sim/loss.h"

#include <algorithm>
#include <random>

namespace rollcall::sim {

std::string_view name_of(LossKind kind) {
  constexpr std::string_view kNames[] = {"none", "file",   "overwritten",
                                         "torn", "middle", "captures"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_captured(const trace::Op& op) { return op.graph != 0 && op.kind != OpKind::GraphLaunch; }

void lose_captures(trace::Process& process) {
  const auto last = std::find_if(process.ops.rbegin(), process.ops.rend(), is_captured);
  process.lost = static_cast<uint64_t>(process.ops.rend() - last);
  process.ops.erase(process.ops.begin(), last.base());
  process.first_complete_ticket = process.lost + 1;
}

// A third at most: faults lie in the second half. What is not through yet is kept, as the recorder
// keeps it.
void lose_middle(trace::Process& process, uint64_t seed) {
  const size_t gone = seed % (process.ops.size() / 3 + 1);
  const auto end = process.ops.begin() + static_cast<ptrdiff_t>(gone);
  const auto kept = std::stable_partition(process.ops.begin(), end, [](const trace::Op& op) {
    return is_captured(op) || op.awaits_gpu;
  });
  process.lost = static_cast<uint64_t>(end - kept);
  process.ops.erase(kept, end);
  if (process.lost != 0) process.first_complete_ticket = gone + 1;
}

Loss lose(Outcome& outcome, LossKind kind, uint64_t seed) {
  Loss loss;
  std::mt19937_64 random(seed);
  std::vector<trace::Process>& processes = outcome.run.processes;
  if (kind == LossKind::none || processes.size() < 2) return loss;
  const size_t chosen = random() % processes.size();
  trace::Process& process = processes[chosen];
  loss = {kind, process.job_rank};
  switch (kind) {
    case LossKind::file:
      processes.erase(processes.begin() + static_cast<ptrdiff_t>(chosen));
      break;
    case LossKind::overwritten: {
      // A third at most: faults lie in the second half.
      const size_t gone = random() % (process.ops.size() / 3 + 1);
      process.ops.erase(process.ops.begin(), process.ops.begin() + static_cast<ptrdiff_t>(gone));
      process.first_complete_ticket = gone + 1;
      break;
    }
    case LossKind::torn:
      if (process.ops.empty()) return {};
      process.ops.pop_back();
      process.torn = 1;
      break;
    case LossKind::middle:
      for (trace::Process& one : processes) lose_middle(one, random());
      return {kind, -1};
    case LossKind::captures:
      for (trace::Process& one : processes) lose_captures(one);
      return {kind, -1};
    default:
      break;
  }
  return loss;
}

// The calls that the ranks made, and nothing of the one that left no file, which may have stopped
// anywhere: would this rank stand in them? Where the programs wait for their calls is on no file.
bool may_stand(const Program& program, const Outcome& outcome, int rank, int lost_rank) {
  Program called = program;
  for (CommSpec& comm : called.comms) comm.is_late = false;
  for (size_t r = 0; r < called.ranks.size(); ++r) {
    std::vector<Step>& steps = called.ranks[r];
    const int job_rank = static_cast<int>(r);
    std::erase_if(steps, [](const Step& step) { return step.act != Act::call; });
    const auto process =
        std::find_if(outcome.run.processes.begin(), outcome.run.processes.end(),
                     [&](const trace::Process& one) { return one.job_rank == job_rank; });
    const bool is_lost = job_rank == lost_rank || process == outcome.run.processes.end();
    steps.resize(is_lost ? 0 : std::min(steps.size(), process->ops.size()));
  }
  // NCCL buffers small sends, but nobody knows that it did.
  return execute(called, {.eager_bytes = 0}).stands[static_cast<size_t>(rank)];
}

bool still_decides(const Program& program, const Outcome& outcome, const Truth& truth,
                   const Loss& loss) {
  if (loss.kind == LossKind::none || truth.fault == Fault::none) return true;
  // Who left a communicator as it was may have ended early, and the lost file may say why.
  if (truth.fault == Fault::leak && loss.kind == LossKind::file) return false;
  // A split is a call of all ranks of the parent.
  const CommSpec& called = program.comms[truth.comm];
  const bool is_split = truth.fault == Fault::split_missing;
  const CommSpec& comm = is_split ? program.comms[called.parent] : called;
  // Of two ranks only the steps before tell which is right.
  if (loss.kind == LossKind::captures) return false;
  if (loss.kind == LossKind::middle) return comm.ranks.size() > 2;
  if (loss.kind == LossKind::overwritten) {
    return comm.ranks.size() > 2 || rank_in(comm, loss.rank) < 0;
  }
  // Of its communicator a majority has to be left to say what is right.
  const bool has_witness = comm.ranks.size() >= 4;
  const bool is_member = rank_in(comm, loss.rank) >= 0;
  if (loss.rank == truth.rank) return false;
  // A pair is known from both its sides.
  if (truth.is_p2p || truth.fault == Fault::p2p_unmatched || truth.fault == Fault::signal_missing ||
      truth.fault == Fault::comm_order) {
    return false;
  }
  if (truth.fault == Fault::stick && loss.kind == LossKind::file &&
      may_stand(program, outcome, truth.rank, loss.rank)) {
    return false;
  }
  // Who of them has come to the call is on file of all, or nobody can tell.
  if (truth.fault == Fault::lame && is_member) return false;
  // The torn record may be of a call that others wait in.
  if (truth.fault == Fault::block && loss.kind == LossKind::torn) return false;
  // The torn record may be of the usual call that came once more.
  if (truth.fault == Fault::again && loss.kind == LossKind::torn && is_member) return false;
  return !is_member || has_witness;
}

}  // namespace rollcall::sim
