// What the processes of a team send each other: parts of the model, and of the plan for reading it,
// as bytes. Both ends are the same build of the same program on like machines, so plain values go
// as they lie in memory.
//
// One function per type describes both directions, and takes a structure apart by name: a member
// that is added does not compile until it is sent.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "trace/model.h"
#include "trace/team.h"

namespace rollcall::trace {

class ParcelWriter {
 public:
  static constexpr bool kWriting = true;
  void raw(void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + bytes);
  }
  Team::Bytes take() { return std::move(bytes_); }

 private:
  Team::Bytes bytes_;
};

// Behind the end every value reads as zero.
class ParcelReader {
 public:
  static constexpr bool kWriting = false;
  explicit ParcelReader(const Team::Bytes& bytes) : bytes_(bytes) {}
  void raw(void* data, size_t bytes) {
    if (bytes > bytes_.size() - at_) {
      at_ = bytes_.size();
      if (bytes != 0) std::memset(data, 0, bytes);
      return;
    }
    if (bytes != 0) std::memcpy(data, bytes_.data() + at_, bytes);
    at_ += bytes;
  }
  size_t left() const { return bytes_.size() - at_; }

 private:
  const Team::Bytes& bytes_;
  size_t at_ = 0;
};

template <class T>
concept Plain = std::is_trivially_copyable_v<T>;

template <class Io, Plain T>
void transfer(Io& io, T& value) {
  io.raw(&value, sizeof value);
}

template <class Io, class... Members>
void transfer_all(Io& io, Members&... members);

template <class Io, class Container>
void transfer_size(Io& io, Container& container) {
  uint64_t size = container.size();
  transfer(io, size);
  // No element takes less than a byte.
  if constexpr (!Io::kWriting) container.resize(std::min<uint64_t>(size, io.left()));
}

template <class Io>
void transfer(Io& io, std::string& text) {
  transfer_size(io, text);
  io.raw(text.data(), text.size());
}

template <class Io, class T>
void transfer(Io& io, std::vector<T>& values) {
  transfer_size(io, values);
  if constexpr (Plain<T>) {
    io.raw(values.data(), values.size() * sizeof(T));
  } else {
    for (T& value : values) transfer(io, value);
  }
}

template <class Io, class A, class B>
requires(!Plain<std::pair<A, B>>) void transfer(Io& io, std::pair<A, B>& pair) {
  transfer_all(io, pair.first, pair.second);
}

template <class Io, class Key, class Value>
void transfer(Io& io, std::map<Key, Value>& map) {
  std::vector<std::pair<Key, Value>> entries(map.begin(), map.end());
  transfer(io, entries);
  if constexpr (!Io::kWriting) map = {entries.begin(), entries.end()};
}

template <class Io>
void transfer(Io& io, Event& event) {
  auto& [kind, called_ns, returned_ns, ticket, op_ticket, comm, thread, result, is_in_progress,
         arguments, text] = event;
  transfer_all(io, kind, called_ns, returned_ns, ticket, op_ticket, comm, thread, result,
               is_in_progress, arguments, text);
}

template <class Io>
void transfer(Io& io, Comm& comm) {
  auto& [key, parent_key, parent, origin, state, child_number, nranks, rank, device, colour,
         split_key, nccl_hash, non_blocking, is_in_progress, is_told_only, is_counted_only, name,
         created_ns, ready_ns, ended_ns, collectives, sends, recvs, phases, digests] = comm;
  transfer_all(io, key, parent_key, parent, origin, state, child_number, nranks, rank, device,
               colour, split_key, nccl_hash, non_blocking, is_in_progress, is_told_only,
               is_counted_only, name, created_ns, ready_ns, ended_ns, collectives, sends, recvs,
               phases, digests);
}

template <class Io>
void transfer(Io& io, Thread& thread) {
  auto& [tid, name] = thread;
  transfer_all(io, tid, name);
}

template <class Io>
void transfer(Io& io, Issue& issue) {
  auto& [file, text, lost, unusable] = issue;
  transfer_all(io, file, text, lost, unusable);
}

