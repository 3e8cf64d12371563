// Every ROLLCALL_* variable, in one table. The parser (core/base/config.cpp), what configuration
// files may set (core/base/setting_files.h), `rollcall config` and docs/VARIABLES.md derive from
// it.
//
// X(name, type, source, default, meaning)
//   type: path, size (bytes, with suffix k, m, g), count, flag (0/1/on/off/true/false/yes/no, in
//   any case), words (one of a list named in the meaning), text
//   source: anywhere (the environment, or a configuration file), environment (that alone)
#pragma once

#define ROLLCALL_VARIABLES(X)                                                                      \
  X(ROLLCALL_ENABLE, flag, anywhere, "1", "0 turns the injected libraries into pass-through")      \
  X(ROLLCALL_DIR, path, anywhere, "rollcall-runs",                                                 \
    "run directory; one process writes one ring file and its segments there; set by `rollcall "    \
    "run`")                                                                                        \
  X(ROLLCALL_LOCAL_DIR, path, anywhere, "/dev/shm",                                                \
    "where the ring lives while the run directory is on a network file system or FUSE, and is "    \
    "copied from to the run directory; has to be on a disk of this machine or in its memory")      \
  X(ROLLCALL_RING_SLOTS, count, anywhere, "65536",                                                 \
    "operations the ring holds (rounded up to a power of two, 64 to 1048576; 128 bytes each)")     \
  X(ROLLCALL_HISTORY, flag, anywhere, "1",                                                         \
    "0 keeps the ring only: no flusher thread, no segments")                                       \
  X(ROLLCALL_MAX_HISTORY, size, anywhere, "256m",                                                  \
    "bytes of segments kept per process; the oldest go first. Unset, and with the run directory "  \
    "in memory (/dev/shm): 32m, or a sixteenth of what the container may use")                     \
  X(ROLLCALL_GPU_TIMING, words, anywhere, "events",                                                \
    "off; events: CUDA events around every operation tell when the GPU reached it and when it "    \
    "was through; progress: the GPU also writes both into the ring file itself; cupti: CUPTI "     \
    "tells the times and names of the kernels, events where it cannot be had")                     \
  X(ROLLCALL_GPU_POLL_MS, count, anywhere, "5",                                                    \
    "milliseconds between two looks at the events, or two questions to CUPTI (1 to 3600000)")      \
  X(ROLLCALL_CUPTI, path, anywhere, "",                                                            \
    "the libcupti to load, instead of the one that the process has or the system")                 \
  X(ROLLCALL_OVERHEAD_BUDGET, count, anywhere, "1",                                                \
    "per cent of a launching thread's time that GPU timing may take, and as much again the lines " \
    "of the script (1 to 100; 100: no limit); beyond it one operation in 2, 4, ... has them")      \
  X(ROLLCALL_GRAPH_MARKS, flag, anywhere, "1",                                                     \
    "0 puts no marks into CUDA graphs: launches are timed, but not how far a replay has come")     \
  X(ROLLCALL_CHROME_TRACE, flag, anywhere, "0",                                                    \
    "1 lets the flusher also write <stem>.trace.json, a Chrome trace that is valid when cut off")  \
  X(ROLLCALL_PLUGIN_EVENTS, words, anywhere, "default",                                            \
    "what the profiler plugin asks NCCL for: default, proxy, kernelch, all, phases, or a mask "    \
    "(docs/PLUGIN.md)")                                                                            \
  X(ROLLCALL_PLUGIN_CHAIN, path, anywhere, "",                                                     \
    "a second profiler plugin to load behind Rollcall's")                                          \
  X(ROLLCALL_PYTHON_FRAMES, words, anywhere, "auto",                                               \
    "which lines of Python issued an operation (CPython 3.9 to 3.14): auto: within the overhead "  \
    "budget; 1: of every operation; 0: of none")                                                   \
  X(ROLLCALL_VERBOSE, count, anywhere, "1",                                                        \
    "lines on stderr: 0 none, 1 what stops the recorder, 2 also where the files are")              \
  X(ROLLCALL_RUN_ID, text, environment, "",                                                        \
    "set by `rollcall run`: marks the files that belong to one run")                               \
  X(ROLLCALL_CONF_FILE, path, environment, "",                                                     \
    "the configuration file to read instead of the user's, ~/.config/rollcall.conf")
