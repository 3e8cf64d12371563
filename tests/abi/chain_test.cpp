// A second plugin behind ours hears exactly what it would hear alone, and ours what it would.
#include <dlfcn.h>

#include <fstream>

#include "tests/abi/recorded.h"
#include "tests/file_bytes.h"

namespace rollcall {
namespace chain_test {

using mini::Comm;
using mini::Nccl;
using test::ended_well;
using test::in_own_process;
using test::TemporaryDirectory;

void* counting_plugin() { return dlopen(ROLLCALL_COUNTING_PLUGIN, RTLD_NOW | RTLD_LOCAL); }

void write_log(const std::string& path) {
  const auto log =
      reinterpret_cast<const char* (*)()>(dlsym(counting_plugin(), "counting_plugin_log"));
  std::ofstream(path) << log();
}

// PXN: context and parent are the other process's. They may look like this one's own, as where both
// run the same plugin, or like nothing it knows.
template <unsigned kVersion>
void serve_another_process(Nccl<kVersion>& nccl, const Comm& alike, void* parent_alike) {
  const Comm unknown{.context = reinterpret_cast<void*>(uintptr_t{0x7fff12345678})};
  void* unknown_parent = reinterpret_cast<void*>(uintptr_t{0x7fff87654321});
  for (const bool looks_own : {true, false}) {
    const Comm& comm = looks_own ? alike : unknown;
    void* op = nccl.start_proxy_op(comm, looks_own ? parent_alike : unknown_parent, 0, 1, true,
                                   getpid() + 1);
    void* step = nullptr;
    if (op != nullptr && nccl.wants(profiler::kProxyStep)) {
      step = nccl.start_proxy_step(comm, op, 0);
    }
    if (step != nullptr) nccl.record(step, profiler::kProxyStepSendWait, 10);
    nccl.stop(step);
    nccl.stop(op);
  }
}

// Two communicators, a bare call, a group, kernels and proxy operations.
template <unsigned kVersion>
void scenario(Nccl<kVersion>& nccl) {
  const Comm first = nccl.init(11, 0, 2);
  const Comm second = nccl.init(12, 1, 2);
  const mini::Task task = nccl.call(first, {.func = "Broadcast", .peer = 1, .user_tag = 9});
  nccl.group(second, {{}, {.func = "Send", .peer = 0}, {.count = 3}});
  if (kVersion >= 3 && nccl.wants(profiler::kKernelCh)) {
    void* kernel = nccl.start_kernel(first, task.handle, 0, 77);
    if (kVersion >= 4) nccl.record(kernel, profiler::kKernelChStop, 88);
    nccl.stop(kernel);
  }
  if (nccl.wants(profiler::kProxyOp)) {
    void* op = nccl.start_proxy_op(first, task.handle, 0, 1, true);
    void* step = nccl.wants(profiler::kProxyStep) ? nccl.start_proxy_step(first, op, 0) : nullptr;
    if (step != nullptr) nccl.record(step, profiler::kProxyStepSendWait, 10);
    nccl.stop(step);
    nccl.stop(op);
    serve_another_process(nccl, first, task.handle);
  }
  nccl.finalize(second);
  nccl.finalize(first);
}

template <unsigned kVersion>
void check_chain(const char* mask) {
  INFO("version " << kVersion << ", mask " << mask);
  const TemporaryDirectory alone, chained;
  setenv("COUNTING_PLUGIN_MASK", mask, 1);
  REQUIRE(ended_well(in_own_process(alone.path(), [&] {
    Nccl<kVersion> nccl;
    char symbol[] = "ncclProfiler_v0";
    symbol[14] = static_cast<char>('0' + kVersion);
    nccl.plugin = static_cast<decltype(nccl.plugin)>(dlsym(counting_plugin(), symbol));
    scenario(nccl);
    write_log(alone.path() + "/log");
  })));
  REQUIRE(ended_well(in_own_process(chained.path(), [&] {
    setenv("ROLLCALL_PLUGIN_CHAIN", ROLLCALL_COUNTING_PLUGIN, 1);
    Nccl<kVersion> nccl;
    scenario(nccl);
    write_log(chained.path() + "/log");
  })));
  const std::string expected = test::file_bytes(alone.path() + "/log");
  CHECK(expected.find("init") != std::string::npos);
  CHECK(test::file_bytes(chained.path() + "/log") == expected);
  const auto ring = test::read_ring(chained.files(".ring")[0]);
  CHECK(ring.ops.size() == (kVersion >= 5 ? 5 : 4));
  CHECK(ring.in_flight == 0);
  CHECK(ring.stats.plugin_stale == 0);
  // What the other process has done is in nobody's sums here.
  const bool has_proxies = profiler::is_emitted(
      profiler::kProxyOp, static_cast<uint32_t>(strtoul(mask, nullptr, 0)), kVersion);
  CHECK((expected.find("step of foreign") != std::string::npos) == has_proxies);
  CHECK(ring.stats.plugin_foreign == 0);  // nor did this plugin ask for proxy operations
}

// The thread sanitizer makes each of these processes take seconds, and sees the same threads in
// all.
#if defined(__SANITIZE_THREAD__)
constexpr const char* kMasks[] = {"0xffff"};
constexpr const char* kMasksOfVersion7[] = {"0x18"};
#else
constexpr const char* kMasks[] = {"0", "0x2", "0x4", "0x7", "0x18", "0xffff"};
constexpr const char* kMasksOfVersion7[] = {"0x40", "0x200", "0x800"};
#endif

template <unsigned kVersion>
void check_masks() {
  for (const char* mask : kMasks) check_chain<kVersion>(mask);
}

TEST_CASE("a chained plugin of NCCL's version hears what it would hear alone") {
  check_masks<1>();
  check_masks<2>();
  check_masks<3>();
  check_masks<4>();
  check_masks<5>();
  check_masks<6>();
  check_masks<7>();
  for (const char* mask : kMasksOfVersion7) check_chain<7>(mask);
}

TEST_CASE("operations of another process are counted where this plugin asks for them, too") {
  const auto ring = test::record_and_read([] {
    setenv("ROLLCALL_PLUGIN_CHAIN", ROLLCALL_COUNTING_PLUGIN, 1);
    setenv("COUNTING_PLUGIN_MASK", "0x18", 1);
    setenv("ROLLCALL_PLUGIN_EVENTS", "proxy", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    serve_another_process(nccl, comm, nccl.call(comm, {}).handle);
    nccl.stop(nccl.start_proxy_op(comm, nullptr, 0, 1, true));
  });
  CHECK(ring.stats.plugin_foreign == 2);
  CHECK(ring.stats.plugin_stale == 0);
}

TEST_CASE("the mask is what both ask for, also when the chained one changes its mind") {
  const TemporaryDirectory directory;
  setenv("COUNTING_PLUGIN_MASK", "0x40", 1);
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_PLUGIN_CHAIN", ROLLCALL_COUNTING_PLUGIN, 1);
    setenv("ROLLCALL_PLUGIN_EVENTS", "0x3", 1);
    Nccl<6> nccl;
    nccl.init(1, 0, 2);
    CHILD_REQUIRE(nccl.mask == 0x43);
  })));
}

TEST_CASE("a chained plugin that cannot be loaded costs a line and nothing else") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_PLUGIN_CHAIN", "/nowhere/libnccl-profiler-none.so", 1);
    Nccl<6> nccl;
    nccl.call(nccl.init(1, 0, 2), {});
  })));
  CHECK(test::read_ring(directory.files(".ring")[0]).ops.size() == 1);
}

}  // namespace chain_test
}  // namespace rollcall
