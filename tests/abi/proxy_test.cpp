// Proxy operations and their steps: what is summed up per channel, and whose they are.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "profiler_plugin/handles.h"
#include "tests/abi/recorded.h"

namespace rollcall {
namespace proxy_test {

using mini::Comm;
using mini::Nccl;
using test::ended_well;
using test::in_own_process;
using test::TemporaryDirectory;

std::vector<ChannelEntry> channels_of(const TemporaryDirectory& directory, size_t index = 0) {
  std::ifstream file(directory.files(".ring")[index], std::ios::binary);
  FileHeader header;
  file.read(reinterpret_cast<char*>(&header), sizeof(header));
  REQUIRE(header.channels_max == kChannelsMax);
  file.seekg(static_cast<std::streamoff>(header.channels.offset));
  std::vector<ChannelEntry> used;
  for (uint32_t i = 0; i < header.channels_max; ++i) {
    ChannelEntry entry;
    file.read(reinterpret_cast<char*>(&entry), sizeof(entry));
    if (entry.state != 0) used.push_back(entry);
  }
  return used;
}

// What the network thread of a communicator with one call on it leaves in the file.
template <class Steps>
std::vector<ChannelEntry> channels_after(Steps steps) {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [&] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "proxy", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    const mini::Task task = nccl.call(comm, {});
    std::thread([&] { steps(nccl, comm, task); }).join();
  })));
  return channels_of(directory);
}

TEST_CASE("proxy steps are summed up per channel, peer and direction") {
  const std::vector<ChannelEntry> used =
      channels_after([](Nccl<6>& nccl, const Comm& comm, const mini::Task& task) {
        void* op = nccl.start_proxy_op(comm, task.handle, 3, 1, true);
        for (const int step : {0, 1}) {
          void* handle = nccl.start_proxy_step(comm, op, step);
          nccl.record(handle, profiler::kProxyStepSendGpuWait);
          nccl.record(handle, profiler::kProxyStepSendPeerWait);
          nccl.record(handle, profiler::kProxyStepSendWait, 4096);
          nccl.stop(handle);
        }
        nccl.stop(op);
        op = nccl.start_proxy_op(comm, task.handle, 3, 1, false);
        void* handle = nccl.start_proxy_step(comm, op, 0);
        nccl.record(handle, profiler::kProxyStepRecvWait);  // and waits for ever
      });
  REQUIRE(used.size() == 2);
  const ChannelEntry& send = used[0].is_send != 0 ? used[0] : used[1];
  const ChannelEntry& recv = used[0].is_send != 0 ? used[1] : used[0];
  CHECK(send.channel == 3);
  CHECK(send.peer == 1);
  CHECK(send.operations_done == 1);
  CHECK(send.steps_done == 2);
  CHECK(send.bytes == 8192);
  CHECK(send.wait_ticks[static_cast<size_t>(ChannelWait::send_gpu)] > 0);
  CHECK(send.waiting == static_cast<uint8_t>(ChannelWait::none));
  CHECK(recv.operations_started == 1);
  CHECK(recv.operations_done == 0);
  CHECK(recv.waiting == static_cast<uint8_t>(ChannelWait::recv_network));
  CHECK(recv.waiting_since_ticks != 0);
}

TEST_CASE("a channel whose step is done waits for what the next step waits for") {
  const std::vector<ChannelEntry> used =
      channels_after([](Nccl<6>& nccl, const Comm& comm, const mini::Task& task) {
        void* op = nccl.start_proxy_op(comm, task.handle, 3, 1, true);
        void* steps[3];
        for (int step = 0; step < 3; ++step) {
          steps[step] = nccl.start_proxy_step(comm, op, step);
          nccl.record(steps[step], profiler::kProxyStepSendGpuWait);
        }
        nccl.record(steps[0], profiler::kProxyStepSendWait, 4096);
        nccl.record(steps[1], profiler::kProxyStepSendPeerWait);
        nccl.stop(steps[0]);  // steps 1 and 2 wait for ever
      });
  REQUIRE(used.size() == 1);
  CHECK(used[0].steps_done == 1);
  CHECK(used[0].waiting == static_cast<uint8_t>(ChannelWait::send_peer));
  CHECK(used[0].waiting_since_ticks != 0);
}

TEST_CASE("a step that is started again begins anew") {
  const std::vector<ChannelEntry> used =
      channels_after([](Nccl<6>& nccl, const Comm& comm, const mini::Task& task) {
        void* op = nccl.start_proxy_op(comm, task.handle, 3, 1, false);
        void* step = nccl.start_proxy_step(comm, op, 0);
        nccl.record(step, profiler::kProxyStepRecvWait, 4096);
        step = nccl.start_proxy_step(comm, op, 0);  // NCCL issue 1658
        nccl.stop(step);
      });
  REQUIRE(used.size() == 1);
  CHECK(used[0].steps_done == 1);
  CHECK(used[0].bytes == 0);
  CHECK(used[0].wait_ticks[static_cast<size_t>(ChannelWait::recv_network)] == 0);
}

