// Verdicts about a running job, kept in its run directory: incidents/<time>-<code>/ with
//   verdict.txt     the text, with the calls around the difference
//   incident.json   the same for programs (report/incident.h)
//   stacks.txt      where the threads of all ranks stood (report/stacks.h)
//   stacks.json     the same for programs
//   changes.txt     what became of it, a line each with its time; added to, never rewritten
// Each file is whole as soon as it is there; what is killed in between leaves the earlier ones.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/finding.h"
#include "report/page/kept_stacks.h"
#include "report/stacks.h"
#include "trace/model.h"

namespace rollcall::tools {

inline constexpr const char* kIncidentFile = "incident.json";
// How `rollcall diff --incident` ends: the folder stands behind it, on the last line.
inline constexpr const char* kSavedIn = "Saved in ";

// The new folder. nullopt: `error` says why there is none, or what is missing in it.
std::optional<std::string> save_incident(const std::string& directory, const trace::Run& run,
                                         const analysis::Report& report, std::string& error);

// Adds stacks.txt and stacks.json. False: `error` says why not.
bool add_stacks_to(const std::string& folder, const report::MergedStacks& stacks,
                   std::string& error);

// Adds a line to changes.txt. False: it could not be written.
bool add_change(const std::string& folder, const std::string& sentence);
// How the lines begin that tell what became of a hang: it has lasted for as long as the user set,
// or the job goes on.
inline constexpr const char* kItStands = "nothing has changed for ";
inline constexpr const char* kItGoesOn = "the job calls NCCL again, after ";

// What incident.json says, for whoever acts on it.
struct Incident {
  std::string folder;
  std::string code;
  std::string origin;  // the class, by its name
  bool is_certain = false;
  std::string summary;
  std::vector<std::string> hosts;  // of the culprits, sorted, each once
  int64_t written_ns = 0;          // since the epoch, as the file system says
};
// nullopt: the file is not there, or is none of ours. What it quotes is printable.
std::optional<Incident> read_incident(const std::string& folder);
// The newest incident of a run directory, where it has lasted for as long as the user set and the
// job has not gone on since.
std::optional<Incident> standing_incident(const std::string& directory);

// Of a run, the stacks of its newest incident that has some, and a line for each verdict that was
// kept. They lie where its ranks record: in an attempt of a launcher, that of an older attempt is
// not looked at.
report::Kept kept_of_run(const std::string& directory, const trace::Run& run);
// The same of one incident: what it says, and what became of it.
report::Kept kept_of_incident(const std::string& folder);
// The run directory of an incident, where the path is the folder of one.
std::optional<std::string> run_of_incident(const std::string& path);

// Of a run directory, a line for each incident, the oldest first: its folder, and its last change.
std::vector<std::string> list_incidents(const std::string& directory);

}  // namespace rollcall::tools
