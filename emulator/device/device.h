// The emulated GPU's own interface: what the stand-ins for libcudart and libnccl ask of the
// stand-in for libcuda, which owns every stream, event and byte of device memory of the process.
//
//     libcudart.so.*        thin: translates runtime calls into driver calls and emu_* calls
//     libnccl.so.2          puts collectives on streams through emu_stream_enqueue
//     libcuda.so.1          the implementation (emulator/device), driver API + emu_* exports
//
// All three are C ABI between shared objects; a process has one libcuda.so.1, so there is one
// truth. None of this includes or is included by the recorder, the analysis or the tools.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A piece of work in stream order. `poll` is called by the stream's worker, again and again, until
// it returns non-zero: 1 = done, 2 = failed (the context is then in a sticky error state with
// `error`). It must not block; between calls the worker may serve other streams or sleep briefly.
// `release` is called exactly once afterwards, also when the work is dropped because the process
// tears down. Events recorded behind the work complete after it; their time is the moment poll
// returned 1.
typedef struct emu_work {
  int (*poll)(void* argument);
  void (*release)(void* argument);
  void* argument;
  const char* name;      // static string, for diagnostics
  uint64_t duration_ns;  // the cost model's time: the work is not done before start + duration
  int error;             // CUresult to stick on failure
  const char* kernel;    // symbol of the kernel that this is, static; NULL: no kernel
} emu_work;

// Appends work to a stream (a CUstream / cudaStream_t value, 0/1/2 included) of the calling
// thread's current device. If the stream is capturing, the work becomes a graph node and runs at
// each replay: then `clone` is called to make an argument per replay (NULL: the same argument is
// passed each time). Returns a CUresult.
int emu_stream_enqueue(void* stream, const emu_work* work, void* (*clone)(void* argument));

// Who watches what is launched, and when it ran: the stand-in for libcupti. Both are called under
// the engine's lock and must not come back to this library.
typedef struct emu_launch {
  const char* kernel;  // NULL: a graph, watched as a whole
  int device;
  uint64_t stream;  // its number, unique in the process
} emu_launch;
typedef struct emu_watcher {
  // On the launching thread; what it returns, if not NULL, is given to `ended` when that is over.
  void* (*launched)(const emu_launch* launch);
  // On any thread, in CLOCK_MONOTONIC. Not called for work that was dropped unfinished.
  void (*ended)(void* token, uint64_t start_ns, uint64_t end_ns);
} emu_watcher;
// One in a process; NULL: nobody any more. What is pointed to stays.
void emu_watch(const emu_watcher* watcher);

// Current device ordinal of the calling thread (0 when none was set).
int emu_current_device(void);
// 1 if the stream is capturing; *graph_id gets a number that identifies the capture.
int emu_stream_capturing(void* stream, uint64_t* graph_id);
// Bytes [address, address+bytes) as host memory to read or write, 1 if they lie in device memory or
// host memory known to the emulator (pinned/registered/managed) or are plain host memory; device
// memory is host-addressable: same address.
int emu_memory_is_device(const void* address);
// 1 when no page of [address, address+bytes) was ever touched (reads as zero and costs no memory).
int emu_memory_is_untouched(const void* address, size_t bytes);
// Makes [address, address+bytes) read as zero, giving whole pages back.
void emu_memory_drop(void* address, size_t bytes);

// Looks at every unfinished emu_work of this process now instead of when its poll interval is over
// (the interval is an eighth of the time already waited, from 20 us to 20 ms). Call it when
// something they wait for has come true.
void emu_wake(void);

// Settings shared by the stand-ins, read once from the environment (table in
// emulator/device/settings.h).
int emu_gpu_count(void);      // --emulate=N
int emu_gpus_per_node(void);  // node layout of the cost model
const char* emu_session(
    void);  // names the shared memory of this job: ROLLCALL_EMULATE_SESSION, else by parent process
// 1 when the user asked not to be told which functions are not emulated.
int emu_quiet(void);

// A stand-in was asked for what it does not do: names `function` (a literal) on stderr with what it
// answers, once in a process, and tells the listener. Any thread.
void emu_not_emulated(const char* function, const char* answer);
// A kernel was launched, which does nothing here: tells the listener "kernels", once in a process,
// and nobody else, for every program of the emulated GPU launches some. Any thread.
void emu_kernel_skipped(void);
// For recorders, which find it by name and include none of this: `told` gets the name of each such
// function, at once of those so far, later from whichever thread called one; of one perhaps twice.
// One listener per process, NULL for none.
void rollcall_emulated_listen(void (*told)(const char* function));

// The cost model: latency + bytes / bandwidth, within a node or between nodes.
uint64_t emu_transfer_ns(size_t bytes, int between_nodes);

#ifdef __cplusplus
}
#endif
