#include "tools/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/text.h"

namespace rollcall::tools {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

// The folder that one torchrun makes for one attempt, ".../none_k3j9x/attempt_0": no other start
// has the same. Each host has one of its own, so it tells a job on one host alone.
std::optional<std::string> torchrun_attempt() {
  const char* local_size = variable("LOCAL_WORLD_SIZE");
  const char* size = variable("WORLD_SIZE");
  const char* file = variable("TORCHELASTIC_ERROR_FILE");
  if (local_size == nullptr || size == nullptr || file == nullptr) return std::nullopt;
  const std::string_view path(file);
  const size_t attempt = path.rfind("/attempt_");
  if (std::strcmp(local_size, size) != 0 || attempt == path.npos) return std::nullopt;
  return std::string(path.substr(0, path.find('/', attempt + 1)));
}

// Of a rank that torchrun has started. Each attempt is a run of its own.
std::optional<std::string> torchrun_job() {
  const char* name = variable("TORCHELASTIC_RUN_ID");
  if (name == nullptr || variable("RANK") == nullptr) return std::nullopt;
  if (const auto attempt = torchrun_attempt()) return "torchrun " + *attempt;
  const char* restarts = variable("TORCHELASTIC_RESTART_COUNT");
  const char* count = restarts == nullptr ? "0" : restarts;
  // Its own word for a job that was given no name, which then is where its ranks meet.
  if (std::strcmp(name, "none") != 0) return fmt::format("torchrun {} attempt {}", name, count);
  const char* address = variable("MASTER_ADDR");
  const char* port = variable("MASTER_PORT");
  if (address == nullptr || port == nullptr) return std::nullopt;
  return fmt::format("torchrun {} {} attempt {}", address, port, count);
}

}  // namespace

std::optional<std::string> launcher_job() {
  // The innermost one first: Slurm may have started torchrun.
  if (std::optional<std::string> job = torchrun_job()) return job;
  // A rank's variable first: a batch script has the job's variables too, and may start many jobs.
  if (variable("PMIX_RANK") || variable("OMPI_COMM_WORLD_RANK")) {
    if (const char* name = variable("PMIX_NAMESPACE")) return std::string("pmix ") + name;
    if (const char* name = variable("OMPI_MCA_ess_base_jobid")) return std::string("ompi ") + name;
  }
  if (variable("SLURM_PROCID") && variable("SLURM_JOB_ID") && variable("SLURM_STEP_ID")) {
    return fmt::format("slurm {}.{}", variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID"));
  }
  if (variable("PMI_RANK")) {
    if (const char* name = variable("PMI_JOBID")) return std::string("pmi ") + name;
  }
  return std::nullopt;
}

std::optional<unsigned> launcher_rank() {
  const char* of_torchrun = torchrun_job() ? "RANK" : "";
  for (const char* name :
       {of_torchrun, "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"}) {
    const char* text = variable(name);
    uint64_t number = 0;
    if (text != nullptr && parse_decimal(text, number) && number <= UINT32_MAX) {
      return static_cast<unsigned>(number);
    }
  }
  return std::nullopt;
}

unsigned launcher_restarts() {
  const char* text = variable("SLURM_RESTART_COUNT");
  uint64_t number = 0;
  if (text == nullptr || !parse_decimal(text, number)) return 0;
  return static_cast<unsigned>(std::min<uint64_t>(number, UINT32_MAX));
}

std::optional<uint64_t> launcher_attempt() {
  const char* most = variable("TORCHELASTIC_MAX_RESTARTS");
  const char* attempt = variable("TORCHELASTIC_RESTART_COUNT");
  uint64_t restarts_max = 0;
  uint64_t number = 0;
  if (!most || !parse_decimal(most, restarts_max) || restarts_max == 0) return std::nullopt;
  if (!attempt || !parse_decimal(attempt, number)) return std::nullopt;
  return number;
}

std::string run_id_of(const std::string& job) {
  // FNV-1a; the top bit stays clear, the id is a positive number in the files.
  uint64_t hash = 14695981039346656037ull;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  hash &= 0x7fffffffffffffff;
  return fmt::format("{:016x}", hash == 0 ? 1 : hash);
}

}  // namespace rollcall::tools
