// The files of this version, byte for byte, against dumps that never change (tests/format/golden).
//
// A dump has a line for each 16 bytes that are not all zero, so it covers the whole file. What
// belongs to the process that runs the test (its pid, host, threads) is first compared with the
// process, then replaced by fixed values.
#include <fstream>
#include <memory>
#include <sstream>

#include "core/base/clock.h"
#include "core/capture/history.h"
#include "core/capture/live.h"
#include "core/capture/segment_writer.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"
#include "tests/file_bytes.h"

namespace rollcall {
namespace {

using test::file_bytes;
using test::TemporaryDirectory;

std::string dump_of(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string dump = "bytes " + std::to_string(bytes.size()) + "\n";
  for (size_t at = 0; at < bytes.size(); at += 16) {
    const std::string line = bytes.substr(at, 16);
    if (line.find_first_not_of('\0') == std::string::npos) continue;
    for (int shift = 20; shift >= 0; shift -= 4) dump += kDigits[at >> shift & 15];
    for (const char c : line) {
      dump += ' ';
      dump += kDigits[static_cast<unsigned char>(c) >> 4];
      dump += kDigits[c & 15];
    }
    dump += '\n';
  }
  return dump;
}

std::string bytes_of(const std::string& dump) {
  std::istringstream lines(dump);
  std::string line;
  std::getline(lines, line);
  std::string bytes(std::stoul(line.substr(6)), '\0');
  while (std::getline(lines, line)) {
    size_t at = std::stoul(line.substr(0, 6), nullptr, 16);
    for (size_t column = 7; column < line.size(); column += 3) {
      bytes.at(at++) = static_cast<char>(std::stoul(line.substr(column, 2), nullptr, 16));
    }
  }
  return bytes;
}

void require_as_golden(const std::string& bytes, const std::string& name) {
  const std::string path = std::string(ROLLCALL_GOLDEN_DIRECTORY) + "/" + name;
  const std::string dump = dump_of(bytes);
  if (getenv("ROLLCALL_WRITE_GOLDENS") != nullptr) std::ofstream(path) << dump;
  const std::string golden = file_bytes(path);
  const auto [ours, theirs] = std::mismatch(dump.begin(), dump.end(), golden.begin(), golden.end());
  const auto line_at = [](const std::string& text, std::string::const_iterator at) {
    const auto offset = static_cast<size_t>(at - text.begin());
    const size_t start = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;
    return text.substr(start, text.find('\n', start) - start);
  };
  INFO(
      "The bytes that are written have changed (first in the line below).\n"
      "If a reader of the old files would misread the new ones: raise kRingVersion or\n"
      "kSegmentVersion, keep reading the old version, keep its golden, and add one with the new\n"
      "version in its name. If an old reader may ignore the change (docs/FORMAT.md, Versions):\n"
      "write the golden anew with ROLLCALL_WRITE_GOLDENS=1 and say so in the commit.\n"
      "If the change was not meant: it is a defect.");
  INFO("golden: " << line_at(golden, theirs) << "\nnow:    " << line_at(dump, ours));
  const bool unchanged = dump == golden;
  REQUIRE(unchanged);
}

// --- the ring ------------------------------------------------------------------------------------

const void* address(uintptr_t value) { return reinterpret_cast<const void*>(value); }

void record_a_little() {
  setenv("ROLLCALL_RING_SLOTS", "64", 1);
  setenv("ROLLCALL_HISTORY", "0", 1);
  setenv("ROLLCALL_RUN_ID", "1234abcd", 1);
  set_fake_clock(1'000'000, 10);
  capture::CommOpening opening;
  opening.origin = CommOrigin::split;
  opening.key = {0x1111222233334444, 0x5555666677778888};
  opening.parent_key = {0x9999aaaabbbbcccc, 0xddddeeeeffff0000};
  opening.child_number = 2;
  opening.nranks = 8;
  opening.rank = 5;
  opening.device = 1;
  opening.colour = 3;
  opening.split_key = -4;
  opening.non_blocking = true;
  opening.name = "data_parallel";
  const uint32_t index = capture::open_comm(opening);
  capture::bind_comm(index, address(0xc0ffee00));
  capture::comm_ready(index, 8, 5, 1, 0xabcdef);
  capture::OpCall call;
  call.datatype = 7;
  call.reduction = 4;
  call.flags = kOpInPlace;
  call.count = 1'000'000;
  call.send = call.recv = address(0x7f0012340000);
  call.stream = address(0x5500);
  call.comm_handle = address(0xc0ffee00);
  call.caller = address(0x401234);
  call.group = 9;
  call.graph = 2;
  const capture::OpToken token = capture::begin_op(call);
  capture::keep_op_phases(token, {.ns = {1'500, 40'000, 250}});
  capture::end_op(token, 0);
  call.kind = OpKind::Send;
  call.reduction = kUnknown8;
  call.root_or_peer = 6;
  capture::end_op(capture::begin_op(call), 5);
  call.kind = OpKind::Broadcast;
  call.root_or_peer = 0;
  capture::begin_op(call);
  capture::EventCall event{.kind = EventKind::CommAbort, .comm_index = index};
  event.arguments[0] = -1;
  event.arguments[7] = 77;
  event.text = "remote process exited";
  event.caller = address(0x405678);
  capture::note_event(event, 6);
  capture::begin_event({.kind = EventKind::CommDestroy});
}

template <class T>
void replace(std::string& bytes, size_t offset, const T& expected, const T& fixed) {
  T found;
  REQUIRE(offset + sizeof(T) <= bytes.size());
  std::memcpy(&found, bytes.data() + offset, sizeof(T));
  CHECK(std::memcmp(&found, &expected, sizeof(T)) == 0);
  std::memcpy(bytes.data() + offset, &fixed, sizeof(T));
}

void make_anonymous(std::string& bytes, pid_t pid, const ring::Incarnation& own) {
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  replace(bytes, offsetof(FileHeader, pid), static_cast<uint32_t>(pid), 4711u);
  replace(bytes, offsetof(FileHeader, parent_pid), static_cast<uint32_t>(getpid()), 4710u);
  CHECK(header.start_time_ticks >= own.start_time_ticks);
  replace(bytes, offsetof(FileHeader, start_time_ticks), header.start_time_ticks, uint64_t{99});
  replace(bytes, offsetof(FileHeader, pid_namespace), own.pid_namespace, uint64_t{98});
  CHECK(own.pid_namespace != 0);
  ring::Incarnation fixed;
  copy_padded(fixed.boot_id, "01234567-89ab-cdef-0123-456789abcdef");
  copy_padded(fixed.host, "node-1");
  for (size_t i = 0; i < sizeof(own.boot_id); ++i) {
    replace(bytes, offsetof(FileHeader, boot_id) + i, own.boot_id[i], fixed.boot_id[i]);
  }
  for (size_t i = 0; i < sizeof(own.host); ++i) {
    replace(bytes, offsetof(FileHeader, host) + i, own.host[i], fixed.host[i]);
  }
  ThreadEntry thread;
  std::memcpy(&thread, bytes.data() + header.threads.offset, sizeof(thread));
  replace(bytes, header.threads.offset, static_cast<uint32_t>(pid), 4711u);
  CHECK(std::string_view("format_golden_test").starts_with(padded_view(thread.name)));
  std::memset(bytes.data() + header.threads.offset + offsetof(ThreadEntry, name), 'n', 6);
  std::memset(bytes.data() + header.threads.offset + offsetof(ThreadEntry, name) + 6, 0, 10);
  // The text says what the process and its environment are; that it is there is enough here.
  const std::string meta = bytes.substr(header.meta.offset, header.meta_bytes);
  CHECK(meta.starts_with("rollcall_version=" ROLLCALL_VERSION "\nexe="));
  CHECK(meta.ends_with("\n"));
  std::memset(bytes.data() + header.meta.offset, 0, header.meta_bytes);
  replace(bytes, offsetof(FileHeader, meta_bytes), header.meta_bytes, uint32_t{0});
  // How much did not fit, and how long the start took, depend on the environment too.
  SelfStatistics stats;
  std::memcpy(&stats, bytes.data() + header.stats.offset, sizeof(stats));
  replace(bytes, header.stats.offset + offsetof(SelfStatistics, meta_truncated),
          stats.meta_truncated, uint64_t{0});
}

TEST_CASE("a ring file of this version is what its golden says, byte for byte") {
  const TemporaryDirectory directory;
  const pid_t child = fork();
  if (child == 0) {
    setenv("ROLLCALL_DIR", directory.path().c_str(), 1);
    record_a_little();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
  std::string bytes = file_bytes(directory.files(".ring").at(0));
  make_anonymous(bytes, child, ring::read_incarnation());
  require_as_golden(bytes, "ring.v1.txt");
}

TEST_CASE("the ring file of version 1 stays readable") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/golden.ring";
  const std::string dump = file_bytes(std::string(ROLLCALL_GOLDEN_DIRECTORY) + "/ring.v1.txt");
  std::ofstream(path, std::ios::binary) << bytes_of(dump);
  const test::RingContents ring = test::read_ring(path);
  REQUIRE(ring.verdict == HeaderVerdict::fine);
  CHECK(ring.header.version == 1);
  CHECK(ring.header.pid == 4711);
  REQUIRE(ring.ops.size() == 3);
  CHECK(ring.ops.at(1).count == 1'000'000);
  CHECK(ring.ops.at(2).kind == OpKind::Send);
  CHECK(ring.ops.at(2).result == 5);
  CHECK(ring.ops.at(3).returned_ticks == 0);
  REQUIRE(ring.comms.size() == 1);
  CHECK(ring.comms[0].key == CommKey{0x1111222233334444, 0x5555666677778888});
  CHECK(padded_view(ring.comms[0].name) == "data_parallel");
  CHECK(ring.comms[0].phased_operations == 1);
  CHECK(ring.comms[0].phase_ns[1] == 40'000);
  REQUIRE(ring.phases.size() == 1);
  CHECK(ring.phases.at(1).ns[0] == 1'500);
  CHECK(ring.phases.at(1).ns[2] == 250);
  REQUIRE(ring.events.size() == 2);
  CHECK(ring.events.at(1).kind == EventKind::CommAbort);
}

// --- a segment -----------------------------------------------------------------------------------

constexpr uint32_t kSlots = 64;
constexpr uint32_t kShift = 4;

// Twenty operations that meet most of the coding: shapes that return, groups, peers, new streams,
// a gap in the tickets, GPU times, and a number above every small field.
std::vector<OpRecord> golden_operations() {
  std::vector<OpRecord> ops;
  for (uint64_t ticket = 1; ticket <= 21; ++ticket) {
    if (ticket == 8) continue;  // stepped over
    OpRecord op{};
    op.publish = publish_word(ticket, Phase::settled);
    op.called_ticks = 1'000'000 + ticket * 4992 + ticket * ticket * 16;
    op.returned_ticks = op.called_ticks + 320 + ticket % 3 * 16;
    op.count = 4096 << ticket % 4;
    op.send_address = 0x7f0000000000 + ticket % 4 * 0x10000;
    op.recv_address = ticket % 2 == 0 ? op.send_address : 0x7e0000000200;
    op.stream = 0x5500 + ticket % 2;
    op.seq = 1024 + ticket;
    op.caller = 0x401000 + ticket % 3;
    op.root_or_peer = -1;
    op.group = ticket < 5 ? 0 : static_cast<uint32_t>(ticket / 4);
    op.datatype = 7;
    op.kind = OpKind::AllReduce;
    if (ticket % 5 == 0) {
      op.kind = OpKind::Send;
      op.reduction = kUnknown8;
      op.root_or_peer = static_cast<int32_t>(ticket);
      op.seq = ticket / 5;
    }
    if (ticket == 12) op.finished_ticks = op.called_ticks + 40'000;
    if (ticket == 13) op.result = 3;
    if (ticket == 14) op.count = ~uint64_t{0};
    ops.push_back(op);
  }
  ops[0].seq = 2048;  // completes a digest, behind a gap
  return ops;
}

TEST_CASE("a segment of this version is what its golden says, byte for byte") {
  const TemporaryDirectory directory;
  std::vector<OpRecord> slots(kSlots);
  uint64_t next_ticket = 22;
  uint64_t stepped_over = 1;
  for (const OpRecord& op : golden_operations()) {
    slots[ticket_of(op.publish) & (kSlots - 1)] = op;
  }
  // In flight in the first pass, settled in the second.
  OpRecord& late = slots[10];
  const OpRecord settled = late;
  late.publish = publish_word(10, Phase::called);
  late.returned_ticks = 0;
  const auto history = std::make_unique<capture::History>();
  history->begin({slots.data(), &next_ticket, kSlots - 1, &stepped_over},
                 {.time_shift = kShift, .first_ticket = 1});
  capture::SegmentWriter writer;
  writer.begin({.directory = directory.path().c_str(),
                .stem = "node-1.4711.63",
                .kind = SegmentKind::history,
                .pid = 4711,
                .start_time_ticks = 99,
                .run_id = 0x1234abcd,
                .time_shift = kShift,
                .bytes_max = kHistoryBytesDefault});
  for (;;) {
    const auto block = history->next_block(true, nullptr);
    if (block.empty()) break;
    REQUIRE(writer.append(block));
  }
  REQUIRE(writer.append(history->next_digest_block()));
  late = settled;
  REQUIRE(writer.append(history->next_late_block(nullptr)));
  require_as_golden(file_bytes(directory.files(".segment").at(0)), "segment.v1.txt");
}

TEST_CASE("the segment of version 1 stays readable") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/golden.segment";
  const std::string dump = file_bytes(std::string(ROLLCALL_GOLDEN_DIRECTORY) + "/segment.v1.txt");
  std::ofstream(path, std::ios::binary) << bytes_of(dump);
  const test::SegmentContents segment = test::read_segment(path);
  REQUIRE(segment.verdict == HeaderVerdict::fine);
  CHECK(segment.header.version == 1);
  CHECK(segment.whole);
  CHECK(segment.duplicates == 0);
  const std::vector<OpRecord> expected = golden_operations();
  REQUIRE(segment.ops.size() == expected.size());
  for (const OpRecord& op : expected) {
    const OpRecord& found = segment.ops.at(ticket_of(op.publish));
    INFO("ticket " << ticket_of(op.publish));
    CHECK(std::memcmp(&found, &op, sizeof(OpRecord)) == 0);
  }
  REQUIRE(segment.digests.size() == 1);
  CHECK(segment.digests[0].seq == 2048);
  CHECK(segment.digests[0].gap == 1);
}

}  // namespace
}  // namespace rollcall
