#include "tools/run_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "core/base/config.h"
#include "core/base/setting_files.h"
#include "core/base/text.h"
#include "tools/elf_file.h"
#include "tools/launcher.h"
#include "tools/libraries.h"
#include "tools/new_run_directory.h"
#include "tools/ring_files.h"
#include "tools/survivors.h"

namespace rollcall::tools {
namespace {

constexpr unsigned kEmulatedGpusDefault = 8;
// A job is not kept longer from its start by the file server of its run directory.
constexpr int64_t kDirectoryNs = 10'000'000'000;

uint64_t random_id() {
  std::random_device device;
  // Positive as a signed number too, and never 0, which means "no run".
  return ((uint64_t{device()} << 31) ^ device()) % 0x7fffffffffffffff + 1;
}

bool plan_emulator(const RunArguments& arguments, Plan& plan, std::vector<std::string>& libraries,
                   std::string& error) {
  uint64_t gpus = std::max(arguments.ranks, kEmulatedGpusDefault);
  if (!arguments.emulate.empty() &&
      (!parse_decimal(arguments.emulate, gpus) || gpus == 0 || gpus > kEmulatedGpusMax)) {
    error = fmt::format("--emulate={} is not a number of GPUs from 1 to {}.", arguments.emulate,
                        kEmulatedGpusMax);
    return false;
  }
  gpus = std::min<uint64_t>(gpus, kEmulatedGpusMax);
  const auto emulator = find_emulator(error);
  if (!emulator) return false;
  libraries = *emulator;
  plan.settings.emplace_back("ROLLCALL_EMULATE_GPUS", fmt::format("{}", gpus));
  plan.settings.emplace_back("ROLLCALL_EMULATE_SESSION", "r" + plan.run_id);
  // A real libcupti, which PyTorch has always loaded, knows nothing of emulated GPUs.
  const auto cupti = find_emulated_cupti();
  const Config config = read_config([](std::string_view) {});
  if (cupti && config.gpu_timing == GpuTiming::cupti && config.cupti == nullptr) {
    plan.settings.emplace_back("ROLLCALL_CUPTI", *cupti);
  }
  // cuDNN holds NVIDIA's runtime statically and finds no GPU here; PyTorch has other kernels for
  // attention.
  if (std::getenv("TORCH_CUDNN_SDPA_DEPRIORITIZED") == nullptr) {
    plan.settings.emplace_back("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1");
  }
  if (arguments.nodes > 1) {
    const uint64_t per_node = (gpus + arguments.nodes - 1) / arguments.nodes;
    plan.settings.emplace_back("ROLLCALL_EMULATE_GPUS_PER_NODE", fmt::format("{}", per_node));
  }
  return true;
}

// The id that this command shares with others: the user's, where the hosts of a job are started one
// by one, or the one that all ranks of a launcher's job come to. Within the job of another
// `rollcall run` the variable holds that one's, which is another job's.
std::optional<std::string> shared_run_id() {
  const std::string given = environment_or("ROLLCALL_RUN_ID", "");
  const bool is_nested = !environment_or(kTokenVariable, "").empty();
  if (!given.empty() && !is_nested) return given;
  const std::optional<std::string> outer_job = launcher_job();
  if (outer_job) return run_id_of(*outer_job);
  return std::nullopt;
}

// Where the job's files go. False: nothing can be recorded, and `obstacle` says why.
bool prepare_record(const RunArguments& arguments, const std::string& program,
                    const std::optional<std::string>& shared_id, Plan& plan) {
  plan.obstacle = preload_harm(program);
  if (!plan.obstacle.empty()) return false;
  const Make make = [&](std::string& error) {
    return shared_id ? make_shared_run_directory(arguments.directory, *shared_id,
                                                 launcher_restarts(), error)
                     : make_run_directory(arguments.directory, program, error);
  };
  const std::string place = arguments.directory.empty() ? runs_directory() : arguments.directory;
  const auto directory = make_in_time(make, place, kDirectoryNs, plan.obstacle);
  if (!directory) return false;
  plan.directory = directory->path;
  plan.settings.emplace_back("ROLLCALL_DIR", plan.directory);
  plan.settings.emplace_back("ROLLCALL_RUN_ID", plan.run_id);
  return true;
}

}  // namespace

std::string environment_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

bool prepare_run(const RunArguments& arguments, const std::string& program, Plan& plan,
                 std::string& error) {
  const auto recorder = find_recorder(plan.obstacle);
  // Ranks of our own are a whole job.
  const auto shared_id = arguments.ranks == 0 ? shared_run_id() : std::nullopt;
  plan.is_shared = shared_id.has_value();
  plan.run_id = shared_id ? *shared_id : fmt::format("{:016x}", random_id());
  // A job that is started again keeps its name, and is another run all the same.
  if (shared_id && launcher_restarts() > 0) {
    plan.run_id = run_id_of(fmt::format("{} restart {}", *shared_id, launcher_restarts()));
  }
  const char* existing = std::getenv("LD_PRELOAD");
  std::vector<std::string> libraries;
  if (arguments.emulate_given && !plan_emulator(arguments, plan, libraries, error)) return false;
  if (!preload_value(existing, libraries, error)) return false;
  // Last, so that nothing is made for a run that cannot start.
  if (recorder && preload_value(existing, {*recorder}, plan.obstacle) &&
      prepare_record(arguments, program, shared_id, plan)) {
    // In front of the emulator: its ncclAllReduce must be the one that the job finds first.
    libraries.insert(libraries.begin(), *recorder);
  }
  if (libraries.empty() || !preload_harm(program).empty()) return true;
  plan.settings.emplace_back("LD_PRELOAD", *preload_value(existing, libraries, error));
  return true;
}

std::string own_directory(const Plan& plan) {
  const std::optional<uint64_t> attempt = launcher_attempt();
  if (plan.directory.empty() || !plan.is_shared || !attempt) return plan.directory;
  return fmt::format("{}/attempt-{}", plan.directory, *attempt);
}

std::string why_nothing_recorded(const Plan& plan, const std::string& program) {
  if (::access(plan.directory.c_str(), F_OK) != 0) {
    return fmt::format(
        "the run directory {} is gone, and what was recorded with it; something has removed or "
        "renamed it.",
        plan.directory);
  }
  const std::string directory = own_directory(plan);
  const bool is_alone = !plan.is_shared || list_rings(directory).empty();
  const std::string nothing =
      fmt::format("nothing was recorded in {}{}", directory, is_alone ? "" : " by this run");
  // As the injected libraries read it.
  if (!read_config([](std::string_view) {}).enable) {
    return fmt::format("{}: ROLLCALL_ENABLE={} switches recording off.", nothing,
                       setting("ROLLCALL_ENABLE"));
  }
  if (::access(plan.directory.c_str(), W_OK) != 0) {
    return fmt::format("{}: it cannot be written to ({}).", nothing, std::strerror(errno));
  }
  const std::string obstacle = preload_obstacle(program);
  if (!obstacle.empty()) return fmt::format("{}, probably because {}.", nothing, obstacle);
  return nothing +
         "; most likely no process called NCCL through a shared library. `rollcall doctor -- "
         "COMMAND` looks for what is in the way.";
}

}  // namespace rollcall::tools
