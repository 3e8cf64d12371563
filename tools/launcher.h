// What an outer launcher (mpirun, srun, torchrun) says about the job that this `rollcall run` is
// one rank of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rollcall::tools {

// The same text for every rank of one job of the launcher, another for another job. Nothing where
// no launcher is known to have started this process.
std::optional<std::string> launcher_job();

// The number of this process among those of `launcher_job()`; nothing where it has none.
std::optional<unsigned> launcher_rank();

// How often the launcher has started the whole job again under its old name (Slurm's requeue).
unsigned launcher_restarts();

// The number of the launcher's attempt, where the recorder gives each a directory of its own
// (core/capture/recorder_life.cpp).
std::optional<uint64_t> launcher_attempt();

// A run id that every process with the same `job` comes to: 16 hexadecimal digits, never all zero.
std::string run_id_of(const std::string& job);

}  // namespace rollcall::tools
