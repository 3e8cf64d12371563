// A run as the analysis sees it, whoever recorded it: our own files (trace/loader) or another
// recorder's (trace/import).
//
// Operations are kept per rank of a communicator, not per process, because that is how they are
// matched: "rank r of communicator C called its k-th collective". What a recorder cannot know is
// absent (nullopt, kUnknown8, -1), never a default.
//
// Memory: an Op is 120 bytes; the loader keeps a window of operations per rank
// (LoadOptions::window), so a run's size in memory is ranks x window, not its history.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/format/ring_layout.h"
#include "core/format/vocabulary.h"
#include "trace/testimony.h"

namespace rollcall::trace {

class PackedCalls;

// How far an operation has come, in this order. `unknown` is for recorders that do not tell.
// `called` is, too, what came back before NCCL launched it (ncclInProgress), until NCCL says that
// it has. `failed`: NCCL refused it.
enum class OpState : uint8_t { unknown, called, returned, launched, started, finished, failed };
std::string_view name_of(OpState state);

inline constexpr uint64_t kCountUnknown = UINT64_MAX;  // an Op's count that no one recorded

struct Op {
  int64_t called_ns = 0;    // on the host's realtime clock, nanoseconds since the epoch; 0 unknown
  int64_t returned_ns = 0;  // 0: has not returned, or unknown (see state)
  int64_t started_ns = 0;
  int64_t finished_ns = 0;
  // NCCL launched the kernel, or put it into the graph that is captured, as the profiler plugin or
  // CUPTI saw it, or NCCL said when it was asked.
  int64_t launched_ns = 0;
  uint64_t ticket = 0;  // its number within the process; rises on a thread, on a communicator
  uint64_t seq = 0;     // collectives: seq; p2p: p2p seq
  uint64_t count = 0;
  uint64_t stream = 0;
  uint64_t caller = 0;
  int32_t root_or_peer = -1;
  uint32_t comm = 0;  // index into Process::comms
  uint32_t group = 0;
  uint32_t thread = 0;  // index into Process::threads
  uint32_t graph = 0;
  uint16_t frames = 0;  // meta key "frame.<number>"; 0: not recorded
  uint16_t kernel = 0;  // meta key "kernel.<number>"; 0: not recorded
  int16_t result = kResultUnknown;
  OpKind kind = OpKind::AllReduce;
  uint8_t datatype = kUnknown8;
  uint8_t reduction = kUnknown8;
  OpState state = OpState::unknown;
  uint8_t flags = 0;
  uint8_t method = 0;        // algorithm and protocol (core/format/vocabulary.h); 0 unknown
  uint8_t channels = 0;      // 0 unknown
  uint8_t from_segment = 0;  // 1: read from a segment, 0: from the ring (evidence)
  bool awaits_gpu = false;   // the GPU is watched, and was not yet seen to be through
  // Of a replay, as it is executed: it may wait for a call in front of it on another stream of the
  // graph. Files have nothing of this.
  bool may_wait = false;
  // And its size was fixed when it was captured.
  bool is_replayed = false;
  GpuMark mark = GpuMark::none;  // what the GPU itself wrote of it, beside the times
};

// How long an operation's kernel, or those of a communicator's operations together, spent in each
// phase: see KernelPhasesEntry.
struct PhaseTimes {
  uint64_t ticket = 0;      // of the operation; 0: of several
  uint64_t operations = 0;  // they are of
  uint64_t ns[kKernelPhaseCount] = {};
};

// What the GPU of a process had done when an operation ended, from the first kernel on file on: for
// how long kernels of compute ran, kernels of communication, and any of both. Each is the length of
// a union, and so is the difference of two of them: that of the time between two ends.
struct BusyTime {
  uint64_t ticket = 0;  // of the operation
  int64_t compute_ns = 0;
  int64_t communication_ns = 0;
  int64_t either_ns = 0;
};

// The network steps of one channel of a communicator to or from one peer: see ChannelEntry.
struct NetworkChannel {
  uint32_t comm = kCommUnknown;  // index into Process::comms
  int32_t peer = -1;
  uint8_t channel = 0;
  bool is_send = false;
  ChannelWait waiting = ChannelWait::none;
  int64_t waiting_since_ns = 0;  // 0: no step waits
  uint64_t operations_started = 0;
  uint64_t operations_done = 0;
  uint64_t steps = 0;  // that are done
  uint64_t bytes = 0;  // of these
  uint64_t wait_ns[kChannelWaitCount] = {};
};

// A CUDA graph with captured operations, and how far its newest replay has come on each of the
// streams that were captured: see GraphEntry.
struct Graph {
  uint32_t graph = 0;  // Op::graph
  uint32_t operations = 0;
  uint64_t launches = 0;
  int64_t first_ns = 0;
  struct Lane {
    uint64_t stream = 0;
    uint64_t position = 0;
  };
  std::vector<Lane> lanes;
};

struct Event {
  EventKind kind;
  int64_t called_ns = 0;
  int64_t returned_ns = 0;  // 0: has not returned
  uint64_t ticket = 0;      // among the process's events
  uint64_t op_ticket = 0;   // the next operation's ticket when it was called
  uint32_t comm = kCommUnknown;
  uint32_t thread = 0;
  int16_t result = kResultUnknown;
  bool is_in_progress = false;  // it came back, and NCCL has not said since that it was through
  int64_t arguments[8] = {};
  std::string text;
  bool is_inside() const { return returned_ns == 0 || is_in_progress; }
  bool is_abort() const { return kind == EventKind::CommAbort || kind == EventKind::CommRevoke; }
};

// Of a communicator's collectives in front of a position, whether or not these are on file: ranks
// with one digest at one position called the same up to there (core/format/digest.h).
struct PrefixDigest {
  uint64_t seq = 0;
  uint64_t digest = 0;
};

// A communicator as one of its ranks knows it.
struct Comm {
  CommKey key{};
  CommKey parent_key{};
  uint32_t parent = kCommUnknown;  // index into Process::comms
  CommOrigin origin = CommOrigin::unknown;
  CommState state = CommState::empty;
  uint32_t child_number = 0;
  int32_t nranks = -1;
  int32_t rank = -1;
  int32_t device = -1;
  int32_t colour = 0;
  int32_t split_key = 0;
  uint64_t nccl_hash = 0;
  bool non_blocking = false;
  bool is_in_progress = false;  // ncclCommGetAsyncError said so last
  // Of a log: positions are those that it names, for its head or some lines are lost; or they are
  // those that were counted, which are not what it names. Both cannot be compared.
  bool is_told_only = false;
  bool is_counted_only = false;
  std::string name;
  int64_t created_ns = 0;
  int64_t ready_ns = 0;
  int64_t ended_ns = 0;
  uint64_t collectives = 0;  // called in all, also those no longer on file
  uint64_t sends = 0;
  uint64_t recvs = 0;
  PhaseTimes phases;  // of all operations whose phases were told; none: nothing of it
  std::vector<PrefixDigest> digests;  // the newest few of the history, rising
};

struct Thread {
  uint32_t tid = 0;
  std::string name;
};

// What is known of the process now, or at its end. `unknown`: the files come from another machine,
// or from another recorder, and only the heartbeat speaks.
enum class Liveness : uint8_t { unknown, running, stopped, exited, dead };
std::string_view name_of(Liveness liveness);

// Anything a reader should know about a file. Reading goes on behind every one of them.
struct Issue {
  std::string file;
  std::string text;       // what happened and what to do next, one sentence each
  uint64_t lost = 0;      // records known to be lost by it
  bool unusable = false;  // nothing could be read from this file
};

// What a recorder can know at all. Our own files know everything below; an importer says what its
// source lacks, and the analysis must not conclude from what cannot be seen.
struct Knowledge {
  bool groups = true;          // Op::group tells which operations were issued together
  bool calls_in_order = true;  // the order between operations of different kinds is the call order
  bool head = true;            // nothing older than the first operation is missing
  bool tail = true;            // nothing newer than the last operation is missing
  bool small_calls = true;     // no operation is left out for being small or of some kind
  bool reductions = true;      // the reduction of a call is on file
  bool identities = true;      // communicators of one NCCL identifier are one communicator
  bool creations = true;       // so is that a communicator is being made, or was aborted
  bool returns = true;         // a call without a return has not returned
  bool losses_show = true;     // a record that was lost would be missed: they are counted
  bool kernel_times = false;   // Op::started_ns is the begin of the kernel, which NCCL had launched

