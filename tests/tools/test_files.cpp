// The files that commands write, in directories that belong to somebody else, beside others who
// write the same, and where names are taken by what is no file.
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_files {

using namespace rollcall;
using namespace rollcall::test;

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> names_in(const std::string& directory, const std::string& part) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (contains(name, part)) names.push_back(name);
  }
  return names;
}

// A run of one process with a segment that `pack` makes smaller; the paths of ring and segment.
struct Recording {
  std::string ring;
  std::string segment;
};
Recording make_run(const Folder& folder) {
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "1", "--ops", "40000"}).status ==
          0);
  // The process is known to have ended where it left an exit record, as this one did.
  return {folder / "run/" + names_in(folder / "run", ".ring").at(0),
          folder / "run/" + names_in(folder / "run", ".segment").at(0)};
}

struct stat status_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status;
}

std::string temporary_in(const std::string& directory) {
  return directory + "/.rollcall-0123456789abcdef.part";
}

void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST_CASE("a packed segment keeps the mode and the owner of the one that it replaces") {
  const Folder folder;
  const Recording run = make_run(folder);
  REQUIRE(::chmod(run.segment.c_str(), 0640) == 0);
  const bool is_root = ::geteuid() == 0;
  const uid_t owner = is_root ? 65534 : ::geteuid();
  if (is_root) REQUIRE(::chown(run.segment.c_str(), owner, 65534) == 0);
  const auto before = status_of(run.segment);

  const Outcome packed = run_command(folder, {"pack", "run"});
  CHECK(packed.status == 0);
  CHECK(contains(packed.out, "1 segments packed"));
  const auto now = status_of(run.segment);
  CHECK(now.st_size < before.st_size);
  CHECK(now.st_uid == owner);
  CHECK(now.st_gid == before.st_gid);
  CHECK((now.st_mode & 07777) == 0640);
  CHECK(names_in(folder / "run", ".part").empty());
}

TEST_CASE("what lies at the names that pack once used is neither followed nor waited for") {
  const Folder folder;
  const Recording run = make_run(folder);
  put(folder / "victim", "untouched");
  // A tail that cannot be read is carried over: whoever chose it would choose the victim's end.
  std::ofstream(run.segment, std::ios::binary | std::ios::app) << "evil::0:0:evil:/root:/bin/sh\n";
  SECTION("a link") {
    REQUIRE(::symlink((folder / "victim").c_str(), (run.segment + ".packing").c_str()) == 0);
  }
  SECTION("a pipe") { REQUIRE(::mkfifo((run.segment + ".packing").c_str(), 0600) == 0); }
  const Outcome packed = run_command(folder, {"pack", "run"});
  CHECK(packed.status == 0);
  CHECK(contains(packed.out, "1 segments packed"));
  CHECK(read_text(folder / "victim") == "untouched");
  CHECK(S_ISREG(status_of(run.segment).st_mode));
  CHECK(contains(read_text(run.segment), "evil::0:0"));
}

TEST_CASE("a segment that is a link or a pipe is left alone, and pack ends") {
  const Folder folder;
  const Recording run = make_run(folder);
  const std::string aside = folder / "aside";
  fs::rename(run.segment, aside);
  const auto before = status_of(aside);
  SECTION("a link") { REQUIRE(::symlink(aside.c_str(), run.segment.c_str()) == 0); }
  SECTION("a pipe") { REQUIRE(::mkfifo(run.segment.c_str(), 0600) == 0); }
  const Outcome packed = run_command(folder, {"pack", "run"});
  CHECK(contains(packed.out, "0 segments packed"));
  CHECK_FALSE(S_ISREG(status_of(run.segment).st_mode));
  CHECK(status_of(aside).st_size == before.st_size);
}

