// Packed files, and those that are damaged or made to fill a disk.
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <vector>

#include "tests/catch.h"
#include "trace/import/importer.h"

namespace rollcall::trace {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes gzip(const std::string& text) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&state, text.size()));
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = packed.data();
  state.avail_out = static_cast<uInt>(packed.size());
  deflate(&state, Z_FINISH);
  packed.resize(state.total_out);
  deflateEnd(&state);
  return packed;
}

Bytes zstd(const std::string& text) {
  Bytes packed(ZSTD_compressBound(text.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

Bytes xz(const std::string& text) {
  Bytes packed(lzma_stream_buffer_bound(text.size()));
  size_t size = 0;
  lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr,
                          reinterpret_cast<const uint8_t*>(text.data()), text.size(), packed.data(),
                          &size, packed.size());
  packed.resize(size);
  return packed;
}

std::string log_of(int calls) {
  std::string text =
      "n:10:1 [0] NCCL INFO ncclCommInitRank comm 0x0a rank 0 nranks 1 cudaDev 0 commId 0x5 - Init "
      "COMPLETE\n";
  for (int i = 0; i < calls; ++i) {
    text += "n:10:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count " +
            std::to_string(i * 7919 % 10007) +
            " datatype 7 op 0 root 0 comm 0x0a [nranks=1] stream 0x1\n";
  }
  return text;
}

struct Result {
  std::vector<Process> processes;
  std::vector<Issue> issues;
  ImportedFile file;
  bool says(const std::string& words) const {
    for (const Issue& issue : issues) {
      if (issue.text.find(words) != std::string::npos) return true;
    }
    return false;
  }
};

Result import(const Bytes& bytes) {
  Result result;
  result.file = import_bytes("job.log.packed", bytes, result.processes, result.issues);
  return result;
}

TEST_CASE("a packed log is read as the log is, whatever packed it") {
  const std::string text = log_of(100);
  for (const Bytes& packed : {gzip(text), zstd(text), xz(text)}) {
    const Result result = import(packed);
    REQUIRE(result.processes.size() == 1);
    CHECK(result.processes[0].ops.size() == 100);
    CHECK(result.issues.size() == 1);  // what every log lacks
  }
}

TEST_CASE("packed files that were put together are read through") {
  for (const auto pack : {gzip, zstd, xz}) {
    Bytes both = pack(log_of(100));
    const Bytes second = pack(
        "n:10:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 "
        "count 5 datatype 7 op 0 root 0 comm 0x0a [nranks=1] stream 0x1\n");
    both.insert(both.end(), second.begin(), second.end());
    const Result result = import(both);
    REQUIRE(result.processes.size() == 1);
    CHECK(result.processes[0].ops.size() == 101);
    CHECK_FALSE(result.says("packed with"));
  }
}

TEST_CASE("a packed log that was cut is read up to there, and it is said") {
  for (const auto pack : {gzip, zstd, xz}) {
    Bytes packed = pack(log_of(20000));
    packed.resize(packed.size() / 2);
    const Result result = import(packed);
    CHECK(result.says("ends in the middle"));
    CHECK(result.file.is_known);
    // xz and zstd give whole blocks only.
    if (pack == gzip) {
      REQUIRE(result.processes.size() == 1);
      CHECK(result.processes[0].ops.size() > 5000);
    }
  }
}

TEST_CASE("a packed log that is damaged is read up to there, and it is said") {
  Bytes packed = gzip(log_of(20000));
  for (size_t i = 0; i < 64; ++i) packed[packed.size() / 2 + i] ^= 0x55;
  CHECK(import(packed).says("is packed with gzip and is damaged"));
}

TEST_CASE("a few kilobytes that unpack to more than any log does are refused by size") {
  const std::string zeros(size_t{400} << 20, '\0');
  const Bytes packed = gzip(zeros);
  REQUIRE(packed.size() < zeros.size() / 900);
  const Result result = import(packed);
  CHECK(result.processes.empty());
  REQUIRE(result.issues.size() == 1);
  CHECK(result.issues[0].unusable);
  CHECK(result.says("unpack to more than 256 MiB, which no log does"));
}

TEST_CASE("an archive within a packed file is named for what it is") {
  std::string tar(1024, '\0');
  tar.replace(0, 7, "job.log");
  tar.replace(257, 5, "ustar");
  CHECK(import(gzip(tar)).says("is a tar archive; unpack it"));
}

}  // namespace
}  // namespace rollcall::trace
