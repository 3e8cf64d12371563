// The ring file: what one process leaves behind, readable at any moment, by anybody, without its
// help.
//
// One process of a job writes one file, DIR/<host>.<pid>.<start>.ring (start: the process's start
// time in clock ticks since boot, in hex), a MAP_SHARED mapping whose every byte was reserved with
// posix_fallocate before the first store. The kernel keeps the pages when the process dies, by
// whatever signal, so the file is complete up to the last store.
//
//     FileHeader     4,096 bytes; `magic` is stored last of all: a file that has it is whole
//     meta           "key=value\n" lines, up to FileHeader::meta_bytes; a later key wins
//     stats          SelfStatistics
//     threads        ThreadEntry[threads_max]
//     comms          CommEntry[comms_max]
//     events         EventRecord[event_slots], a ring
//     ops            OpRecord[ring_slots], a ring
//     channels       ChannelEntry[channels_max], found by hash
//     kernel_phases  KernelPhasesEntry[kernel_phase_slots], by ticket
//     graphs         GraphEntry[graphs_max]
//     progress       uint64_t[progress_slots], beside the ops of the same slot numbers
//
// Constraints
//   * The writer is somebody else's hot path: no lock, no system call, no allocation; a record
//     costs three atomic read-modify-writes (ticket, position, slot) and two cache lines.
//   * The record of a call is visible before NCCL is entered: SIGKILL inside NCCL leaves it.
//   * A record in flight is never overwritten: its writer keeps a pointer to it and updates it in
//     place when the call returns. Newer calls step over it.
//   * The writer reads nothing back that it rests on: the job may have scribbled on it. Of all
//     but tickets, positions and bodies of slots the process has copies (core/capture/live.h).
//   * Readers may be attached, absent, late or hostile, and may be on other machines: the writer
//     waits for none. Everything a reader takes from here may have been scribbled on by the job:
//     fields are copied, then judged (core/format/record_check.h), then used.
//
// Protocol of a slot. The publish word holds (ticket << 8 | phase). Tickets count from 1, the slot
// of ticket t is t & (slots - 1); ticket 0 with phase empty is a slot never used.
//
//   writer:
//     t = fetch_add(next_ticket, 1)                   relaxed: tickets need only be distinct;
//         or the next of a block that the thread drew at once (core/capture/tickets.h)
//     w = load(slot.publish); if phase(w) is pinned or ticket(w) > t: take the next t, and count
//         this one as stepped_over
//     compare_exchange(slot.publish, w, t:writing)    acquire: no body store may move above it
//     the body, in whole words                        release: who sees a word sees `writing` too
//     store(slot.publish, t:called)                   release: body before publish
//     ... the real NCCL call ...
//     result, returned_ticks; store(publish, t:settled)    release (or t:gpu_pending first)
//   the writer, at the end of a simulated group:
//     kOpSimulated, the one change to a settled record, which is gpu_pending meanwhile
//   a thread of the recorder, later, where the operation is gpu_pending:
//     started_ticks when the GPU reached it; finished_ticks, store(publish, t:settled) when it is
//     through, or kOpGpuTimesUnknown and settled when that can no longer be learned
//
// A reader copies publish, the body, each word with acquire, then publish again. Same word twice
// and phase >= called: the body is whole, but for the fields that change after `called`, which are
// single words and each zero or final. Different words: being overwritten, read again. Where it
// cannot choose the order of its loads, as in a read of a file, it takes two copies and compares
// all of them.
// Phase `writing` twice in a dead process: torn, and counted as such. On the ticket order: tickets
// that no slot holds any more are in the segments (segment_layout.h) or lost; those that were
// stepped over or given up never had a record, nor have those at the end of a thread's open block.
//
// Rejected: a ring per thread (order between threads and memory per thread are lost, and a job may
// have hundreds of threads); a length-prefixed byte ring (a torn length loses everything behind
// it); a checksum per record (5 ns for something the phase already says when only the process
// dies).
//
// Versions: `version` changes when a reader of the old layout would misread the new one. Readers
// accept kRingVersionOldest..kRingVersion. Fields may be appended in reserved space without a
// change. Byte order is the writer's; `endian_mark` tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/base/clock_anchor.h"
#include "core/base/limits.h"
#include "core/format/vocabulary.h"

