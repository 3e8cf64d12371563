// Every bound of the recorder, in one place, each with its reason and its relation to the others.
//
// The injected library lives in somebody else's process: nothing in it may grow without a bound
// that is named here. What does not fit is counted in SelfStatistics (core/format/ring_layout.h).
#pragma once

#include <cstdint>

namespace rollcall {

// Slots of the operation ring, unless ROLLCALL_RING_SLOTS says otherwise. 65,536 slots of 128 bytes
// are 8 MiB: 65 ms of history at 1,000,000 calls/s, six flusher periods, so that a flusher which
// is descheduled for five periods loses nothing.
inline constexpr uint32_t kRingSlotsDefault = 65536;
inline constexpr uint32_t kRingSlotsMin = 64;
inline constexpr uint32_t kRingSlotsMax = 1u << 20;

// Slots of the event ring. Life-cycle calls are rare; 2,048 of 256 bytes are 512 KiB.
inline constexpr uint32_t kEventSlots = 2048;

// So many reductions that are made or destroyed become events. A framework that scales by a number
// of its own (PREMUL_SUM) makes and destroys one around every call, and would push everything else
// out of the event ring. 256 show where and how the job does it.
inline constexpr uint32_t kReductionEventsMax = 256;

// Communicators one process may create in its life. Entries are not reused, because records refer
// to them by index after the communicator is gone. PyTorch with a communicator per pair of
// pipeline neighbours needs some hundreds.
inline constexpr uint32_t kCommsMax = 2048;

// Threads that may ever call NCCL in one process. The thread table only serves the reader; a
// thread beyond it records with kThreadUnknown.
inline constexpr uint32_t kThreadsMax = 1024;

// Tickets of operations that a thread draws at once where threads contend for them.
inline constexpr uint32_t kTicketBlock = 16;

// Attempts to find a ring slot that is not held by an operation in flight; never more than the ring
// has slots. As many as can be held in a row: those that await the GPU, those that the profiler
// plugin awaits, and a call of each thread. Once in a lap a call walks past them, ten nanoseconds a
// slot. After that many the ring is full, as it can be where it is small, or a group is large that
// the plugin of NCCL up to 2.27 holds: the call is counted as dropped_pinned and not recorded, and
// for the lap that follows a few attempts have to do.
inline constexpr uint32_t kSlotAttemptsMax = 16384;
inline constexpr uint32_t kSlotAttemptsFew = 64;

// Bytes of the text areas.
inline constexpr uint32_t kMetaBytesMax = 64 * 1024;

// Call sites in the job's own language, with their text. A training script issues its operations
// from some dozens of places; what is beyond these or their bytes has no number, and the file says
// so. All of them fit the meta area beside what else is there.
inline constexpr uint32_t kFrameSitesMax = 512;
inline constexpr uint32_t kFrameSitesBytesMax = kMetaBytesMax / 4 * 3;
inline constexpr uint32_t kFrameTextBytes = 512;
inline constexpr uint32_t kFramesNamedMax = 4;
static_assert(kFrameSitesMax < 1u << 16, "the record has 16 bits for it");
// Frames that are looked at; behind them only the launcher's are left.
inline constexpr uint32_t kFrameDepthMax = 64;
inline constexpr uint32_t kEventTextBytes = 136;
inline constexpr uint32_t kCommNameBytes = 40;
inline constexpr uint32_t kHostNameBytes = 64;

// The flusher wakes this often. Small against the 65 ms above, large against its own cost (a wake
// that finds nothing takes a system call to sleep again, and a heartbeat).
inline constexpr uint32_t kFlushPeriodMs = 10;

// Records in one segment block: the unit of loss when a process dies while a block is written, and
// the unit of skipping for a reader.
inline constexpr uint32_t kBlockRecordsMax = 4096;

// One segment file; a reader holds one at a time, the history bound drops whole files.
inline constexpr uint64_t kSegmentBytesMax = 16ull << 20;
// History kept per process unless ROLLCALL_MAX_HISTORY says otherwise.
inline constexpr uint64_t kHistoryBytesDefault = 256ull << 20;

// What a disk keeps for the job, beside which nothing is written: half of it where it is small, as
// a container's /dev/shm, on which NCCL and data loaders live. Of others some ring files beside the
// ring, without which nothing is known, and as much as one process may write beside the rest.
inline constexpr uint64_t kDiskKeptBesideRing = 64ull << 20;
inline constexpr uint64_t kDiskKeptBesideHistory = 256ull << 20;

// Operations the flusher may leave behind because they were in flight when their turn came.
inline constexpr uint32_t kLateOpsMax = 8192;

// Every `kDigestPeriod`-th collective of a communicator a digest of the call sequence so far is
// written, so that readers skip equal prefixes. A quarter of a byte per call; what follows the last
// one is mostly in the ring still, and segments need not be decoded.
inline constexpr uint32_t kDigestPeriod = 128;

// Channels of proxy operations that are summed up: channels x peers x directions x communicators of
// one process. 16 channels to and from 2 ring neighbours on 16 communicators.
inline constexpr uint32_t kChannelsMax = 1024;

// Operations whose kernel phases are on file one by one, the newest at each place; all of them are
// in their communicator's sums. What happened last is what is asked for.
inline constexpr uint32_t kKernelPhaseSlots = 4096;

// Size of a communicator: the largest job the project is built for times a margin. Bounds the
// point-to-point counters and every rank read from a file.
inline constexpr uint32_t kRanksMax = 1u << 20;

// GPU timing. One context per device of a process, and those that come after a device reset, which
// get an entry of their own. A pair of events per operation or group whose end was not seen yet: at
// 200,000 operations/s and a look every 5 ms there are 1,000, and a stream takes about 1,000
// launches before the host has to wait. A context starts with a few, and doubles them as they run
// out.
inline constexpr uint32_t kGpuContextsMax = 32;
inline constexpr uint32_t kGpuPairsFirst = 32;
inline constexpr uint32_t kGpuPairsMax = 2048;
inline constexpr uint32_t kGpuPollPeriodMs = 5;
inline constexpr uint32_t kGpuPollPeriodMsMax = 3'600'000;
// Operations that may be awaited at once. They are pinned in the ring, which has to stay a ring for
// the calls of the host: at most a quarter of the slots.
inline constexpr uint32_t kGpuOpsInFlightMax = 4096;
// Threads that have a group open at one moment, and streams in one group.
inline constexpr uint32_t kGpuGroupsOpenMax = 64;
inline constexpr uint32_t kGpuGroupStreamsMax = 16;
// Calls that NCCL has not launched yet (ncclInProgress), and how long a thread that hears it has
// waits for another one that records the mark behind it.
inline constexpr uint32_t kGpuOpenEndsMax = 64;
inline constexpr uint64_t kGpuEndWaitNs = 1'000'000'000;

// Activity records of CUPTI. Regions: operations and groups whose kernels were not told of yet.
// CUPTI hands a buffer over when everything in it is complete, so they may be as many as a pool of
// events holds; a few are used first, and twice as many each time they run out. Calls: launches
// whose kernel is awaited, two for each region.
inline constexpr uint32_t kGpuRegionsFirst = 32;
inline constexpr uint32_t kGpuRegionsMax = 2048;
inline constexpr uint32_t kGpuCallsMax = 4096;
// Buffers, one in use by each thread that launches and one on its way to be read, and their size:
// 600 launches of 400 bytes of records each, about what a stream takes before the host has to wait.
inline constexpr uint32_t kGpuActivityBuffers = 64;
inline constexpr uint64_t kGpuActivityBufferBytes = 256 * 1024;
// NCCL has some 40 kernels, with names of about 90 bytes.
inline constexpr uint32_t kGpuKernelNamesMax = 64;
inline constexpr uint32_t kGpuKernelNameBytes = 128;
// After that an operation is taken for one without a kernel: when a later one of its stream was
// through already, and when not even a launch was told of.
inline constexpr uint64_t kGpuKernelPatienceNs = 1'000'000'000;
inline constexpr uint64_t kGpuLaunchPatienceNs = 60'000'000'000;

// CUDA graphs with captured operations that exist at one moment: a server that captures each layer
// by itself has 80 for each of 67 batch sizes. Executables: one to three per graph. Lanes: streams
// of one capture that carry operations of NCCL.
inline constexpr uint32_t kGraphsMax = 8192;
inline constexpr uint32_t kGraphExecutablesMax = 32768;
inline constexpr uint32_t kGraphLanesMax = 6;

static_assert((kGraphExecutablesMax & (kGraphExecutablesMax - 1)) == 0, "place = hash & mask");
static_assert(kGraphExecutablesMax >= 2 * kGraphsMax, "probes stay short");
static_assert((kGpuPairsMax & (kGpuPairsMax - 1)) == 0, "pair = number & mask");
static_assert((kGpuRegionsMax & (kGpuRegionsMax - 1)) == 0, "region = number & mask");
static_assert((kGpuRegionsFirst & (kGpuRegionsFirst - 1)) == 0, "region = number & mask");
static_assert((kGpuCallsMax & (kGpuCallsMax - 1)) == 0, "place = number & mask");
static_assert(kGpuCallsMax >= 2 * kGpuRegionsMax, "probes stay short");
static_assert(kFrameSitesBytesMax + kGpuKernelNamesMax * kGpuKernelNameBytes < kMetaBytesMax,
              "both fit the meta area beside what else is there");
static_assert((kGpuPairsFirst & (kGpuPairsFirst - 1)) == 0, "pair = number & mask");
static_assert(kGpuOpsInFlightMax <= kLateOpsMax / 2, "what is awaited does not fill the late list");
static_assert((kRingSlotsDefault & (kRingSlotsDefault - 1)) == 0, "slot = ticket & mask");
static_assert((kEventSlots & (kEventSlots - 1)) == 0, "slot = ticket & mask");
static_assert((kChannelsMax & (kChannelsMax - 1)) == 0, "place = hash & mask");
static_assert((kKernelPhaseSlots & (kKernelPhaseSlots - 1)) == 0, "place = ticket & mask");
static_assert(kRingSlotsDefault >= kRingSlotsMin && kRingSlotsDefault <= kRingSlotsMax);
static_assert(kSlotAttemptsMax > kGpuOpsInFlightMax + kLateOpsMax + kThreadsMax,
              "a search passes all that can be held in a row");
static_assert(kBlockRecordsMax <= kRingSlotsDefault / 4, "a block never covers the whole ring");
static_assert(kSegmentBytesMax <= kHistoryBytesDefault / 4, "the bound drops a part, not all");

}  // namespace rollcall
