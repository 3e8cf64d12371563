// `rollcall export`: into one file, or one for each rank or host.
#include <filesystem>
#include <set>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_export {

using namespace rollcall::test;

void make_run(const Folder& folder) {
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "12", "--ops", "20"}).status == 0);
}

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename());
  }
  return names;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("--partition rank writes a whole file for each rank, and nothing else") {
  const Folder folder;
  make_run(folder);
  const Outcome one = run_command(folder, {"export", "run", "-o", "one.parquet"});
  REQUIRE(one.status == 0);
  const Outcome parts =
      run_command(folder, {"export", "run", "--partition", "rank", "-o", "ranks"});
  REQUIRE(parts.status == 0);
  std::set<std::string> expected;
  for (int rank = 0; rank < 12; ++rank)
    expected.insert("rank-" + std::to_string(rank) + ".parquet");
  CHECK(names_in(folder / "ranks") == expected);
  const std::string of_one = read_text(std::string(folder / "ranks") + "/rank-3.parquet");
  CHECK(of_one.starts_with("PAR1"));
  CHECK(of_one.ends_with("PAR1"));
  // All have as many rows as the one file.
  CHECK(contains(one.err, "240 calls are in one.parquet"));
  CHECK(contains(parts.err, "240 calls are in ranks"));
}

TEST_CASE("--partition host writes a file for each host") {
  const Folder folder;
  make_run(folder);
  REQUIRE(run_command(folder, {"export", "run", "--partition", "host", "-o", "hosts"}).status == 0);
  CHECK(names_in(folder / "hosts") ==
        std::set<std::string>{"host-node0000.parquet", "host-node0001.parquet"});
}

TEST_CASE("a directory that holds something is left as it is, for readers take all files in it") {
  const Folder folder;
  make_run(folder);
  REQUIRE(run_command(folder, {"export", "run", "--partition", "host", "-o", "hosts"}).status == 0);
  const std::set<std::string> before = names_in(folder / "hosts");
  const Outcome again =
      run_command(folder, {"export", "run", "--partition", "rank", "-o", "hosts"});
  CHECK(again.status == 2);
  CHECK(contains(again.err, "there are files in it already; choose another directory"));
  CHECK(names_in(folder / "hosts") == before);
}

}  // namespace test_export
