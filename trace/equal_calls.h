// Which calls of large logs are worth an Op each.
//
// A log is read once, for it may be a pipe, so all of its calls are at hand, packed. Of more calls
// than may be held are unpacked: the newest of every process, since whatever hangs is among them,
// and a stretch of every process around each place where the calls of a communicator begin to
// differ between its ranks, or what is sent from what is received. How many are not, is said. They
// are proved to be the same on all ranks that are on file, but for places that were left out to
// keep the bound: the later ones of each communicator, and what lies far behind the begin of a
// stretch. It is said that there are any.
//
// What is given up: the order between communicators is seen only in what is unpacked.
//
// Processes of a team know the marks of all, and plan alike.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trace/equal_prefix.h"
#include "trace/model.h"

namespace rollcall::trace {

// Calls of a communicator, or from one rank to another, whose positions have all but the last bits
// in common.
struct CallBlock {
  uint64_t number = 0;  // the positions without the last bits
  uint64_t calls = 0;
  uint64_t digest = 0;  // of what must agree, and of the positions: 2^-64 that other calls have it
  uint64_t first_ticket = 0;
};

// The calls of one process that are compared with those of others.
struct CallTrack {
  CommKey key{};
  int32_t source = -1;  // of sends and receives; -1: collectives
  int32_t target = -1;
  uint32_t comm = 0;              // index into Process::comms
  std::vector<CallBlock> blocks;  // rising
};

struct CallMarks {
  uint64_t calls = 0;
  std::vector<CallTrack> tracks;
};

template <class Io>
void transfer(Io& io, CallTrack& track) {
  auto& [key, source, target, comm, blocks] = track;
  transfer_all(io, key, source, target, comm, blocks);
}

template <class Io>
void transfer(Io& io, CallMarks& marks) {
  auto& [calls, tracks] = marks;
  transfer_all(io, calls, tracks);
}

// What of one process is unpacked.
struct WantedCalls {
  std::vector<TicketRange> ranges;    // rising and disjoint
  std::vector<PrefixDigest> digests;  // by communicator, of those that are equal; else position 0
};

// Of a process whose calls are packed. Marks take a byte for two calls.
CallMarks mark_calls(const Process& process);

struct CallPlan {
  std::vector<WantedCalls> wanted;  // by process
  bool leaves_out_places = false;   // calls may differ that are not wanted
};

// For about `calls_max` calls in memory, of all processes together.
CallPlan plan_calls(std::span<const CallMarks> marks, uint64_t calls_max);

// Of the process whose marks these are, so many are not wanted.
uint64_t calls_left_out(const WantedCalls& wanted, const CallMarks& marks);

// Fills Process::ops, and counts in `skipped` what was not wanted. Nothing where none is packed.
void unpack_calls(const WantedCalls& wanted, Process& process);
void unpack_all_calls(Process& process);

// Of processes that were just read; those without packed calls have none.
uint64_t packed_calls(std::span<const Process> processes);

}  // namespace rollcall::trace
