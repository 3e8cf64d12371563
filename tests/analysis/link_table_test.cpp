// The table of links on a ring of ranks, with one link slow, and at its edges.
#include "statistics/link_table.h"

#include "tests/catch.h"

namespace rollcall::statistics {
namespace link_table_test {

constexpr int32_t kRanks = 8;
constexpr CommKey kWorld{7, 9};

trace::NetworkChannel channel_of(int32_t peer, bool is_send, uint8_t number, uint64_t network_ns) {
  trace::NetworkChannel channel;
  channel.comm = 0;
  channel.peer = peer;
  channel.channel = number;
  channel.is_send = is_send;
  channel.operations_started = channel.operations_done = 5;
  channel.steps = 10;
  channel.bytes = 1000;
  channel.wait_ns[static_cast<size_t>(is_send ? ChannelWait::send_network
                                              : ChannelWait::recv_network)] = network_ns;
  channel.wait_ns[static_cast<size_t>(is_send ? ChannelWait::send_gpu : ChannelWait::recv_gpu)] =
      300;
  return channel;
}

// A ring on two channels, of which all sends wait 200 ns for the network per channel, and all
// receives 500.
trace::Run ring_of_ranks() {
  trace::Run run;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    trace::Process& process = run.processes.emplace_back();
    trace::Comm& comm = process.comms.emplace_back();
    comm.key = kWorld;
    comm.origin = CommOrigin::init;
    comm.state = CommState::ready;
    comm.nranks = kRanks;
    comm.rank = rank;
    if (rank == 3) comm.name = "world";
    for (const uint8_t number : {0, 1}) {
      process.channels.push_back(channel_of((rank + 1) % kRanks, true, number, 200));
      process.channels.push_back(channel_of((rank + kRanks - 1) % kRanks, false, number, 500));
    }
  }
  return run;
}

TEST_CASE("a link that waits longer for the network than the others of its communicator leads") {
  trace::Run run = ring_of_ranks();
  for (trace::NetworkChannel& channel : run.processes[2].channels) {
    if (channel.is_send) channel.wait_ns[static_cast<size_t>(ChannelWait::send_network)] = 1600;
  }
  const std::vector<LinkRow> rows = link_table(run);
  REQUIRE(rows.size() == 2 * kRanks);
  const LinkRow& slow = rows[0];
  CHECK(slow.is_send);
  CHECK(slow.rank == 2);
  CHECK(slow.peer == 3);
  CHECK(slow.comm == kWorld);
  CHECK(slow.comm_name == "world");
  CHECK(slow.nranks == kRanks);
  CHECK(slow.channels == 2);
  CHECK(slow.steps == 20);
  CHECK(slow.bytes == 2000);
  CHECK(slow.operations_done == 10);
  CHECK(*slow.per_step_ns(ChannelWait::send_network) == 160);
  CHECK(*slow.to_median == 8);
  CHECK(slow.behind_median_ns == 20 * (160 - 20));
  CHECK(slow.longest_wait() == ChannelWait::send_network);
  CHECK(rows[1].rank == 0);
  CHECK(rows[1].longest_wait() == ChannelWait::send_gpu);
  for (size_t i = 1; i < rows.size(); ++i) {
    CHECK(*rows[i].to_median == 1);
    CHECK(rows[i].behind_median_ns == 0);
    CHECK(rows[i].is_send == (i < kRanks));
  }
  CHECK(rows[kRanks].longest_wait() == ChannelWait::recv_network);
}

TEST_CASE("of two links the slow one stands out, one alone is compared with nothing") {
  trace::Run run = ring_of_ranks();
  run.processes.resize(2);
  std::erase_if(run.processes[1].channels, [](const auto& channel) { return !channel.is_send; });
  run.processes[1].channels[0].wait_ns[static_cast<size_t>(ChannelWait::send_network)] = 1000;
  const std::vector<LinkRow> rows = link_table(run);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].rank == 1);
  CHECK(*rows[0].to_median == 3);
  CHECK(*rows[1].to_median == 1);
  CHECK_FALSE(rows[2].is_send);
  CHECK_FALSE(rows[2].to_median);
}

TEST_CASE("links of different communicators are not compared, superseded processes left out") {
  trace::Run run = ring_of_ranks();
  run.processes[4].comms[0].key = {1, 1};
  for (trace::NetworkChannel& channel : run.processes[4].channels) {
    for (uint64_t& wait_ns : channel.wait_ns) wait_ns *= 100;
  }
  run.processes[5].superseded = true;
  const std::vector<LinkRow> rows = link_table(run);
  REQUIRE(rows.size() == 2 * (kRanks - 1));
  for (const LinkRow& row : rows) {
    CHECK(row.rank != 5);
    CHECK(row.to_median.has_value() == (row.rank != 4));
    if (row.to_median) CHECK(*row.to_median == 1);
  }
}

TEST_CASE("links without steps have no mean, and none that were not told of are made up") {
  trace::Run run = ring_of_ranks();
  CHECK(link_table({}).empty());
  run.processes.resize(3);
  for (trace::Process& process : run.processes) process.channels.resize(1);
  run.processes[0].channels[0].steps = 0;
  run.processes[1].channels[0].comm = kCommUnknown;
  std::fill_n(run.processes[1].channels[0].wait_ns, kChannelWaitCount, 0);
  run.processes[2].channels[0].wait_ns[1] = UINT64_MAX;
  run.processes[2].channels.push_back(run.processes[2].channels[0]);
  const std::vector<LinkRow> rows = link_table(run);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].rank == 2);
  CHECK(rows[0].wait_ns[1] == UINT64_MAX);  // and no more
  CHECK(rows[1].rank == 0);
  CHECK_FALSE(rows[1].per_step_ns(ChannelWait::send_network));
  CHECK_FALSE(rows[1].to_median);
  CHECK(rows[2].comm.is_null());
  CHECK(rows[2].rank == -1);
  CHECK(rows[2].longest_wait() == ChannelWait::none);
}

TEST_CASE("links of unknown communicators are kept apart by process") {
  trace::Run run = ring_of_ranks();
  run.processes.resize(2);
  for (trace::Process& process : run.processes) {
    process.channels.resize(1);
    process.channels[0].comm = kCommUnknown;
    process.channels[0].peer = 3;
  }
  const std::vector<LinkRow> rows = link_table(run);
  REQUIRE(rows.size() == 2);
  for (const LinkRow& row : rows) {
    CHECK(row.channels == 1);
    CHECK(row.peer == 3);
    CHECK_FALSE(row.to_median);
  }
}

}  // namespace link_table_test
}  // namespace rollcall::statistics
