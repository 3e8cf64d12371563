// Where the injected libraries are: beside the command, in a build tree or an installation.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rollcall::tools {

// The recorder. ROLLCALL_LIB_DIR overrides the search. nullopt: `error` names the places searched.
std::optional<std::string> find_recorder(std::string& error);
// What brings the processes of mpirun together (tools/team.h); absent where it was built without
// MPI.
std::optional<std::string> find_mpi_library(std::string& error);
// The emulator's stand-ins, in preload order.
std::optional<std::vector<std::string>> find_emulator(std::string& error);
// The stand-in for libcupti, which is not preloaded: whoever wants it loads it. Built where CUPTI's
// header is found.
std::optional<std::string> find_emulated_cupti();
// LD_PRELOAD's value: what was there, then `libraries`. nullopt: a path holds a colon or a space,
// which the dynamic linker would take for a separator.
std::optional<std::string> preload_value(const char* existing,
                                         const std::vector<std::string>& libraries,
                                         std::string& error);

}  // namespace rollcall::tools
