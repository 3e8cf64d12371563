// Segment files beside others who remove them.
#include "core/capture/segment_writer.h"

#include "tests/capture/own_process.h"
#include "tests/catch.h"
#include "tests/file_bytes.h"

namespace rollcall {
namespace segment_writer_test {

using test::TemporaryDirectory;

constexpr uint64_t kBytesMax = 1 << 20;
constexpr size_t kBlockBytes = 10'000;

capture::SegmentWriter writer_in(const TemporaryDirectory& directory) {
  capture::SegmentWriter writer;
  REQUIRE(writer.begin({.directory = directory.path().c_str(),
                        .stem = "node-1.4711.63",
                        .kind = SegmentKind::history,
                        .pid = 4711,
                        .start_time_ticks = 99,
                        .run_id = 1,
                        .time_shift = 0,
                        .bytes_max = kBytesMax}));
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

std::string path_of_segment(const TemporaryDirectory& directory, int index) {
  char ending[32];
  snprintf(ending, sizeof(ending), ".%06d.segment", index);
  return directory.path() + "/node-1.4711.63" + ending;
}

TEST_CASE("what somebody else has put under a segment's name is not written into, and counted") {
  const TemporaryDirectory directory;
  const std::string foreign = directory.path() + "/foreign";
  std::ofstream(foreign) << "mine";
  REQUIRE(mkfifo(path_of_segment(directory, 0).c_str(), 0600) == 0);
  REQUIRE(symlink(foreign.c_str(), path_of_segment(directory, 1).c_str()) == 0);
  std::ofstream(path_of_segment(directory, 2)) << "mine, too";
  capture::SegmentWriter writer = writer_in(directory);
  append(writer, 1);
  CHECK(writer.take_foreign_files() == 3);
  CHECK(writer.take_foreign_files() == 0);
  CHECK(writer.segment_count() == 4);
  CHECK(test::file_bytes(foreign) == "mine");
  CHECK(test::file_bytes(path_of_segment(directory, 2)) == "mine, too");
  CHECK(test::file_bytes(path_of_segment(directory, 3)).size() ==
        sizeof(SegmentHeader) + kBlockBytes);
}

TEST_CASE("what takes a segment's place between two blocks is left alone") {
  const TemporaryDirectory directory;
  capture::SegmentWriter writer = writer_in(directory);
  const std::string first = path_of_segment(directory, 0);
  append(writer, 1);
  std::filesystem::remove(first);
  SECTION("a pipe, with a reader") {
    REQUIRE(mkfifo(first.c_str(), 0600) == 0);
    const int reader = open(first.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    append(writer, 1);
    char byte = 0;
    CHECK(read(reader, &byte, 1) <= 0);
    close(reader);
  }
  SECTION("another file") {
    std::ofstream(first) << "mine";
    append(writer, 1);
    CHECK(test::file_bytes(first) == "mine");
  }
  CHECK(writer.take_foreign_files() == 1);
  CHECK(test::file_bytes(path_of_segment(directory, 1)).size() ==
        sizeof(SegmentHeader) + kBlockBytes);
}

TEST_CASE("the bound removes no file that somebody else has put under a segment's name") {
  const TemporaryDirectory directory;
  capture::SegmentWriter writer = writer_in(directory);
  append(writer, 90);
  const std::string first = path_of_segment(directory, 0);
  std::filesystem::remove(first);
  std::ofstream(first) << "mine";
  append(writer, 500);
  CHECK(test::file_bytes(first) == "mine");
  CHECK(writer.held_bytes() <= kBytesMax);
}

TEST_CASE("a directory whose segments would have too long a name takes none, under no other name") {
  const TemporaryDirectory directory;
  std::string path = directory.path();
  while (path.size() < 4050) path += "/.";
  capture::SegmentWriter writer;
  capture::SegmentWriter::Options options{.directory = path.c_str(),
                                          .stem = "node-1.4711.63-and-some-more",
                                          .kind = SegmentKind::history,
                                          .pid = 4711,
                                          .start_time_ticks = 99,
                                          .run_id = 1,
                                          .time_shift = 0,
                                          .bytes_max = kBytesMax};
  CHECK_FALSE(writer.begin(options));
  const std::vector<uint8_t> block(kBlockBytes, 7);
  CHECK_FALSE(writer.append(block));
  CHECK(errno == ENAMETOOLONG);
  CHECK(directory.files("").empty());
}

}  // namespace segment_writer_test
}  // namespace rollcall
