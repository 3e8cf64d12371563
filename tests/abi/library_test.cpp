// What the file says of the NCCL that calls the plugin. Here it is part of the program.
#include "tests/abi/recorded.h"

extern "C" __attribute__((visibility("default"), used)) int ncclGetVersion(int* version) {
  *version = 23104;
  return 0;
}

namespace rollcall {
namespace library_test {

using mini::Nccl;
using test::record_and_read;

size_t times_in(const std::string& text, const std::string& wanted) {
  size_t times = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    ++times;
  }
  return times;
}

template <unsigned kVersion>
void check_version_on_file() {
  INFO("version " << kVersion);
  const auto ring = record_and_read([] {
    Nccl<kVersion> nccl;
    const mini::Comm comm = nccl.init(1, 0, 2);
    nccl.init(2, 0, 2);
    nccl.call(comm, {});
  });
  CHECK(times_in(ring.meta, "nccl_version=23104\n") == 1);
  CHECK(times_in(ring.meta, "nccl_path=") == 1);
  CHECK(times_in(ring.meta, "plugin_test\n") >= 1);
  CHECK(times_in(ring.meta, "emulated=") == 0);
  // No CUDA is loaded, and none must be for the sake of a fact.
  CHECK(times_in(ring.meta, "cuda_driver_version=") == 0);
  CHECK(times_in(ring.meta, "cuda_runtime_version=") == 0);
}

TEST_CASE("the version of a NCCL inside the program is on file once, whatever interface it has") {
  check_version_on_file<1>();
  check_version_on_file<4>();
  check_version_on_file<5>();
  check_version_on_file<7>();
}

TEST_CASE("beside the shim, which tells it, the plugin says nothing of NCCL's library") {
  const auto ring = record_and_read([] {
    const uint32_t index = capture::open_comm({.origin = CommOrigin::init, .nranks = 2, .rank = 0});
    Nccl<6> nccl;
    const mini::Comm comm = nccl.init(1, 0, 2);
    capture::bind_comm(index, &index);
    capture::comm_ready(index, 2, 0, 0, 1);
    nccl.call(comm, {});
  });
  CHECK(times_in(ring.meta, "nccl_version=") == 0);
  CHECK(times_in(ring.meta, "nccl_path=") == 0);
  CHECK(times_in(ring.meta, "plugin_interface=6\n") == 1);
}

}  // namespace library_test
}  // namespace rollcall