TEST_CASE("the owner of a segment that cannot be kept is a reason to leave it as it is") {
  if (::geteuid() != 0) return;  // nobody else can make a file that belongs to another user
  const Folder folder;
  const Recording run = make_run(folder);
  const auto before = status_of(run.segment);  // root's, in a directory that is now nobody's
  REQUIRE(::chmod(run.segment.c_str(), 0644) == 0);
  REQUIRE(::chmod(run.ring.c_str(), 0644) == 0);
  REQUIRE(::chown((folder / "run").c_str(), 65534, 65534) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int out = ::open((folder / "said").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(out, 2);
    if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(99);
    ::execl(ROLLCALL_COMMAND, "rollcall", "pack", (folder / "run").c_str(), nullptr);
    ::_exit(98);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(contains(read_text(folder / "said"), "it belongs to user 0"));
  CHECK(status_of(run.segment).st_ino == before.st_ino);
  CHECK(names_in(folder / "run", ".part").empty());
}

TEST_CASE("the second pack of a directory leaves it to the first and says so") {
  const Folder folder;
  const Recording run = make_run(folder);
  const auto before = status_of(run.segment);
  const int directory = ::open((folder / "run").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(directory, LOCK_EX) == 0);
  const Outcome second = run_command(folder, {"pack", "run"});
  CHECK(second.status == 5);
  CHECK(contains(second.err, "run is being packed by another `rollcall pack`"));
  CHECK(contains(second.out, "0 segments packed"));
  CHECK(status_of(run.segment).st_ino == before.st_ino);
  ::close(directory);
  CHECK(run_command(folder, {"pack", "run"}).status == 0);
  CHECK(status_of(run.segment).st_ino != before.st_ino);
}

TEST_CASE("packs that are killed at any moment lose no call, and the next one tidies up") {
  const Folder folder;
  const Recording run = make_run(folder);
  const Outcome before = run_command(folder, {"stats", "run", "--json"});
  fs::copy(folder / "run", folder / "copy");
  for (int round = 0; round < 12; ++round) {
    fs::copy(folder / "copy", folder / "run", fs::copy_options::overwrite_existing);
    Started first(folder, {"pack", "run"});
    Started second(folder, {"pack", "run"});
    ::poll(nullptr, 0, round * 2);  // another moment in each round
    ::kill(second.pid(), SIGKILL);
    const Outcome outcome = first.finish();
    CHECK((outcome.status == 0 || outcome.status == 5));
    CHECK(run_command(folder, {"stats", "run", "--json"}).out == before.out);
  }
  put(temporary_in(folder / "run"), "of a pack that was killed");
  CHECK(run_command(folder, {"pack", "run"}).status == 0);
  CHECK(names_in(folder / "run", ".part").empty());
  CHECK(run_command(folder, {"stats", "run", "--json"}).out == before.out);
}

TEST_CASE("a new file that its maker holds is not taken for a leftover") {
  const Folder folder;
  const Recording run = make_run(folder);
  put(temporary_in(folder / "run"), "is being written");
  const int file = ::open(temporary_in(folder / "run").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(::flock(file, LOCK_EX) == 0);
  CHECK(run_command(folder, {"pack", "run"}).status == 0);
  CHECK(names_in(folder / "run", ".part").size() == 1);
  ::close(file);
}

TEST_CASE("a trace replaces a file and keeps its mode, and follows no link to do it") {
  const Folder folder;
  make_run(folder);
  put(folder / "t.json", "old");
  REQUIRE(::chmod((folder / "t.json").c_str(), 0640) == 0);
  CHECK(run_command(folder, {"trace", "run", "-o", "t.json"}).status == 0);
  CHECK((status_of(folder / "t.json").st_mode & 07777) == 0640);
  CHECK(read_text(folder / "t.json").size() > 3);

  REQUIRE(::symlink("t.json", (folder / "link.json").c_str()) == 0);
  const Outcome refused = run_command(folder, {"trace", "run", "-o", "link.json"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, "link.json could not be written: it is a symbolic link"));
}

TEST_CASE("a trace into a pipe or a directory is refused by name, and waits for nobody") {
  const Folder folder;
  make_run(folder);
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const Outcome pipe = run_command(folder, {"trace", "run", "-o", "pipe"});
  CHECK(pipe.status == 2);
  CHECK(contains(pipe.err, "pipe could not be written: it is a pipe"));
  fs::create_directory(folder / "place");
  const Outcome directory = run_command(folder, {"trace", "run", "-o", "place"});
  CHECK(directory.status == 2);
  CHECK(contains(directory.err, "place could not be written: it is a directory"));
  CHECK(names_in(folder.path(), ".part").empty());
}

TEST_CASE("a trace goes to the standard output and to nowhere by every name they have") {
  const Folder folder;
  make_run(folder);
  const Outcome plain = run_command(folder, {"trace", "run", "-o", "-"});
  CHECK(plain.status == 0);
  CHECK(run_command(folder, {"trace", "run", "-o", "/dev/stdout"}).out == plain.out);
  const Outcome nowhere = run_command(folder, {"trace", "run", "-o", "/dev/null"});
  CHECK(nowhere.status == 0);
  CHECK(nowhere.out.empty());
  CHECK(S_ISCHR(status_of("/dev/null").st_mode));
  const Outcome numbered =
      run_shell(folder, "\"$ROLLCALL\" trace run -o /dev/fd/7 7>seven && cat seven");
  CHECK(numbered.status == 0);
  CHECK(numbered.out == plain.out);
}

TEST_CASE("a report is one page with the verdict in it, the same bytes in a file and on stdout") {
  const Folder folder;
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "4", "--ops", "40", "--fault",
                               "missing-call@2"})
              .status == 0);
  const Outcome verdict = run_command(folder, {"diff", "run", "--sentence"});
  const Outcome written = run_command(folder, {"report", "run", "-o", "r.html"});
  CHECK(written.status == 0);
  CHECK(written.out.empty());
  CHECK(contains(written.err, verdict.out.substr(0, verdict.out.find('\n'))));
  const std::string page = read_text(folder / "r.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(contains(page, "RC-MISSING-CALL"));
  CHECK(run_command(folder, {"report", "run"}).out == page);
  CHECK(run_command(folder, {"report", "run", "-o", "/dev/stdout"}).out == page);
  CHECK(run_command(folder, {"report", "run", "-o", "/dev/null"}).status == 0);
  CHECK(S_ISCHR(status_of("/dev/null").st_mode));
}

TEST_CASE("a report follows no link to be written, and leaves nothing where it cannot be") {
  const Folder folder;
  make_run(folder);
  put(folder / "r.html", "old");
  REQUIRE(::symlink("r.html", (folder / "link.html").c_str()) == 0);
  const Outcome refused = run_command(folder, {"report", "run", "-o", "link.html"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, "link.html could not be written: it is a symbolic link"));
  CHECK(read_text(folder / "r.html") == "old");
  CHECK(names_in(folder.path(), ".part").empty());
}

TEST_CASE("a verdict is kept in the run directory, never behind a link in it") {
  const Folder folder;
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "4", "--ops", "40", "--fault",
                               "missing-call@2"})
              .status == 0);
  fs::create_directory(folder / "theirs");
  REQUIRE(::symlink("../theirs", (folder / "run/incidents").c_str()) == 0);
  const std::vector<std::string> keep = {"diff", "run", "--incident"};
  const Outcome refused = run_command(folder, keep);
  CHECK(contains(refused.err, "the verdict could not be kept: run/incidents could not be made"));
  CHECK(fs::is_empty(folder / "theirs"));
  REQUIRE(::unlink((folder / "run/incidents").c_str()) == 0);
  const Outcome kept = run_command(folder, keep);
  CHECK(kept.status == refused.status);
  CHECK(contains(kept.out, "Saved in run/incidents/"));
}

