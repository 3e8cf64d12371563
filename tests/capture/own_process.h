// A process and a directory of its own for a test of the recorder, and a small reader for what the
// process leaves behind.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/crc32c.h"
#include "core/capture/recorder.h"
#include "core/format/file_name.h"
#include "core/format/header_check.h"
#include "core/format/op_codec.h"
#include "core/format/record_check.h"
#include "tests/file_bytes.h"

namespace rollcall::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : TemporaryDirectory("/tmp") {}
  explicit TemporaryDirectory(const std::string& above) : path_(above + "/rollcall-test-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no directory in " + above);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

  std::vector<std::string> files(std::string_view ending) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().string().ends_with(ending)) found.push_back(entry.path().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::string path_;
};

// Runs `body` in a child with ROLLCALL_DIR set; the wait status. No messages, unless `body` sets
// something else before its first call.
inline int in_own_process(const std::string& directory, const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("ROLLCALL_DIR", directory.c_str(), 1);
    setenv("ROLLCALL_VERBOSE", "0", 0);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// As fork(), behind the C library's back: no handler runs. The thread sanitizer does not see it
// either and would hold what the parent's threads did against the child; there it is a fork.
inline pid_t fork_unseen() {
#if defined(__SANITIZE_THREAD__)
  return fork();
#else
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
#endif
}

inline bool ended_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

// For such a child: ends it when what must hold does not, with the line on stderr.
inline void require_in_child(bool holds, const char* file, int line, const char* what) {
  if (holds) return;
  dprintf(STDERR_FILENO, "%s:%d: in the recording process: %s does not hold\n", file, line, what);
  _exit(1);
}
#define CHILD_REQUIRE(...)                                                               \
  ::rollcall::test::require_in_child(static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, \
                                     #__VA_ARGS__)

// For such a child.
inline void limit(int resource, rlim_t to) {
  const rlimit both{to, to};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

inline constexpr uid_t kNobody = 65534;

// False where the limit on processes cannot be made to bite: it does not hold for root, and this is
// a root that cannot become somebody else.
inline bool forbid_threads(const std::string& directory) {
  if (geteuid() == 0) {
    if (chown(directory.c_str(), kNobody, kNobody) != 0 ||
        setresuid(kNobody, kNobody, kNobody) != 0) {
      return false;
    }
  }
  limit(RLIMIT_NPROC, 0);
  return true;
}

// Looks until the condition holds, which other threads bring about; gives the processor away in
// between. False after a minute.
inline bool wait_for(const std::function<bool()>& condition) {
  for (int look = 0; look < 60'000; ++look) {
    if (condition()) return true;
    poll(nullptr, 0, 1);
  }
  return false;
}

// What a ring file holds, read with the format's own functions.
struct RingContents {
  HeaderVerdict verdict = HeaderVerdict::truncated;
  FileHeader header{};
  SelfStatistics stats{};
  std::string meta;
  std::map<uint64_t, OpRecord> ops;  // valid and in flight, by ticket
  std::map<uint64_t, EventRecord> events;
  std::vector<CommEntry> comms;
  std::map<uint64_t, KernelPhasesEntry> phases;  // by ticket
  uint64_t in_flight = 0;
  uint64_t torn = 0;
  uint64_t hostile = 0;
};

inline RingContents read_ring(const std::string& path) {
  RingContents contents;
  const std::string bytes = file_bytes(path);
  // Copied to memory that is aligned as the mapping is.
  std::vector<uint64_t> memory((bytes.size() + 7) / 8 + 8);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  const auto* start = reinterpret_cast<const std::byte*>(memory.data());
  contents.verdict = judge_header({start, bytes.size()}, bytes.size(), contents.header);
  if (contents.verdict != HeaderVerdict::fine) return contents;
  const FileHeader& header = contents.header;
  std::memcpy(&contents.stats, start + header.stats.offset, sizeof(contents.stats));
  contents.meta.assign(reinterpret_cast<const char*>(start + header.meta.offset),
                       header.meta_bytes);
  for (uint32_t i = 0; i < header.comm_count; ++i) {
    contents.comms.push_back(reinterpret_cast<const CommEntry*>(start + header.comms.offset)[i]);
  }
  for (uint32_t i = 0; i < header.kernel_phase_slots; ++i) {
    const auto& entry =
        reinterpret_cast<const KernelPhasesEntry*>(start + header.kernel_phases.offset)[i];
    if (entry.ticket != 0) contents.phases[entry.ticket] = entry;
  }
  const auto collect = [&](const auto* ring, uint32_t slots, const uint64_t* next, auto& into) {
    for (uint32_t slot = 0; slot < slots; ++slot) {
      const auto record = copy_record(ring[slot]).record;
      const SlotPlace place{.slot = slot, .slots = slots, .next_ticket = *next};
      const RecordVerdict verdict = decide(facts_of(record, true, true, place, {})).verdict;
      contents.torn += verdict == RecordVerdict::torn;
      contents.hostile += verdict == RecordVerdict::hostile;
      contents.in_flight += verdict == RecordVerdict::in_flight;
      const bool is_whole = verdict == RecordVerdict::valid || verdict == RecordVerdict::in_flight;
      if (is_whole) into[ticket_of(record.publish)] = record;
    }
  };
  collect(reinterpret_cast<const OpRecord*>(start + header.ops.offset), header.ring_slots,
          &header.next_ticket, contents.ops);
  collect(reinterpret_cast<const EventRecord*>(start + header.events.offset), header.event_slots,
          &header.next_event_ticket, contents.events);
  return contents;
}

// The operations of a segment, by ticket; `whole` says that the file ends at a block's end.
struct SegmentContents {
  HeaderVerdict verdict = HeaderVerdict::truncated;
  SegmentHeader header{};
  std::map<uint64_t, OpRecord> ops;
  std::vector<DigestRecord> digests;
  uint64_t duplicates = 0;
  bool whole = false;
};

inline void read_block(const BlockHeader& header, std::span<const uint8_t> body,
                       SegmentContents& contents) {
  if (header.type == BlockType::digests) {
    for (uint32_t i = 0; i < header.record_count; ++i) {
      DigestRecord digest;
      std::memcpy(&digest, body.data() + i * sizeof(digest), sizeof(digest));
      contents.digests.push_back(digest);
    }
    return;
  }
  struct Memory {
    alignas(64) std::byte bytes[kOpCodecStateBytes];
  };
  const auto memory = std::make_unique<Memory>();
  OpDecoder decoder(memory->bytes, contents.header.time_shift);
  decoder.begin_block();
  OpRecord op;
  for (uint32_t i = 0; i < header.record_count; ++i) {
    const size_t taken = decoder.decode(body, op);
    if (taken == 0) return;
    body = body.subspan(taken);
    contents.duplicates += contents.ops.count(ticket_of(op.publish));
    contents.ops[ticket_of(op.publish)] = op;
  }
}

inline SegmentContents read_segment(const std::string& path) {
  SegmentContents contents;
  const std::string bytes = file_bytes(path);
  const auto* start = reinterpret_cast<const uint8_t*>(bytes.data());
  contents.verdict =
      judge_segment_header(std::as_bytes(std::span(bytes.data(), bytes.size())), contents.header);
  if (contents.verdict != HeaderVerdict::fine) return contents;
  size_t at = sizeof(SegmentHeader);
  while (at + sizeof(BlockHeader) <= bytes.size()) {
    BlockHeader header;
    std::memcpy(&header, start + at, sizeof(header));
    if (!block_header_is_valid(header, bytes.size() - at)) return contents;
    const std::span<const uint8_t> body(start + at + sizeof(header), header.body_bytes);
    if (crc32c(body.data(), body.size()) != header.body_crc) return contents;
    read_block(header, body, contents);
    at += sizeof(header) + header.body_bytes;
  }
  contents.whole = at == bytes.size();
  return contents;
}

inline uint32_t open_test_comm(const void* handle, uint64_t number = 1, int nranks = 8) {
  capture::CommOpening opening;
  opening.origin = CommOrigin::init;
  opening.key = {0xabc, number};
  opening.nranks = nranks;
  opening.rank = 0;
  const uint32_t index = capture::open_comm(opening);
  capture::bind_comm(index, handle);
  capture::comm_ready(index, nranks, 0, 0, 0);
  return index;
}

inline capture::OpCall all_reduce(const void* comm, uint64_t count) {
  capture::OpCall call;
  call.kind = OpKind::AllReduce;
  call.datatype = 7;
  call.reduction = 0;
  call.count = count;
  call.comm_handle = comm;
  return call;
}

// Of 0, 1, 2 ... elements.
inline void record_all_reduces(const void* comm, int calls) {
  for (int n = 0; n < calls; ++n) {
    capture::end_op(capture::begin_op(all_reduce(comm, static_cast<uint64_t>(n))), 0);
  }
}

}  // namespace rollcall::test
