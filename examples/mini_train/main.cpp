// mini_train: see docs/EXAMPLES.md, or --help.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <exception>
#include <string>

#include "call_log.h"
#include "checks.h"
#include "groups.h"
#include "options.h"
#include "trainer.h"

namespace mini_train {
namespace {

enum Status { kTrained = 0, kWrongResult = 1, kUsage = 2, kGpuError = 4, kHang = 6 };

void list_faults() {
  for (const FaultTraits& traits : fault_table()) {
    std::printf("%s\t%s\t%s\n", std::string(traits.name).c_str(),
                std::string(traits.verdict).c_str(), std::string(traits.description).c_str());
  }
}

// Says what went wrong and lets the other ranks go: a rank that merely left would leave them
// hanging.
Status give_up(const Launch& launch, Trainer* trainer, Groups* groups, const std::exception& error,
               Status status) {
  std::fprintf(stderr, "mini_train: rank %d: %s\n", launch.rank, error.what());
  trainer->release_graph();
  for (Communicator* comm : groups->all()) comm->abort();
  return status;
}

Status train(const Options& options, const Launch& launch, CallLog* log) {
  Groups groups(options, launch, log);
  Trainer trainer(options, launch, &groups, log);
  try {
    for (int step = 0; step < options.steps; ++step) trainer.step(step);
    trainer.end();
    for (Communicator* comm : groups.all()) comm->destroy();
  } catch (const WrongResult& error) {
    return give_up(launch, &trainer, &groups, error, kWrongResult);
  } catch (const Hang& error) {
    return give_up(launch, &trainer, &groups, error, kHang);
  } catch (const GpuError& error) {
    return give_up(launch, &trainer, &groups, error, kGpuError);
  }
  std::printf("rank %d done\n", launch.rank);
  return kTrained;
}

Status run(const Options& options, const Launch& launch) {
  CallLog log;
  if (!options.log_prefix.empty()) log.open(options.log_prefix, launch.rank);
  log.start(launch.rank, launch.world_size);
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (devices == 0) throw GpuError("there is no GPU; try rollcall run --emulate");
  check(cudaSetDevice(launch.local_rank % devices), "cudaSetDevice");
  const Status status = train(options, launch, &log);
  log.end(status);
  return status;
}

}  // namespace
}  // namespace mini_train

int main(int argc, char** argv) {
  using namespace mini_train;
  try {
    Options options = parse_options(argc, argv);
    if (options.help) {
      std::fputs(usage().c_str(), stdout);
      return kTrained;
    }
    if (options.list_faults) {
      list_faults();
      return kTrained;
    }
    const Launch launch = examples::launch_from_environment();
    complete(&options, launch);
    return run(options, launch);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "mini_train: %s\n", error.what());
    return kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mini_train: %s\n", error.what());
    return kGpuError;
  }
}