TEST_CASE("a report of an incident is of its run, with what the incident said") {
  const Folder folder;
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "4", "--ops", "40", "--fault",
                               "missing-call@2"})
              .status == 0);
  const Outcome kept = run_command(folder, {"diff", "run", "--incident"});
  const size_t name_at = kept.out.find("run/incidents/");
  REQUIRE(name_at != std::string::npos);
  const std::string incident = kept.out.substr(name_at, kept.out.find('\n', name_at) - name_at);
  put(folder / (incident + "/stacks.txt"), "of this one\n");
  const std::string page = run_command(folder, {"report", incident}).out;
  CHECK(contains(page, "<dt>this incident</dt>"));
  CHECK(contains(page, incident.substr(4) + ": RC-MISSING-CALL: "));
  CHECK(contains(page, "of this one"));
  // From within, by its name alone.
  const Outcome within =
      run_shell(folder, "cd run/incidents && \"$ROLLCALL\" report " + incident.substr(14));
  CHECK(within.status == 0);
  CHECK(contains(within.out, "<dt>this incident</dt>"));
  // Of the run it is one that was kept.
  const std::string of_run = run_command(folder, {"report", "run"}).out;
  CHECK(contains(of_run, "<dt>kept while it ran</dt>"));
  CHECK(contains(of_run, "of this one"));
  // What links lead to is told of neither, for a page is sent to others.
  put(folder / "secret",
      "{\"culprits\": [], \"code\": \"RC-X\", \"summary\": \"of somebody else\"}\n");
  for (const std::string name : {"changes.txt", "incident.json", "stacks.txt"}) {
    fs::remove(folder / (incident + "/" + name));
    REQUIRE(::symlink("../../../secret", (folder / (incident + "/" + name)).c_str()) == 0);
  }
  CHECK_FALSE(contains(run_command(folder, {"report", incident}).out, "of somebody else"));
  CHECK_FALSE(contains(run_command(folder, {"report", "run"}).out, "of somebody else"));
  CHECK_FALSE(contains(run_command(folder, {"diff", "run"}).out, "of somebody else"));
  // Any other folder of that name is no incident.
  fs::create_directories(folder / "incidents/x");
  CHECK(run_command(folder, {"report", "incidents/x"}).status == 2);

  // It is no second run.
  const Outcome twice = run_command(folder, {"report", incident, "run"});
  CHECK(twice.status == 2);
  CHECK(contains(twice.err, "both paths are of the run run, which cannot be held against itself"));
}

