// The emulator's variables, one table. Everything the stand-ins read from the environment is here:
// name, field, kind, default and meaning; the parser, the defaults and the documentation derive
// from it.
//
// Variables are read once, when the first stand-in needs one; a value that cannot be read is named
// on stderr and the default used.
#pragma once

#include <cstdint>
#include <string>

// X(kind, field, "VARIABLE", default, "meaning"); kinds: number (unsigned), text.
#define EMU_SETTINGS(X)                                                                         \
  X(number, gpus, "ROLLCALL_EMULATE_GPUS", 8, "GPUs this process sees")                         \
  X(text, gpu_name, "ROLLCALL_EMULATE_GPU_NAME", "H100",                                        \
    "model of every GPU: H100, A100, B200, V100")                                               \
  X(number, gpu_memory_gib, "ROLLCALL_EMULATE_GPU_MEMORY_GIB", 0,                               \
    "memory of one GPU in GiB; 0: what the model has")                                          \
  X(number, gpus_per_node, "ROLLCALL_EMULATE_GPUS_PER_NODE", 8,                                 \
    "ranks on one node of the cost model")                                                      \
  X(text, session, "ROLLCALL_EMULATE_SESSION", "",                                              \
    "names the shared memory of this job; empty: by parent process")                            \
  X(number, latency_ns, "ROLLCALL_EMULATE_LATENCY_NS", 4000, "cost of a message within a node") \
  X(number, bandwidth_gbps, "ROLLCALL_EMULATE_BANDWIDTH_GBPS", 400,                             \
    "gigabytes per second within a node")                                                       \
  X(number, node_latency_ns, "ROLLCALL_EMULATE_NODE_LATENCY_NS", 12000,                         \
    "cost of a message between nodes")                                                          \
  X(number, node_bandwidth_gbps, "ROLLCALL_EMULATE_NODE_BANDWIDTH_GBPS", 50,                    \
    "gigabytes per second between nodes")                                                       \
  X(number, copy_times, "ROLLCALL_EMULATE_COPY_TIMES", 0,                                       \
    "1: copies take the time of the cost model; 0: no longer than the host needs")              \
  X(number, driver_version, "ROLLCALL_EMULATE_DRIVER_VERSION", 13020,                           \
    "CUDA version the driver reports")                                                          \
  X(number, quiet, "ROLLCALL_EMULATE_QUIET", 0, "1: do not name functions that are not emulated")

namespace emu {

struct Settings {
  using number = uint64_t;
  using text = std::string;
#define EMU_FIELD(kind, field, variable, fallback, meaning) kind field = fallback;
  EMU_SETTINGS(EMU_FIELD)
#undef EMU_FIELD
};

// Thread-safe; the same object for the life of the process.
const Settings& settings();

}  // namespace emu
