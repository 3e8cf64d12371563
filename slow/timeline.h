// A run as the stage `slow` sees it: per GPU the units of work that NCCL did, in the order of the
// calls, and the meetings in which units of several GPUs wait for each other.
//
// A unit is what has one pair of GPU times: an operation, or all operations of a group. It has
// arrived when its stream had come to it and NCCL had launched it, whichever was later.
//
//   own time        from the end of what the unit depended on to its arrival: nobody else's doing
//   wait            from its arrival to that of the last one it waits for
//   transfer        from there to its end
//
// All times of a unit are of one GPU's clock and are only ever subtracted from times of that GPU;
// nothing here compares clocks of two processes. How long a rank waited follows from durations: the
// shortest one of a meeting is that of the last to come, which did not wait.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/model.h"

namespace rollcall::slow {

inline constexpr uint32_t kNone = 0xffffffff;

struct Unit {
  int64_t arrived_ns = 0;
  int64_t finished_ns = 0;  // 0: this unit was not timed
  int32_t lead_ns = 0;      // from the call to the arrival: small where the GPU waits for its host
  int32_t doubt_ns = 0;     // it may have arrived by so much earlier
  int32_t call_ns = 0;      // that its calls took the host
  uint32_t gpu = kNone;
  uint32_t op = kNone;    // the first of its operations: index into Process::ops
  uint32_t symbol = 0;    // equal for units that look alike, also on other GPUs
  uint32_t sizeless = 0;  // the same, whatever their sizes are
  uint32_t step = kNone;  // kNone: in no regular step
  uint32_t slot = kNone;  // its place in the period of its role
  uint16_t stream = 0;    // number of its stream on the GPU
  uint16_t operations = 0;

  bool is_timed() const { return finished_ns != 0; }
  int64_t duration_ns() const { return finished_ns - arrived_ns; }
};

struct Gpu {
  uint32_t process = kNone;  // index into Run::processes
  int32_t rank = -1;         // of the job
  uint32_t begin = 0;        // its units: [begin, end) of Timeline::units
  uint32_t end = 0;
  uint32_t role = kNone;  // GPUs of one role call the same in every step
};

// How the units of a meeting wait for each other.
enum class MeetingKind : uint8_t {
  all,        // each for all
  from_root,  // each for the first one
  to_root,    // the first one for all
  pair        // the second one, which receives, for the first one
};

struct Meeting {
  MeetingKind kind = MeetingKind::all;
  bool is_whole = true;   // every rank that takes part has a timed unit in it
  uint32_t comm = kNone;  // index into Timeline::comms
  uint32_t begin = 0;     // its units: [begin, end) of Timeline::seats
  uint32_t end = 0;
  int64_t transfer_ns = 0;  // the shortest duration of its units
};

struct TimedComm {
  std::string name;
  int32_t nranks = -1;
  CommKey key{};
};

struct Timeline {
  std::vector<Gpu> gpus;
  std::vector<Unit> units;  // GPU by GPU, each in the order of its calls
  std::vector<Meeting> meetings;
  std::vector<uint32_t> seats;  // units, meeting by meeting
  std::vector<TimedComm> comms;
  // The meetings of a unit: [first_meeting[u], first_meeting[u + 1]) of meetings_of_units.
  std::vector<uint32_t> first_meeting;
  std::vector<uint32_t> meetings_of_units;
  uint64_t untimed = 0;     // units without GPU times
  uint64_t replays = 0;     // launches of graphs, which stand for several operations
  bool is_foreign = false;  // no recorder of ours was there, but another tool
  // Of one communicator the most ranks that left no file: of several there may be more in all.
  uint32_t unrecorded = 0;
  // Those that left no file included; 0: not known. Where ranks left none, or the launcher tells of
  // more than are here, it is the number that the launcher told each process, and which a
  // communicator has, too: a launcher may start as many processes as a host has, or hosts.
  uint32_t job_gpus = 0;

  std::span<const uint32_t> units_of(const Meeting& meeting) const {
    return std::span(seats).subspan(meeting.begin, meeting.end - meeting.begin);
  }
  std::span<const uint32_t> meetings_of(uint32_t unit) const {
    return std::span(meetings_of_units)
        .subspan(first_meeting[unit], first_meeting[unit + 1] - first_meeting[unit]);
  }
};

// The run must hold a process for each GPU (analysis/views/by_gpu.h). Linear in its records.
Timeline make_timeline(const trace::Run& run);

}  // namespace rollcall::slow
