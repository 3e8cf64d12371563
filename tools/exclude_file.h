// The file of `rollcall run --exclude-file`: hosts that the job should not be started on again, a
// name a line, as Slurm reads a host list from a file (`sbatch --exclude=./FILE`) where the names
// of its nodes are those of the hosts. Beside it lies FILE.lock.
//
// Threads: plain functions.
#pragma once

#include <string>
#include <vector>

#include "tools/incident.h"

namespace rollcall::tools {

// The hosts that a verdict may name: of a certain one of class node those of its culprits, of any
// other none. What is no host name is left out.
std::vector<std::string> hosts_to_exclude(const Incident& incident);

// Adds those that are not in the file yet, and makes it where there is none; what else is in it
// stays. `added`: these. False: `error` is a clause that says why not.
bool add_hosts(const std::string& path, const std::vector<std::string>& hosts,
               std::vector<std::string>& added, std::string& error);

}  // namespace rollcall::tools
