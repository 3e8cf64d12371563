// The other processes of `mpirun -np N rollcall ...`, to read a run with.
//
// MPI is in a library of its own beside the command, which is opened only under mpirun: the command
// itself neither links nor needs one.
#pragma once

#include <memory>
#include <string>

#include "trace/team.h"

namespace rollcall::tools {

// What the library exports, under the name kJoinTeamName: joins the team, or ends the job.
inline constexpr const char* kJoinTeamName = "rollcall_join_team";
using JoinTeam = trace::Team* (*)();

struct Membership {
  // Null: alone, or a launcher started several of us and no library can bring them together.
  std::unique_ptr<trace::Team> team;
  // False: another process does the work and writes the answer; this one has no more to do than its
  // share of the reading.
  bool is_speaker = true;
  // Started by mpirun, whose terminal is not the user's.
  bool is_launched = false;
  std::string complaint;  // why there is no team although there should be one; of the speaker
};

// By the launcher's environment variables.
Membership join_team();

}  // namespace rollcall::tools
