// Which hosts a verdict may name, and how the list of them is kept.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tools/exclude_file.h"

namespace rollcall::tools {
namespace test_exclude_file {

using Names = std::vector<std::string>;

class List {
 public:
  List() { REQUIRE(::mkdtemp(folder_) != nullptr); }
  ~List() {
    ::unlink(path().c_str());
    ::unlink((path() + ".lock").c_str());
    ::rmdir(folder_);
  }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  std::string folder() const { return folder_; }
  std::string path() const { return std::string(folder_) + "/exclude"; }
  std::string text() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Names add(const Names& hosts) const {
    Names added;
    std::string error;
    REQUIRE(add_hosts(path(), hosts, added, error));
    return added;
  }

 private:
  char folder_[32] = "/tmp/rollcall-test-XXXXXX";
};

TEST_CASE("only a certain verdict of class node names hosts") {
  Incident incident;
  incident.origin = "node";
  incident.is_certain = true;
  incident.hosts = {"node1", "node2"};
  CHECK(hosts_to_exclude(incident) == Names{"node1", "node2"});
  incident.is_certain = false;
  CHECK(hosts_to_exclude(incident).empty());
  incident.is_certain = true;
  for (const char* origin : {"program", "fabric", "outside", "unknown", "", "Node"}) {
    incident.origin = origin;
    CHECK(hosts_to_exclude(incident).empty());
  }
}

TEST_CASE("what is no name of a host is left out") {
  Incident incident;
  incident.origin = "node";
  incident.is_certain = true;
  incident.hosts = {"",  "-rf", "a b",       "a;reboot", "$(id)", "a\nb",
                    ".", "..",  "gpu-7.x_y", "a,b",      "a/b"};
  CHECK(hosts_to_exclude(incident) == Names{"gpu-7.x_y"});
}

TEST_CASE("a host is added once, and what the list holds stays") {
  const List list;
  CHECK(list.add({"node1", "node2"}) == Names{"node1", "node2"});
  CHECK(list.text() == "node1\nnode2\n");
  CHECK(list.add({"node2"}).empty());
  std::ofstream(list.path()) << "# by hand\nnode11";
  CHECK(list.add({"node1", "node11"}) == Names{"node1"});
  CHECK(list.text() == "# by hand\nnode11\nnode1\n");
}

TEST_CASE("a list in a folder that this process has locked is written all the same") {
  const List list;
  // As `rollcall run` holds its run directory.
  const int folder = ::open(list.folder().c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(::flock(folder, LOCK_EX) == 0);
  CHECK(list.add({"node1"}) == Names{"node1"});
  ::close(folder);
}

TEST_CASE("of several who add to a list at once nobody's host is lost") {
  const List list;
  std::vector<std::thread> jobs;
  std::atomic<int> refused{0};
  for (int i = 0; i < 8; ++i) {
    jobs.emplace_back([&list, &refused, i] {
      Names added;
      std::string error;
      if (!add_hosts(list.path(), {"node" + std::to_string(i)}, added, error)) ++refused;
    });
  }
  for (std::thread& job : jobs) job.join();
  CHECK(refused == 0);
  const std::string text = list.text();
  for (int i = 0; i < 8; ++i) {
    CHECK(text.find("node" + std::to_string(i) + "\n") != std::string::npos);
  }
}

TEST_CASE("a list that cannot be written is told, with the reason") {
  Names added;
  std::string error;
  CHECK_FALSE(add_hosts("/nonexistent/exclude", {"node1"}, added, error));
  CHECK(error == "No such file or directory");
  const List list;
  REQUIRE(::mkdir(list.path().c_str(), 0700) == 0);
  error.clear();
  CHECK_FALSE(add_hosts(list.path(), {"node1"}, added, error));
  CHECK_FALSE(error.empty());
  ::rmdir(list.path().c_str());
}

}  // namespace test_exclude_file
}  // namespace rollcall::tools
