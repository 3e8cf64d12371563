// Segment files beside others who remove them.
#include "core/capture/segment_writer.h"

#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace {

using test::TemporaryDirectory;

constexpr uint64_t kBytesMax = 1 << 20;
constexpr size_t kBlockBytes = 10'000;

capture::SegmentWriter writer_in(const TemporaryDirectory& directory) {
  capture::SegmentWriter writer;
  writer.begin({.directory = directory.path().c_str(),
                .stem = "node-1.4711.63",
                .kind = SegmentKind::history,
                .pid = 4711,
                .start_time_ticks = 99,
                .run_id = 1,
                .time_shift = 0,
                .bytes_max = kBytesMax});
  return writer;
}

void append(capture::SegmentWriter& writer, int blocks) {
  const std::vector<uint8_t> block(kBlockBytes, 7);
  for (int i = 0; i < blocks; ++i) REQUIRE(writer.append(block));
}

uint64_t bytes_on_disk(const TemporaryDirectory& directory) {
  uint64_t bytes = 0;
  for (const std::string& file : directory.files("")) bytes += std::filesystem::file_size(file);
  return bytes;
}

void check_bound(const capture::SegmentWriter& writer, const TemporaryDirectory& directory) {
  CHECK(writer.held_bytes() == bytes_on_disk(directory));
  CHECK(writer.held_bytes() <= kBytesMax);
  CHECK(writer.held_bytes() > kBytesMax / 2);
}

TEST_CASE("the oldest segments go when the history's bound is reached, and no others") {
  const TemporaryDirectory directory;
  capture::SegmentWriter writer = writer_in(directory);
  append(writer, 500);
  check_bound(writer, directory);
  CHECK(writer.dropped_files() + directory.files("").size() == writer.segment_count());
}

TEST_CASE("segments that somebody removes leave their room to later ones") {
  const TemporaryDirectory directory;
  capture::SegmentWriter writer = writer_in(directory);
  append(writer, 90);
  std::vector<std::string> files = directory.files("");
  REQUIRE(files.size() >= 4);
  files.pop_back();
  for (const std::string& file : files) std::filesystem::remove(file);
  append(writer, 500);
  check_bound(writer, directory);
  // Also where all of it goes.
  for (const std::string& file : directory.files("")) std::filesystem::remove(file);
  append(writer, 500);
  check_bound(writer, directory);
}

}  // namespace
}  // namespace rollcall
