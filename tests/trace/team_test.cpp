// Processes that read one run together, as threads of this one.
#include "trace/team.h"

#include <algorithm>
#include <barrier>
#include <thread>

#include "tests/catch.h"
#include "tests/trace/files.h"
#include "trace/loader.h"
#include "trace/parcel.h"

namespace rollcall::trace {
namespace team_test {

using test::Directory;
using test::make_op;
using test::RingBytes;

struct Meeting {
  explicit Meeting(uint32_t size) : barrier(size), parts(size) {}
  std::barrier<> barrier;
  std::vector<Team::Bytes> parts;
};

class ThreadTeam final : public Team {
 public:
  ThreadTeam(Meeting& meeting, uint32_t rank) : meeting_(meeting), rank_(rank) {}
  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return static_cast<uint32_t>(meeting_.parts.size()); }
  uint32_t local_size() const override { return size(); }
  std::vector<Bytes> gather(const Bytes& mine) override {
    meeting_.parts[rank_] = mine;
    meeting_.barrier.arrive_and_wait();
    std::vector<Bytes> all;
    if (rank_ == 0) all = meeting_.parts;
    meeting_.barrier.arrive_and_wait();
    return all;
  }
  void broadcast(Bytes& bytes) override {
    if (rank_ == 0) meeting_.parts[0] = bytes;
    meeting_.barrier.arrive_and_wait();
    bytes = meeting_.parts[0];
    meeting_.barrier.arrive_and_wait();
  }

 private:
  Meeting& meeting_;
  const uint32_t rank_;
};

void add_rank(const Directory& directory, uint32_t rank, uint64_t calls) {
  RingBytes ring(4711 + rank, static_cast<int>(rank));
  for (uint64_t t = 1; t <= calls; ++t) ring.add(make_op(t));
  directory.write("node0." + std::to_string(4711 + rank) + ".4d.ring", ring.bytes);
}

// By rank, what each process of a team of `size` came back with.
std::vector<Run> load_together(const std::string& path, uint32_t size, uint64_t records_max) {
  Meeting meeting(size);
  std::vector<Run> runs(size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadTeam team(meeting, rank);
      LoadOptions options{.records_max = records_max, .probe_processes = false};
      options.team = &team;
      runs[rank] = load_run(path, options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return runs;
}

// All of a run but the moment it was read at.
Team::Bytes contents(Run run) {
  ParcelWriter writer;
  transfer_all(writer, run.directory, run.processes, run.issues, run.live);
  return writer.take();
}

TEST_CASE("a team reads what one process reads, and each of it its share of the files") {
  Directory directory;
  constexpr uint32_t kRanks = 10;
  for (uint32_t rank = 0; rank < kRanks; ++rank) add_rank(directory, rank, 40 + rank);
  // Once everything is held, once equal calls are left on disk.
  const uint64_t records_max = GENERATE(uint64_t{0}, uint64_t{100});
  const Run alone =
      load_run(directory.path(), {.records_max = records_max, .probe_processes = false});
  REQUIRE(alone.processes.size() == kRanks);
  for (const uint32_t size : {2u, 3u, 16u}) {
    const std::vector<Run> runs = load_together(directory.path(), size, records_max);
    CHECK(contents(runs[0]) == contents(alone));
    size_t read_by_others = 0;
    for (uint32_t rank = 1; rank < size; ++rank) {
      const Share share = share_of(kRanks, rank, size);
      CHECK(runs[rank].processes.size() == share.end - share.begin);
      read_by_others += runs[rank].processes.size();
    }
    const Share first = share_of(kRanks, 0, size);
    CHECK(read_by_others + (first.end - first.begin) == kRanks);
  }
}

TEST_CASE("shares cover everything once, whatever the numbers") {
  for (const size_t count : {0u, 1u, 7u, 4096u}) {
    for (const uint32_t size : {1u, 2u, 5u, 9u}) {
      size_t next = 0;
      for (uint32_t rank = 0; rank < size; ++rank) {
        const Share share = share_of(count, rank, size);
        REQUIRE(share.begin == next);
        REQUIRE(share.end >= share.begin);
        CHECK(share.end - share.begin <= count / size + 1);
        next = share.end;
      }
      REQUIRE(next == count);
    }
  }
}

TEST_CASE("a run that is not there is refused by a team on rank 0 alone") {
  const std::vector<Run> runs = load_together("/nonexistent/rollcall", 3, 0);
  for (const Run& run : runs) CHECK(run.processes.empty());
  REQUIRE(runs[0].issues.size() == 1);
  CHECK(runs[0].issues[0].unusable);
}

TEST_CASE("a process comes out of a parcel as it went in, and a short parcel gives zeros") {
  Process process;
  process.file = "node0.ring";
  process.job_rank = 7;
  process.meta = {{"exe", "train"}, {"job_rank", "7"}};
  process.comms.resize(1);
  process.comms[0].name = "world";
  process.comms[0].key = {3, 4};
  process.ops.resize(2);
  process.ops[1].count = 4096;
  process.events.resize(1);
  process.events[0].text = "an error";
  process.threads = {{17, "main"}};
  process.channels.resize(2);
  process.channels[1].wait_ns[3] = 777;
  process.statistics["forks"] = 2;
  process.knowledge.tail = false;
  process.liveness = Liveness::stopped;
  process.superseded = true;
  const Team::Bytes bytes = pack(process);
  Process copy;
  unpack(bytes, copy);
  CHECK(pack(copy) == bytes);
  CHECK(copy.ops[1].count == 4096);
  CHECK(copy.events[0].text == "an error");
  CHECK(copy.meta.at("exe") == "train");
  REQUIRE(copy.channels.size() == 2);
  CHECK(copy.channels[1].wait_ns[3] == 777);
  CHECK(copy.superseded);

  Process nothing;
  unpack(Team::Bytes(4), nothing);
  CHECK(nothing.file.empty());
  CHECK(nothing.ops.empty());
}

}  // namespace team_test
}  // namespace rollcall::trace