  // A call that is not on file was not made.
  bool tells_absence() const { return tail && small_calls; }
};

// Of Process::lost so many may be numbers that threads drew in a block and did not spend.
inline constexpr uint64_t kUnspentMax = 256;

struct Process {
  std::string file;  // the ring, or the dump
  std::string host;
  uint32_t pid = 0;
  uint64_t start_time_ticks = 0;
  uint64_t run_id = 0;
  int32_t job_rank = -1;  // -1: the environment named none
  std::string recorder = "rollcall";
  int64_t written_ns = 0;  // when another recorder's file was last written; 0 unknown
  Knowledge knowledge;
  std::string clock;  // "TSC" or "CLOCK_MONOTONIC": what its times were read from
  std::map<std::string, std::string> meta;
  std::vector<Comm> comms;
  std::vector<Thread> threads;
  std::vector<Op> ops;  // in the order they were called; the window
  // Of a log that was just read: all of its calls, before those that are wanted are put into `ops`
  // (trace/equal_calls.h). Null everywhere else.
  std::shared_ptr<const PackedCalls> packed;
  std::vector<Event> events;  // by ticket
  std::vector<Graph> graphs;
  std::vector<PhaseTimes> phases;        // by ticket; of the newest operations that have them
  std::vector<NetworkChannel> channels;  // by communicator, peer, direction, number
  // By ticket; of the operations whose end is known. Empty where not all kernels of the GPU are on
  // file; then `busy_why_not` says why, as a sentence without a stop, where its file could have had
  // them.
  std::vector<BusyTime> busy;
  std::string busy_why_not;
  std::map<std::string, uint64_t> statistics;
  Liveness liveness = Liveness::unknown;
  std::string liveness_evidence;  // "pid 4711 is stopped (state T)", "exit record at ..."
  int64_t started_ns = 0;
  int64_t heartbeat_ns = 0;  // last sign of life of the flusher
  int64_t exited_ns = 0;     // 0: no exit record
  // Above 0: the host's clock was wrong; all times were moved, and may still be off by so much.
  int64_t clock_doubt_ns = 0;
  int64_t clock_moved_ns = 0;  // what was added to its recorded times
  // How far its host's clock may be off that of the host that the others are held against, as the
  // communicators prove that both are in; -1: nothing does.
  int64_t clock_bound_ns = -1;
  uint64_t next_ticket = 1;
  // Every record from here on is present; 1: nothing is missing. Inexact by as many as threads held
  // of their blocks (core/capture/tickets.h).
  uint64_t first_complete_ticket = 1;
  uint64_t torn = 0;     // records in phase `writing` of a process that is gone
  uint64_t damaged = 0;  // records that hold what no recorder writes
  uint64_t lost = 0;     // records that are nowhere
  uint64_t skipped = 0;  // records left on disk: equal on all ranks, or older than the window
  std::string boot_id;
  uint32_t parent_pid = 0;
  // Null: its phases are not on file.
  const PhaseTimes* phases_of(const Op& op) const;
  uint64_t calls_recorded() const;
  // Written by another recorder: no sign of life, and often no times.
  bool is_foreign() const { return recorder != "rollcall"; }
  // By _exit or a signal handler's way out: no destructor ran.
  bool has_left_at_once() const;
  bool capture_off = false;     // the recorder switched itself off
  bool capture_paused = false;  // by `rollcall ctl pause`, when it last looked
  // An older run or an earlier attempt that shares the directory: read, but not analysed.
  bool superseded = false;
  // Only while it is analysed: this is what one GPU of a process that drives several does.
  int32_t gpu = -1;  // its CUDA device in the process
  bool is_first_part = true;
};

// Who or what ended a job: itself, somebody's signal that `rollcall run` passed on, or `rollcall
// run` after a verdict or at the time limit.
enum class EndReason : uint8_t { job, signal, hang, time_limit, Count };

// A job, or the part of it on one host, that ended otherwise than with 0 (trace/job_end.h).
struct JobEnd {
  std::string file;
  std::string host;
  uint64_t run_id = 0;
  int64_t ended_ns = 0;  // when, in nanoseconds since the epoch; 0 unknown
  int32_t rank = -1;     // the rank that ended so, before any other; -1: it is the whole command
  uint32_t pid = 0;
  bool by_signal = false;
  int number = 0;  // the signal, or the exit status
  EndReason reason = EndReason::job;
};

struct Run {
  std::string directory;
  std::vector<Process> processes;  // by job rank where known, then host, pid
  std::vector<JobLog> logs;        // what is said of the job in words
  std::vector<JobEnd> ends;        // how it ended, where it did not end well; by their files
  std::vector<Issue> issues;
  bool live = false;  // some process is still running
  int64_t read_at_ns = 0;
};

}  // namespace rollcall::trace
