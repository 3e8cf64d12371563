#include "tools/team.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tools/libraries.h"

namespace rollcall::tools {
namespace {

// What a launcher tells its processes: Open MPI's, and the one of the PMI launchers (MPICH, Intel).
struct LauncherVariables {
  const char* size;
  const char* rank;
};
constexpr LauncherVariables kLaunchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                            {"PMI_SIZE", "PMI_RANK"}};

std::optional<uint32_t> number_in(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  uint32_t number = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, number);
  return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

std::unique_ptr<trace::Team> open_library(std::string& error) {
  const std::optional<std::string> path = find_mpi_library(error);
  if (!path) return nullptr;
  // Open MPI's own modules look for its symbols among those of the whole process. Never closed: the
  // team's code lies in it.
  void* library = ::dlopen(path->c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* join = library == nullptr ? nullptr : ::dlsym(library, kJoinTeamName);
  if (join == nullptr) {
    const char* reason = ::dlerror();
    error = fmt::format("{} cannot be used: {}.", *path, reason == nullptr ? "" : reason);
    return nullptr;
  }
  return std::unique_ptr<trace::Team>(reinterpret_cast<JoinTeam>(join)());
}

}  // namespace

Membership join_team() {
  Membership membership;
  for (const LauncherVariables& launcher : kLaunchers) {
    const std::optional<uint32_t> size = number_in(launcher.size);
    const std::optional<uint32_t> rank = number_in(launcher.rank);
    if (!size || !rank || *size < 2) continue;
    membership.team = open_library(membership.complaint);
    membership.is_speaker = *rank == 0;
    membership.is_launched = true;
    if (membership.team && membership.team->size() != *size) {
      membership.complaint = fmt::format(
          "the launcher started {} processes, of which the MPI library of rollcall sees {}: it was "
          "built for another MPI.",
          *size, membership.team->size());
      membership.team.reset();
    }
    return membership;
  }
  return membership;
}

}  // namespace rollcall::tools
