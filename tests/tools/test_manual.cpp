// Manual pages, completions, the version: what the command says of itself beside --help.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/format/ring_layout.h"
#include "core/format/segment_layout.h"
#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_manual {

using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The commands, as the help lists them, and the one that it does not list.
std::vector<std::string> commands_of(const Folder& folder) {
  const std::string help = run_command(folder, {"--help"}).out;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  std::vector<std::string> commands = {"synth"};
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  ", 0) == 0 && line[2] != ' ') {
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  return commands;
}

// "--watch" and others that the help of a command names as its own.
std::vector<std::string> options_of(const Folder& folder, const std::string& command) {
  std::istringstream lines(run_command(folder, {command, "--help"}).out);
  std::vector<std::string> options;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("--");
    if (line.rfind("  -", 0) != 0 || at == std::string::npos) continue;
    options.push_back(line.substr(at, line.find_first_of(" ,=[", at) - at));
  }
  return options;
}

std::string without_backslashes(std::string text) {
  std::string shown;
  for (const char c : text) {
    if (c != '\\') shown += c;
  }
  return shown;
}

// What bash offers for the last of `words`.
std::string offered(const Folder& folder, const std::string& words) {
  return run_shell(folder, "bash -c '. <(\"$1\" completion bash); COMP_WORDS=(rollcall " + words +
                               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rollcall; "
                               "echo \"${COMPREPLY[*]}\"' bash \"$ROLLCALL\"")
      .out;
}

TEST_CASE("the version comes with what it can read and what the plugin speaks") {
  const Folder folder;
  const Outcome outcome = run_command(folder, {"--version"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out.rfind("rollcall ", 0) == 0);
  const std::string rings = std::to_string(rollcall::kRingVersion);
  const std::string segments = std::to_string(rollcall::kSegmentVersion);
  CHECK(contains(outcome.out, " to " + rings + ", segments of version "));
  CHECK(contains(outcome.out, " to " + segments + "\n"));
  CHECK(contains(outcome.out, "profiler plugin: versions 1 to "));
}

TEST_CASE("the manual and every completion know each option that the help knows") {
  const Folder folder;
  const std::vector<std::string> commands = commands_of(folder);
  REQUIRE(commands.size() >= 12);
  const std::string bash = run_command(folder, {"completion", "bash"}).out;
  const std::string zsh = run_command(folder, {"completion", "zsh"}).out;
  const std::string fish = run_command(folder, {"completion", "fish"}).out;
  for (const std::string& command : commands) {
    INFO(command);
    const std::string manual = without_backslashes(run_command(folder, {"manual", command}).out);
    CHECK(contains(manual, "rollcall-" + command));
    CHECK(contains(bash, "    " + command + ")\n"));
    CHECK(contains(zsh, "    " + command + ")\n"));
    CHECK(contains(fish, "-f -a " + command + " -d"));
    const std::vector<std::string> options = options_of(folder, command);
    REQUIRE_FALSE(options.empty());
    for (const std::string& option : options) {
      INFO(option);
      CHECK(contains(manual, option));
      CHECK(contains(bash, option));
      CHECK(contains(zsh, option));
      CHECK(contains(fish, " -l " + option.substr(2)));
    }
  }
}

TEST_CASE("what writes jobs for tests is not on the first page of the help, and is reachable") {
  const Folder folder;
  const std::string help = run_command(folder, {"--help"}).out;
  CHECK(contains(help, "\n  diff  "));
  CHECK_FALSE(contains(help, "synth"));
  const Outcome own = run_command(folder, {"synth", "--help"});
  CHECK(own.status == 0);
  CHECK(contains(own.out, "--list-faults"));
  CHECK(contains(run_command(folder, {"manual"}).out, "synth"));
}

TEST_CASE("the pages of all commands are written where they are asked for, and nowhere else") {
  const Folder folder;
  CHECK(run_command(folder, {"manual", "-o", "absent"}).status == 2);
  CHECK(run_command(folder, {"manual", "-o", "."}).status == 0);
  CHECK(read_text(folder / "rollcall.1").rfind(".TH ROLLCALL 1", 0) == 0);
  for (const std::string& command : commands_of(folder)) {
    CHECK(read_text(folder / ("rollcall-" + command + ".1")) ==
          run_command(folder, {"manual", command}).out);
  }
  CHECK(run_command(folder, {"manual", "frobnicate"}).status == 2);
}

TEST_CASE("a page follows no link to be written, and waits for no pipe") {
  const Folder folder;
  std::ofstream(folder / "theirs") << "theirs";
  REQUIRE(::symlink("theirs", (folder / "rollcall.1").c_str()) == 0);
  const Outcome link = run_command(folder, {"manual", "-o", "."});
  CHECK(link.status == 2);
  CHECK(contains(link.err, "./rollcall.1 could not be written: it is a symbolic link"));
  CHECK(read_text(folder / "theirs") == "theirs");
  REQUIRE(::unlink((folder / "rollcall.1").c_str()) == 0);
  REQUIRE(::mkfifo((folder / "rollcall.1").c_str(), 0600) == 0);
  const Outcome pipe = run_command(folder, {"manual", "-o", "."});
  CHECK(pipe.status == 2);
  CHECK(contains(pipe.err, "it is a pipe"));
}

TEST_CASE("bash completes commands, options and the words that an option takes") {
  const Folder folder;
  CHECK(contains(offered(folder, "ver"), "verdicts"));
  CHECK(contains(offered(folder, "run --kill"), "--kill-on-hang"));
  CHECK_FALSE(contains(offered(folder, "diff --kill"), "--kill-on-hang"));
  CHECK(offered(folder, "ctl pa") == "pause\n");
  CHECK(offered(folder, "completion z") == "zsh\n");
  CHECK(contains(offered(folder, "help dif"), "diff"));
}

TEST_CASE("bash completes a program behind the mark, and no option of rollcall") {
  const Folder folder;
  CHECK(contains(offered(folder, "run -n 2 -- bas"), "bash"));
  CHECK_FALSE(contains(offered(folder, "run -- --kill"), "--kill-on-hang"));
}

}  // namespace test_manual