template <class Io>
void transfer(Io& io, Saying& saying) {
  auto& [kind, line, attempt, day_ms, rank, local_rank, group_rank, other_rank, writer, group,
         group_text, is_group_local, op, other_op, seq, enqueued, completed, elements_in,
         elements_out, ran_ms, limit_ms, code, is_first_death, text, quote] = saying;
  transfer_all(io, kind, line, attempt, day_ms, rank, local_rank, group_rank, other_rank, writer,
               group, group_text, is_group_local, op, other_op, seq, enqueued, completed,
               elements_in, elements_out, ran_ms, limit_ms, code, is_first_death, text, quote);
}

template <class Io>
void transfer(Io& io, Attempt& attempt) {
  auto& [line, number, sign] = attempt;
  transfer_all(io, line, number, sign);
}

template <class Io>
void transfer(Io& io, JobLog& log) {
  auto& [file, lines, last_line, last_wait_line, world_size, sayings, attempts, are_attempts_told,
         left_out_from, leaves_out_alike] = log;
  transfer_all(io, file, lines, last_line, last_wait_line, world_size, sayings, attempts,
               are_attempts_told, left_out_from, leaves_out_alike);
}

template <class Io>
void transfer(Io& io, Graph& graph) {
  auto& [number, operations, launches, first_ns, lanes] = graph;
  transfer_all(io, number, operations, launches, first_ns, lanes);
}

template <class Io>
void transfer(Io& io, Process& process) {
  auto& [file, host, pid, start_time_ticks, run_id, job_rank, recorder, written_ns, knowledge,
         clock, meta, comms, threads, ops, packed, events, graphs, phases, channels, busy,
         busy_why_not, statistics, liveness, liveness_evidence, started_ns, heartbeat_ns, exited_ns,
         clock_doubt_ns, clock_moved_ns, clock_bound_ns, next_ticket, first_complete_ticket, torn,
         damaged, lost, skipped, boot_id, parent_pid, capture_off, capture_paused, superseded, gpu,
         is_first_part] = process;
  // Calls are unpacked before anything is sent.
  transfer_all(io, file, host, pid, start_time_ticks, run_id, job_rank, recorder, written_ns,
               knowledge, clock, meta, comms, threads, ops, events, graphs, phases, channels, busy,
               busy_why_not, statistics, liveness, liveness_evidence, started_ns, heartbeat_ns,
               exited_ns, clock_doubt_ns, clock_moved_ns, clock_bound_ns, next_ticket,
               first_complete_ticket, torn, damaged, lost, skipped, boot_id, parent_pid,
               capture_off, capture_paused, superseded, gpu, is_first_part);
}

template <class Io, class... Members>
void transfer_all(Io& io, Members&... members) {
  (transfer(io, members), ...);
}

template <class T>
Team::Bytes pack(T& value) {
  ParcelWriter writer;
  transfer(writer, value);
  return writer.take();
}

template <class T>
void unpack(const Team::Bytes& bytes, T& value) {
  ParcelReader reader(bytes);
  transfer(reader, value);
}

// Rank 0's value on every process.
template <class T>
void hand_out(Team* team, T& value) {
  if (team == nullptr) return;
  Team::Bytes bytes;
  if (team->rank() == 0) bytes = pack(value);
  team->broadcast(bytes);
  if (team->rank() != 0) unpack(bytes, value);
}

// Everybody filled its share of `values`: rank 0 has them all then, in their order.
template <class T>
void bring_together(Team* team, std::vector<T>& values) {
  if (team == nullptr) return;
  const size_t count = values.size();
  const Share mine = my_share(count, team);
  ParcelWriter writer;
  for (size_t i = mine.begin; i < mine.end; ++i) transfer(writer, values[i]);
  const std::vector<Team::Bytes> parts = team->gather(writer.take());
  for (uint32_t rank = 1; rank < parts.size(); ++rank) {
    const Share share = share_of(count, rank, team->size());
    ParcelReader reader(parts[rank]);
    for (size_t i = share.begin; i < share.end; ++i) transfer(reader, values[i]);
  }
}

}  // namespace rollcall::trace