TEST_CASE("a place that another operation had tells nothing of that one") {
  const std::vector<ChannelEntry> used =
      channels_after([](Nccl<6>& nccl, const Comm& comm, const mini::Task& task) {
        for (uint64_t i = 0; i < profiler::kProxyPlaces; ++i) {  // left in the middle of a step
          void* op = nccl.start_proxy_op(comm, task.handle, 0, 1, true);
          nccl.record(nccl.start_proxy_step(comm, op, 2), profiler::kProxyStepSendWait, 4096);
        }
        void* op = nccl.start_proxy_op(comm, task.handle, 1, 1, true);
        void* step = nccl.start_proxy_step(comm, op, 1);
        nccl.stop(step);
        nccl.stop(op);
      });
  REQUIRE(used.size() == 2);
  const ChannelEntry& entry = used[0].channel == 1 ? used[0] : used[1];
  CHECK(entry.steps_done == 1);
  CHECK(entry.bytes == 0);
  CHECK(entry.waiting == static_cast<uint8_t>(ChannelWait::none));  // though step 2 was there
  CHECK(entry.operations_done == 1);
}

TEST_CASE("each channel has its own sums, also where many share a place in the table") {
  constexpr int kPeers = 4;
  constexpr int kChannels = 64;
  const std::vector<ChannelEntry> used =
      channels_after([](Nccl<6>& nccl, const Comm& comm, const mini::Task& task) {
        for (int round = 0; round < 2; ++round) {
          for (int i = 0; i < kPeers * kChannels; ++i) {
            const auto channel = static_cast<uint8_t>(i % kChannels);
            void* op = nccl.start_proxy_op(comm, task.handle, channel, i / kChannels, true);
            nccl.stop(op);
            op = nccl.start_proxy_op(comm, task.handle, channel, i / kChannels, false);
          }
        }
      });
  REQUIRE(used.size() == 2 * kPeers * kChannels);
  for (const ChannelEntry& entry : used) {
    CHECK(entry.operations_started == 2);
    CHECK(entry.operations_done == (entry.is_send != 0 ? 2 : 0));
    CHECK(entry.comm_index == 0);
  }
}

TEST_CASE("channels that the table has no room for are counted, and the others go on") {
  const auto ring = test::record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "proxy", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    const mini::Task task = nccl.call(comm, {});
    void* last = nullptr;
    for (uint32_t i = 0; i < kChannelsMax + 3; ++i) {
      last = nccl.start_proxy_op(comm, task.handle, 0, static_cast<int>(i), true);
    }
    CHILD_REQUIRE(last == nullptr);
    CHILD_REQUIRE(nccl.start_proxy_op(comm, task.handle, 0, 5, true) != nullptr);
  });
  CHECK(ring.stats.plugin_full == 3);
}

// PXN between two processes that both run this plugin: the other's context and parent look like
// this one's own.
TEST_CASE("an operation of another process is not added to a channel of the same name") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "proxy", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    const mini::Task task = nccl.call(comm, {});
    CHILD_REQUIRE(nccl.start_proxy_op(comm, task.handle, 0, 1, true, getpid() + 1) == nullptr);
    CHILD_REQUIRE(nccl.start_proxy_op(comm, task.handle, 0, 1, true) != nullptr);
    CHILD_REQUIRE(nccl.start_proxy_op(comm, task.handle, 0, 1, true, getpid() + 1) == nullptr);
  })));
  const std::vector<ChannelEntry> used = channels_of(directory);
  REQUIRE(used.size() == 1);
  CHECK(used[0].operations_started == 1);
  CHECK(test::read_ring(directory.files(".ring")[0]).stats.plugin_foreign == 2);
}

TEST_CASE("a channel keeps what its name says: peers beyond the ranks, and no communicator") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "proxy", 1);
    Nccl<3> nccl;  // has no communicator before its first operation
    const Comm comm = nccl.init(1, 0, 2);
    nccl.start_proxy_op(comm, nullptr, 255, -1, false);
    nccl.start_proxy_op(comm, nullptr, 0, 1 << 20, true);
  })));
  const std::vector<ChannelEntry> used = channels_of(directory);
  REQUIRE(used.size() == 2);
  const ChannelEntry& none = used[0].is_send == 0 ? used[0] : used[1];
  const ChannelEntry& network = used[0].is_send == 0 ? used[1] : used[0];
  CHECK(none.peer == -1);
  CHECK(none.channel == 255);
  CHECK(none.comm_index == kCommUnknown);
  CHECK(network.peer == 1 << 20);
  CHECK(network.channel == 0);
}

TEST_CASE("a forked child has channels of its own, and adds nothing to its parent's") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "proxy", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    nccl.call(comm, {});
    void* op = nccl.start_proxy_op(comm, nullptr, 0, 1, true);
    void* step = nccl.start_proxy_step(comm, op, 0);
    const pid_t child = fork();
    if (child == 0) {
      nccl.stop(step);  // the parent's: nothing is recorded here yet
      nccl.stop(op);
      const Comm own = nccl.init(2, 0, 2);
      nccl.call(own, {});
      nccl.start_proxy_op(own, nullptr, 0, 1, true);
      nccl.start_proxy_op(own, nullptr, 0, 1, true);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHILD_REQUIRE(status == 0);
  })));
  REQUIRE(directory.files(".ring").size() == 2);
  std::vector<uint64_t> started;
  for (size_t file : {0, 1}) {
    const std::vector<ChannelEntry> used = channels_of(directory, file);
    REQUIRE(used.size() == 1);
    started.push_back(used[0].operations_started);
    CHECK(used[0].operations_done == 0);
    CHECK(used[0].steps_done == 0);
  }
  std::sort(started.begin(), started.end());
  CHECK(started == std::vector<uint64_t>{1, 2});
}

}  // namespace proxy_test
}  // namespace rollcall
