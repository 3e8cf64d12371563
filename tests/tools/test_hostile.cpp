// Run directories that claim more than they hold: no command takes memory for a claim.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/tools/command_line.h"
#include "tests/trace/files.h"

namespace test_hostile {

using namespace rollcall;
using namespace rollcall::test;

void put(const std::string& path, const void* bytes, size_t count, uint64_t size) {
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(size)) == 0);
}

// Every command that reads a run, with so much memory as an honest run of this size never takes.
void check_that_all_commands_manage(const Folder& folder) {
  constexpr const char* kLimited = "ulimit -v 700000; \"$ROLLCALL\" ";
  for (const char* command : {"info run", "diff run", "diff run --window 100", "stats run",
                              "dump run", "trace run -o t.json", "pack run"}) {
    const Outcome outcome = run_shell(folder, std::string(kLimited) + command + " | tail -c 1000");
    INFO(command << ": " << outcome.out << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.err.find("bad_alloc") == std::string::npos);
    CHECK(outcome.err.find("memory") == std::string::npos);
    CHECK(outcome.err.find("bort") == std::string::npos);
  }
}

TEST_CASE("a block that stands in a segment a thousand times takes the memory of one") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  RingBytes ring;
  ring.add(make_op(5000));
  put(folder / "run/node0.4711.4d.ring", ring.bytes.data(), ring.bytes.size(), ring.bytes.size());
  SegmentBytes one(ring.header);
  std::vector<OpRecord> ops;
  for (uint64_t ticket = 1; ticket <= kBlockRecordsMax; ++ticket) ops.push_back(make_op(ticket));
  one.add_ops(ops);
  std::vector<std::byte> bomb = one.bytes();
  const std::vector<std::byte> block(bomb.begin() + sizeof(SegmentHeader), bomb.end());
  for (int copy = 1; copy < 1000; ++copy) bomb.insert(bomb.end(), block.begin(), block.end());
  put(folder / "run/node0.4711.4d.000000.segment", bomb.data(), bomb.size(), bomb.size());
  check_that_all_commands_manage(folder);
  const Outcome dumped = run_shell(folder, "\"$ROLLCALL\" dump run | grep -c '\"type\":\"op\"'");
  CHECK(dumped.out == "4097\n");
}

TEST_CASE("rings of the largest geometry with nothing in them take next to no memory") {
  const Folder folder;
  std::filesystem::create_directory(folder / "run");
  constexpr uint32_t kMost = kRingSlotsMax;
  for (uint32_t pid = 1; pid <= 4; ++pid) {
    FileHeader header = RingBytes(pid).header;
    fill_layout(header, {.ring_slots = kMost,
                         .event_slots = kMost,
                         .comms_max = kMost,
                         .threads_max = kMost,
                         .meta_bytes_max = 4096,
                         .channels_max = kMost,
                         .graphs_max = kMost,
                         .kernel_phase_slots = kMost});
    header.next_ticket = header.next_event_ticket = uint64_t{1} << 40;
    header.comm_count = header.thread_count = kMost;
    put(folder / ("run/node0." + std::to_string(pid) + ".4d.ring"), &header, sizeof header,
        header.file_bytes);
  }
  constexpr const char* kLimited = "ulimit -v 700000; \"$ROLLCALL\" ";
  for (const char* command : {"info run", "stats run", "diff run", "diff run --window 100"}) {
    const Outcome outcome = run_shell(folder, std::string(kLimited) + command + " >out; echo $?");
    INFO(command << ": " << outcome.err);
    CHECK((outcome.out == "0\n" || outcome.out == "3\n"));
  }
}

}  // namespace test_hostile
