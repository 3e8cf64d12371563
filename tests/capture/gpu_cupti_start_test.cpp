// The recorder and a whole CUPTI, the emulator's: whose it is in the end.
#include <cupti.h>
#include <dlfcn.h>

#include "core/capture/live.h"
#include "tests/capture/fake_gpu.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace gpu_cupti_start_test {

using test::all_reduce;
using test::FakeGpu;
using test::RingContents;
using test::TemporaryDirectory;

char comm;

// The status of a process that recorded three calls beside CUPTI, with or without a thread for the
// recorder to ask it with. Its exit status: whether CUPTI took another client afterwards.
enum Exit { kTakesAnother = 10, kRefusesAnother = 11, kSkipped = 77 };

int record_beside_cupti(const TemporaryDirectory& directory, bool with_thread) {
  return test::in_own_process(directory.path(), [&] {
    setenv("ROLLCALL_GPU_TIMING", "cupti", 1);
    FakeGpu::reset();
    capture::set_gpu_symbols(test::find_in_fake_driver);
    const gpu::Stream stream = FakeGpu::get().make_stream(1);
    // Loaded already, as by a job that links it: another user may not read the build's folder.
    void* library = dlopen(ROLLCALL_EMULATED_CUPTI, RTLD_NOW | RTLD_LOCAL);
    CHILD_REQUIRE(library != nullptr);
    const auto subscribe =
        reinterpret_cast<decltype(&cuptiSubscribe)>(dlsym(library, "cuptiSubscribe"));
    test::open_test_comm(&comm);  // the flusher has its thread
    if (!with_thread && !test::forbid_threads(directory.path())) _exit(kSkipped);
    for (uint64_t n = 0; n < 3; ++n) {
      capture::OpCall call = all_reduce(&comm, n);
      call.stream = stream;
      capture::end_op(capture::begin_op(call), 0);
    }
    CUpti_SubscriberHandle subscriber = nullptr;
    const bool is_taken = subscribe(&subscriber, nullptr, nullptr) == CUPTI_SUCCESS;
    capture::flush_at_exit();
    _exit(is_taken ? kTakesAnother : kRefusesAnother);
  });
}

bool has_line(const RingContents& ring, const std::string& line) {
  return ("\n" + ring.meta).find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("CUPTI is the recorder's while it times with it") {
  const TemporaryDirectory directory;
  const int status = record_beside_cupti(directory, true);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kRefusesAnother);
  const RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(ring.ops.size() == 3);
  CHECK(has_line(ring, "gpu_timing=cupti"));
}

TEST_CASE("where the recorder gets no thread to ask CUPTI with, CUPTI is given back") {
  const TemporaryDirectory directory;
  const int status = record_beside_cupti(directory, false);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kSkipped) {
    WARN("skipped: needs a user that is not root, or a root that may change its user");
    return;
  }
  CHECK(WEXITSTATUS(status) == kTakesAnother);
  const RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(ring.ops.size() == 3);
  CHECK(has_line(ring, "gpu_timing=off (no memory or thread)"));
}

}  // namespace gpu_cupti_start_test
}  // namespace rollcall