namespace rollcall {

inline constexpr uint64_t kRingMagic =
    0x4c4c41434c4c4f52;  // "ROLLCALL" in little-endian memory order
inline constexpr uint32_t kRingVersion = 1;
inline constexpr uint32_t kRingVersionOldest = 1;
inline constexpr uint32_t kEndianMark = 0x01020304;
inline constexpr uint32_t kCommUnknown = 0xffffffff;
inline constexpr uint32_t kThreadUnknown = 0xffffffff;

// Phases of a publish word. Order matters: everything from `called` on is readable.
enum class Phase : uint8_t {
  empty = 0,
  writing = 1,      // pinned; torn if the process is gone
  called = 2,       // pinned; the host thread is inside NCCL
  gpu_pending = 3,  // pinned; returned to the host, a GPU time is still awaited
  settled = 4,      // nothing more will be written
  Count
};
constexpr uint64_t publish_word(uint64_t ticket, Phase phase) {
  return ticket << 8 | static_cast<uint8_t>(phase);
}
constexpr uint64_t ticket_of(uint64_t publish) { return publish >> 8; }
constexpr uint8_t phase_number_of(uint64_t publish) { return publish & 0xff; }
constexpr bool is_pinned(uint8_t phase_number) { return phase_number >= 1 && phase_number <= 3; }

// Bits of OpRecord::flags.
inline constexpr uint8_t kOpFromPlugin = 1;   // written by the profiler plugin alone: redop unknown
inline constexpr uint8_t kOpInPlace = 2;      // send and receive buffer are the same
inline constexpr uint8_t kOpConfigCall = 4;   // called through the ...Config form
inline constexpr uint8_t kOpLegacyBcast = 8;  // called through ncclBcast
inline constexpr uint8_t kOpGpuTimesUnknown = 16;  // a GPU time was wanted and could not be had
inline constexpr uint8_t kOpSimulated = 32;        // NCCL did not run it: see below
inline constexpr uint8_t kOpSeqUnknown = 64;       // seq could not be counted; it is 0
// ncclGroupSimulateEnd ends a group that has been recorded, and mostly settled, as every other. The
// mark comes then, and the calls behind the group have the positions that its operations had. What
// was copied to history before lacks the mark; the later call with its position tells.

// One call that enqueues work, or one GroupEnd. Times are ticks of the clock in FileHeader::clock.
// Unknown is kUnknown8, -1 or 0 as stated, never a plausible value.
struct OpRecord {
  uint64_t publish;
  uint64_t called_ticks;    // host entered the call; never 0
  uint64_t returned_ticks;  // host left the call; 0: it has not
  uint64_t started_ticks;   // the stream reached the operation on the GPU; 0: not observed
  uint64_t finished_ticks;  // the GPU finished it; 0: not observed
  uint64_t count;           // elements as in the API call; WaitSignal: signals waited for
  uint64_t send_address;    // 0 where the call has none
  uint64_t recv_address;