TEST_CASE("a command that is told to end takes the file it was writing with it") {
  const Folder folder;
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "8", "--ops", "60000"}).status ==
          0);
  Started trace(folder, {"trace", "run", "-o", "t.json"});
  for (int i = 0; i < 60'000 && names_in(folder.path(), ".part").empty(); ++i) {
    ::poll(nullptr, 0, 1);
  }
  REQUIRE(names_in(folder.path(), ".part").size() == 1);
  ::kill(trace.pid(), SIGTERM);
  CHECK(trace.finish().status == 128 + SIGTERM);
  CHECK(names_in(folder.path(), ".part").empty());
  CHECK(names_in(folder.path(), "t.json").empty());
}

TEST_CASE("a switch is written into rings only, never through a link out of the run") {
  const Folder folder;
  const Recording run = make_run(folder);
  const std::string aside = folder / "aside";
  fs::rename(run.ring, aside);
  const std::string before = read_text(aside);
  REQUIRE(::symlink(aside.c_str(), run.ring.c_str()) == 0);
  const Outcome paused = run_command(folder, {"ctl", "pause", "run"});
  CHECK(paused.status == 2);
  CHECK(contains(paused.err, "is a symbolic link, which is not followed for writing"));
  CHECK(read_text(aside) == before);
}

TEST_CASE("no reader opens what has the name of a recording and is no file") {
  const Folder folder;
  make_run(folder);
  // Of a device an open alone may have an effect; a pipe stands for it, which anybody can make.
  const std::string node = folder / "run/x.1.1.ring";
  REQUIRE(::mkfifo(node.c_str(), 0600) == 0);
  const int watcher = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  REQUIRE(::inotify_add_watch(watcher, node.c_str(), IN_OPEN) >= 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"info", "run"}, {"diff", "run"}, {"ctl", "status", "run"}}) {
    INFO(words[0]);
    const Outcome outcome = run_command(folder, words);
    CHECK(contains(outcome.out + outcome.err, "is not a regular file"));
    char event[sizeof(inotify_event) + 256];
    CHECK(::read(watcher, event, sizeof event) == -1);
  }
  // The watch would have told.
  ::close(::open(node.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  char event[sizeof(inotify_event) + 256];
  CHECK(::read(watcher, event, sizeof event) > 0);
  ::close(watcher);
}

}  // namespace test_files
