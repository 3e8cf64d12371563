// What the job calls its groups: read from the file beside the ring, with suspicion.
#include "trace/group_file.h"

#include <filesystem>

#include "tests/catch.h"
#include "tests/trace/files.h"
#include "trace/loader.h"

namespace rollcall::trace {
namespace {

using test::Directory;
using test::RingBytes;

constexpr const char* kDigest = "aaa4f203ddf9028f69177fbaad56f1c52f846159";
const std::string kHead = std::string(kGroupFileHead) + "\n";

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

RingBytes ring_with_group(const std::string& name) {
  RingBytes ring;
  char field[kCommNameBytes] = {};
  name.copy(field, sizeof field - 1);
  for (size_t at = 0; at < sizeof field; ++at) {
    ring.put(ring.header.comms.offset + offsetof(CommEntry, name) + at, field[at]);
  }
  return ring;
}

// What the communicator of a ring is called beside such a file.
std::string name_beside(const std::string& name, const std::string& text) {
  Directory directory;
  directory.write("node0.4711.4d.ring", ring_with_group(name).bytes);
  directory.write("node0.4711.4d.groups", bytes_of(text));
  LoadOptions options;
  options.probe_processes = false;
  const Run run = load_run(directory.path(), options);
  REQUIRE(run.processes.size() == 1);
  REQUIRE(run.issues.empty());
  REQUIRE(run.processes[0].comms.size() == 1);
  return run.processes[0].comms[0].name;
}

TEST_CASE("a communicator is called by its description, and by as much of its name as tells it") {
  CHECK(name_beside("5", kHead + "5 mesh_tp\n") == "mesh_tp:5");
  CHECK(name_beside("5", kHead + "4 mesh_dp\n5 first two\n") == "first two:5");
  // The ring has 39 characters of a digest's 40.
  CHECK(name_beside(kDigest, kHead + kDigest + " mesh_tp\n") == "mesh_tp:aaa4f203");
  CHECK(name_beside("experts", kHead + "experts ep\n") == "ep:experts");
}

TEST_CASE("what the file does not describe keeps its name") {
  CHECK(name_beside("5", kHead + "6 mesh_tp\n") == "5");
  CHECK(name_beside("5", kHead) == "5");
  CHECK(name_beside("", kHead + " mesh_tp\n").empty());
}

TEST_CASE("a text that is none of groups, or was cut off, describes nothing more") {
  CHECK(parse_groups("").empty());
  CHECK(parse_groups("rollcall_groups 2\n5 mesh_tp\n").empty());
  CHECK(parse_groups("5 mesh_tp\n").empty());
  CHECK(parse_groups(kHead + "5 mesh_tp").empty());
  const auto groups = parse_groups(kHead + "4 dp\n\n5\n6 \n 7 x\n8 a\033[31mb\n9 c\r\n10 ö\n11 t");
  CHECK(groups == std::map<std::string, std::string>{{"4", "dp"}, {"10", "ö"}});
  const std::string whole = kHead + "4 dp\n5 tp\n";
  for (size_t length = 0; length <= whole.size(); ++length) {
    CHECK(parse_groups(whole.substr(0, length)).size() <= 2);
  }
}

TEST_CASE("a description is cut to what a report has room for") {
  const auto groups = parse_groups(kHead + "5 " + std::string(5000, 'x') + "\n");
  REQUIRE(groups.size() == 1);
  CHECK(groups.at("5").size() == 80);
}

TEST_CASE("a link in the file's place is not followed") {
  Directory directory;
  directory.write("elsewhere", bytes_of(kHead + "5 mesh_tp\n"));
  std::vector<Comm> comms(1);
  comms[0].name = "5";
  const std::string ring = directory.path() + "/node0.1.1.ring";
  std::filesystem::create_symlink(directory.path() + "/elsewhere",
                                  directory.path() + "/node0.1.1.groups");
  describe_groups(ring, comms);
  CHECK(comms[0].name == "5");
  std::filesystem::rename(directory.path() + "/elsewhere", directory.path() + "/node0.1.1.groups");
  describe_groups(ring, comms);
  CHECK(comms[0].name == "mesh_tp:5");
}

}  // namespace
}  // namespace rollcall::trace