  uint64_t stream;  // the cudaStream_t value; 0 is the legacy default stream. GroupEnd: number of
                    // operations in the group
  uint64_t seq;     // collectives: position on the communicator; Send, Recv: p2p seq for this peer
                    // and direction; PutSignal, Signal: signals to this peer before; WaitSignal:
                    // signals of this peer waited for before; GraphLaunch: number of the replay,
                    // from 0; else 0
  uint64_t caller;  // return address of the call in the job's code; 0 unknown
  uint64_t launched_ticks;  // NCCL launched the kernel (plugin, CUPTI), or said that it had, of a
                            // non-blocking communicator; 0: not observed
  uint32_t comm_index;      // into the communicator table, kCommUnknown if not known
  int32_t root_or_peer;     // communicator rank; -1 where the operation has none
  uint32_t group;  // process-wide number of the enclosing outermost group, from 1; 0: no group
  uint32_t thread_index;
  uint32_t graph;   // capture identity, from 1; 0: not captured (or not observed). GraphLaunch: the
                    // capture that is replayed; its count is the number of captured operations
  uint16_t frames;  // interned Python call site, from 1; 0: none
  uint16_t kernel;  // interned name of the kernel that carried it out, from 1; 0: not observed
  int16_t result;   // ncclResult_t; kResultUnknown until returned
  OpKind kind;
  uint8_t datatype;   // NCCL's number; kUnknown8
  uint8_t reduction;  // index into kReductions; kUnknown8
  uint8_t flags;
  uint8_t method;    // algorithm and protocol (plugin), method_of(); 0 unknown
  uint8_t channels;  // how many NCCL used (plugin); 0 unknown
};
static_assert(sizeof(OpRecord) == 128, "two cache lines");
static_assert(offsetof(OpRecord, stream) == 64, "the second line");
static_assert(std::is_trivially_copyable_v<OpRecord>);
static_assert(std::has_unique_object_representations_v<OpRecord>, "no padding reaches the file");

// It went into a CUDA graph: nothing runs until that is launched.
constexpr bool is_captured(const OpRecord& op) {
  return op.graph != 0 && op.kind != OpKind::GraphLaunch;
}
constexpr bool awaits_gpu(const OpRecord& op) {
  return phase_number_of(op.publish) == static_cast<uint8_t>(Phase::gpu_pending);
}

// One life-cycle call or one thing the recorder has to say. Same protocol as an OpRecord.
// arguments[] by kind (unused are 0; ranks and colours as the API's int, sign-extended):
//   CommInitRank*            nranks, rank, number of unique ids, hash of the unique ids
//   CommInitAll              ndev; one event per call, one CommEntry per device
//   CommSplit                colour, key, child number, child's index in the table (-1: NOCOLOR)
//   CommShrink               excluded count, child number, child's index, flags, hash of the
//                            excluded list
//   CommGrow                 nranks, rank, child number, child's index, hash of the unique id
//   AsyncError               the state reported before, the state reported now
//   CallFailed               OpKind of the call (or -1), ticket of its record (or 0)
//   UserTag                  the tag, ticket of the first operation that carries it (or 0)
//   ProcessExit              kExitAtOnce where nothing ran at the end that looked at the GPU again
//   others                   the integer arguments in order
inline constexpr int64_t kExitAtOnce = 1;
struct EventRecord {
  uint64_t publish;
  uint64_t called_ticks;
  uint64_t returned_ticks;
  uint64_t op_ticket;  // the next op ticket when it was called: orders it among its thread's ops
  int64_t arguments[8];
  uint64_t caller;
  uint32_t comm_index;  // the communicator it is about (the parent for split, shrink, grow)
  uint32_t thread_index;
  int16_t result;
  EventKind kind;
  uint8_t text_bytes;
  uint32_t reserved;
  char text[kEventTextBytes];  // error text and the like; not terminated, cut to fit
};
static_assert(sizeof(EventRecord) == 256);
static_assert(std::is_trivially_copyable_v<EventRecord>);
static_assert(std::has_unique_object_representations_v<EventRecord>);

// 128 bits that are the same on every rank of a communicator and on no other (shim/identity.h).
struct CommKey {
  uint64_t high;
  uint64_t low;
  friend constexpr bool operator==(const CommKey&, const CommKey&) = default;
  constexpr bool is_null() const { return high == 0 && low == 0; }
};

// One communicator as one rank of this process knows it. Entries are appended, never reused; the
// body is written before `state` leaves `empty` (release); what is learned later is single words.
struct CommEntry {
  uint32_t state;  // CommState
  CommOrigin origin;
  uint8_t non_blocking;  // 1: config.blocking was 0
  uint8_t reserved0[2];
  CommKey key;            // null: could not be known
  CommKey parent_key;     // null: none
  uint64_t handle;        // ncclComm_t; 0 until known
  uint32_t parent_index;  // kCommUnknown: none
  uint32_t child_number;  // how many-th child of the parent, from 0
  int32_t nranks;         // -1 until known
  int32_t rank;           // -1 until known
  int32_t device;         // CUDA device; -1 unknown
  int32_t colour;
  int32_t split_key;
  uint32_t reserved1;
  uint64_t nccl_hash;  // NCCL's own commHash where it can be had; 0 unknown; a label
  uint64_t created_ticks;
  uint64_t ready_ticks;
  uint64_t ended_ticks;
  char name[kCommNameBytes];  // config.commName, zero-padded; empty if none
  // Operations whose kernel phases the profiler plugin heard, and the sums of their times in each
  // phase (see KernelPhasesEntry).
  uint64_t phased_operations;
  uint64_t phase_ns[3];
  uint64_t reserved2;
  // --- a line of its own: counted on the hot path
  uint64_t collectives;  // collectives called so far = the next seq; survives every overwriting
  uint64_t sends;
  uint64_t recvs;
  uint64_t last_ticket;  // of the newest operation on this communicator; 0 none
  uint64_t async_state;  // last value ncclCommGetAsyncError reported
  uint64_t reserved3[3];
};
static_assert(sizeof(CommEntry) == 256);
static_assert(offsetof(CommEntry, collectives) == 192);
static_assert(std::is_trivially_copyable_v<CommEntry>);
static_assert(std::has_unique_object_representations_v<CommEntry>);

struct ThreadEntry {
  uint32_t tid;  // 0: unused
  // Low half of the ticket behind the block (FileHeader::ticket_block) that the thread draws on; 0:
  // none, or one that ends at a multiple of 2^32. Those of its tickets behind the newest that has a
  // record were not spent.
  uint32_t open_block;
  uint64_t first_ticks;
  char name[16];
};
static_assert(sizeof(ThreadEntry) == 32);

// What the profiler plugin sums up of the proxy operations of one channel to (or from) one peer.
// Written by one network thread, read by anybody; `state` is stored last when an entry is made.
struct ChannelEntry {
  uint32_t state;  // 0: never used; 1: in use
  uint32_t comm_index;
  int32_t peer;  // rank in the communicator; its size: the network itself, which reduces (CollNet)
  uint8_t channel;
  uint8_t is_send;
  uint8_t waiting;  // ChannelWait of the step that was heard of last; where it is done, of the next
  uint8_t reserved;
  uint64_t operations_started;
  uint64_t operations_done;
  uint64_t steps_done;
  uint64_t bytes;
  uint64_t waiting_since_ticks;  // when that step entered this wait
  uint64_t wait_ticks[7];        // by ChannelWait: time that steps spent so; of `none` 0
  uint64_t reserved1[2];
};
static_assert(sizeof(ChannelEntry) == 128);
static_assert(kChannelWaitCount == 7);
static_assert(std::is_trivially_copyable_v<ChannelEntry>);
static_assert(std::has_unique_object_representations_v<ChannelEntry>);
inline constexpr uint32_t kChannelUnknown = 0xffffffff;

// How long the kernel of an operation spent in each phase, on the GPU's clock: the mean over its
// channels, so that the three add up to no more than the operation's time. A phase that NCCL did
// not tell of took it no time, or was not measured. At place ticket & (slots - 1), the newest one;
// the ticket is stored last.
struct KernelPhasesEntry {
  uint64_t ticket;  // of the operation; 0: never used, kKernelPhasesChanging: being written
  uint64_t ns[3];   // by KernelPhase
};
inline constexpr uint64_t kKernelPhasesChanging = ~uint64_t{0};
static_assert(sizeof(KernelPhasesEntry) == 32);
static_assert(kKernelPhaseCount == 3);
static_assert(std::is_trivially_copyable_v<KernelPhasesEntry>);
static_assert(std::has_unique_object_representations_v<KernelPhasesEntry>);

// A CUDA graph with captured operations, and how far its newest replay has come. A lane is one of
// the streams that were captured; its position is written by the GPU itself, by nodes beside each
// operation (or each group's share): 2k + 1 when the lane's k-th one was started, 2k + 2 when it
// was through, 0 from the beginning of the replay until then; in front of that it is the replay
// before's. `state` is stored last when an entry is made; an entry is used again when its graph is
// gone and the table is full.
struct GraphEntry {
  uint32_t state;        // 0: never used; 1: in use
  uint32_t graph;        // OpRecord::graph
  uint32_t operations;   // captured so far
  uint32_t lanes;        // in use, of the ones below
  uint64_t first_ticks;  // when the first operation was captured
  uint64_t launches;     // replays handed to the driver so far
  uint64_t stream[kGraphLanesMax];
  uint64_t position[kGraphLanesMax];
};
static_assert(sizeof(GraphEntry) == 128);
static_assert(std::is_trivially_copyable_v<GraphEntry>);
static_assert(std::has_unique_object_representations_v<GraphEntry>);

// A progress word: which operation (the first, where a group shares its marks) the GPU has started
// or finished, written by the GPU itself. Written for ROLLCALL_GPU_TIMING=progress only.
enum class GpuMark : uint8_t { none = 0, started = 1, finished = 2 };
constexpr uint64_t progress_word(uint64_t ticket, GpuMark mark) {
  return ticket << 8 | static_cast<uint8_t>(mark);
}
// What a word says of an operation; a word of another operation says nothing.
constexpr GpuMark mark_of(uint64_t word, uint64_t ticket) {
  if (word == progress_word(ticket, GpuMark::started)) return GpuMark::started;
  return word == progress_word(ticket, GpuMark::finished) ? GpuMark::finished : GpuMark::none;
}

// What the recorder counts about itself. X(name, meaning). Append only: the order is the layout.
#define ROLLCALL_STATISTICS(X)                                                                    \
  X(stepped_over, "tickets spent on slots held by operations in flight")                          \
  X(dropped_pinned, "calls not recorded: ring or plugin was full of operations in flight")        \
  X(dropped_off, "calls not recorded: capture had switched itself off")                           \
  X(dropped_paused, "calls not recorded: capture was paused by rollcall ctl")                     \
  X(dropped_event, "life-cycle events not recorded")                                              \
  X(comm_table_full, "communicators without an entry")                                            \
  X(comm_unknown, "calls on a communicator whose creation was not seen")                          \
  X(thread_table_full, "threads without an entry")                                                \
  X(nested_calls, "calls NCCL made to itself, counted once with the outer call")                  \
  X(history_lost, "records overwritten in the ring before they reached a segment")                \
  X(history_records, "records written to segments")                                               \
  X(history_bytes, "bytes written to segments")                                                   \
  X(history_dropped_files, "old segments removed to keep the history bound")                      \
  X(history_errors, "writes to segments that failed (disk full, file limit)")                     \
  X(late_overflow, "operations in flight that the flusher could not keep for later")              \
  X(flush_passes, "wakes of the flusher that found work")                                         \
  X(flush_ns, "nanoseconds the flusher spent working")                                            \
  X(slow_path_ns, "nanoseconds spent in first calls and life-cycle bookkeeping")                  \
  X(checks_failed, "failed assertions inside the recorder; the first switched capture off")       \
  X(meta_truncated, "bytes of meta text that did not fit")                                        \
  X(gpu_untimed, "operations whose GPU times were given up")                                      \
  X(forks, "fork() calls seen in this process")                                                   \
  X(seq_unknown, "operations whose seq could not be counted (no memory, peer out of range)")      \
  X(gpu_sampled_out, "operations not timed on the GPU, to keep the overhead budget")              \
  X(plugin_unjoined, "profiler events of operations that no record could be found for")           \
  X(plugin_null, "profiler calls with a NULL handle")                                             \
  X(plugin_stale, "profiler calls with a handle that had been recycled or was never ours")        \
  X(plugin_stopped_twice, "profiler events that NCCL stopped more than once")                     \
  X(plugin_foreign, "profiler events that belong to another process (PXN)")                       \
  X(plugin_unwanted, "profiler events of a type that was not asked for or is not known")          \
  X(plugin_recycled, "profiler handles that were given to another event while in use")            \
  X(plugin_full, "communicators, channels or calls beyond the room of the profiler's tables")     \
  X(plugin_kernel_lost, "kernel times not used: the 64-entry ring was overrun, or implausible")   \
  X(graph_unmarked, "captured operations without marks: how far a replay got in them is unknown") \
  X(graph_table_full, "captured operations of graphs beyond the table; replays are not recorded") \
  X(gpu_unwritten, "words that the driver did not let the GPU write")                             \
  X(gpu_records_dropped, "activity records that CUPTI dropped for want of room")                  \
  X(gpu_kernels_unmatched, "kernels of NCCL calls that were told of when nothing awaited them")   \
  X(gpu_kernels_unnamed, "kernels whose name is not on file: the table of names was full")        \
  X(given_up, "tickets that a thread drew in a block and did not spend")                          \
  X(reductions, "reductions that the job made or destroyed; the first are events, too")           \
  X(events_stepped_over, "numbers of life-cycle events spent on slots held by events in flight")

struct SelfStatistics {
#define ROLLCALL_X(name, meaning) uint64_t name;
  ROLLCALL_STATISTICS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr uint32_t kStatisticsBytes = 512;
static_assert(sizeof(SelfStatistics) <= kStatisticsBytes, "the area has room to append");

struct FileArea {
  uint64_t offset;
  uint64_t bytes;
};

enum class CaptureState : uint32_t { recording = 1, paused = 2, off = 3 };
enum class ExitState : uint32_t { running_or_killed = 0, exited = 1 };

struct FileHeader {
  uint64_t magic;  // kRingMagic, stored last
  uint32_t version;
  uint32_t endian_mark;
  uint64_t file_bytes;
  uint32_t header_bytes;
  uint32_t op_record_bytes;
  uint32_t event_record_bytes;
  uint32_t comm_entry_bytes;
  uint32_t thread_entry_bytes;
  uint32_t ring_slots;
  uint32_t event_slots;
  uint32_t comms_max;
  uint32_t threads_max;
  uint32_t reserved0;
  FileArea meta;
  FileArea stats;
  FileArea threads;
  FileArea comms;
  FileArea events;
  FileArea ops;

  // Incarnation: who wrote this.
  uint32_t pid;
  uint32_t parent_pid;
  uint64_t start_time_ticks;  // field 22 of /proc/self/stat
  uint64_t pid_namespace;     // inode of /proc/self/ns/pid
  char boot_id[40];           // /proc/sys/kernel/random/boot_id, zero-padded
  char host[kHostNameBytes];  // gethostname, zero-padded
  uint64_t run_id;            // ROLLCALL_RUN_ID; 0 when started without `rollcall run`

  ClockKind clock_kind;
  uint32_t is_unlocked;  // 1: the file system has no locks, a free one says nothing
  ClockAnchor first_anchor;
  // The newest anchor, rewritten by the flusher: two copies, the valid one is anchor_count & 1, so
  // a reader that finds the same count in front and behind never sees half of one.
  uint64_t anchor_count;
  ClockAnchor latest_anchor[2];

  // --- each on a cache line of its own from here: written while the job runs
  alignas(64) uint64_t next_ticket;  // operations; the next one to be handed out, from 1
  alignas(64) uint64_t next_event_ticket;
  alignas(64) uint32_t capture_switch;  // written by `rollcall ctl`: 0 record, 1 pause
  uint32_t capture_state;               // CaptureState, written by the process
  uint32_t exit_state;                  // ExitState
  uint32_t meta_bytes;                  // valid bytes of the meta area
  uint32_t comm_count;                  // entries handed out
  uint32_t thread_count;
  uint64_t exited_ticks;
  uint64_t heartbeat_ticks;  // by the flusher at every wake
  uint64_t flushed_ticket;   // operations below it are in segments, lost, or late
  uint64_t off_reason;       // line number of the failed check; 0 none
  uint64_t segment_count;    // segments started so far
  FileArea channels;         // ChannelEntry[channels_max]; zero in files from before it was added
  uint32_t channels_max;
  uint32_t channel_entry_bytes;
  FileArea graphs;    // GraphEntry[graphs_max]; zero in files from before it was added
  FileArea progress;  // uint64_t[progress_slots]; likewise
  uint32_t graphs_max;
  uint32_t graph_entry_bytes;
  uint32_t progress_slots;      // ring_slots, or 0
  uint32_t kernel_phase_slots;  // a power of two; zero in files from before it was added
  FileArea kernel_phases;       // KernelPhasesEntry[kernel_phase_slots]; likewise
  uint32_t kernel_phase_entry_bytes;
  // How many tickets a thread draws at once where threads contend for them; 0: none has yet, and
  // tickets are in the order of the calls. Else the times of the calls are, across threads.
  uint32_t ticket_block;
};
inline constexpr uint32_t kHeaderBytes = 4096;
static_assert(sizeof(FileHeader) <= kHeaderBytes);
static_assert(std::is_trivially_copyable_v<FileHeader>);
static_assert(offsetof(FileHeader, magic) == 0);

// Keys of the meta area. Values are UTF-8 with backslash, newline and NUL escaped as \\, \n, \0.
//   rollcall_version  exe  cmdline  cwd  job_rank  job_rank_from  local_rank  world_size  run_dir
//   nccl_version (the version code)  nccl_path  cuda_driver_version  cuda_runtime_version
//   coverage (comma list of plt, dlsym, plugin, static_nccl)  env.NAME (allow-listed prefixes only)
//   group.NAME (how the job calls the group that NCCL was told of as NAME: CommEntry::name)
//   gpu_timing (events, progress or cupti, from the moment on at which operations are timed)
//   gpu_cupti (why CUPTI is not used, where that was wanted)
//   gpu_words (who writes the marks of graphs, and progress words: "gpu" into this file, "copied"
//   by a thread of the process, or why there are none)
//   gpu_fault (the first call that the driver refused to GPU timing: "FUNCTION answered CUresult")
//   graph_launches (watched, once the process has been given a driver that tells of them)
//   cgroup  oom_kills_at_start  warning (may repeat)  emulated (1: NCCL is)  not_emulated.FUNCTION

}  // namespace rollcall
