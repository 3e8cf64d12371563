#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_arguments {

using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("every command explains itself and exits with 0") {
  const Folder folder;
  for (const char* command :
       {"run", "diff", "info", "trace", "dump", "ctl", "pack", "config", "verdicts", "manual",
        "completion", "doctor", "report", "top", "watch"}) {
    INFO(command);
    const Outcome outcome = run_command(folder, {command, "--help"});
    CHECK(outcome.status == 0);
    CHECK(contains(outcome.out, std::string("Usage: rollcall ") + command));
    CHECK(outcome.err.empty());
  }
}

TEST_CASE("help in front of a command is the same as --help behind it") {
  const Folder folder;
  CHECK(run_command(folder, {"help"}).out == run_command(folder, {"--help"}).out);
  const Outcome outcome = run_command(folder, {"help", "diff"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out == run_command(folder, {"diff", "--help"}).out);
  CHECK(run_command(folder, {"help", "frobnicate"}).status == 2);
}

TEST_CASE("arguments that make no sense cost a sentence and status 2") {
  const Folder folder;
  const std::vector<std::vector<std::string>> lines = {
      {"frobnicate"},
      {"diff"},
      {"diff", "absent"},
      {"diff", ""},
      {"diff", "absent", "--context", "many"},
      {"diff", "absent", "--json", "--sentence"},
      {"diff", "absent", "--", "true"},
      {"info", "absent"},
      {"dump", "absent"},
      {"trace", "absent", "-o", "x.json"},
      {"report", "absent", "-o", "x.html"},
      {"report", "absent", "-o", ""},
      {"ctl", "pause", "absent"},
      {"ctl", "explode", "absent"},
      {"pack", "absent"},
      {"run"},
      {"run", "true"},
      {"run", "--"},
      {"run", "-n", "2", "echo", "-n", "4"},
      {"diff", "absent", "--ranks", "1-2"},
      {"run", "-n", "0", "--", "true"},
      {"run", "-n", "many", "--", "true"},
      {"run", "--watch", "0", "--kill-on-hang", "--", "true"},
      {"run", "--emulate=none", "--", "true"},
  };
  for (const auto& line : lines) {
    std::string shown;
    for (const std::string& word : line) shown += word + " ";
    INFO(shown);
    const Outcome outcome = run_command(folder, line);
    CHECK(outcome.status == 2);
    CHECK(outcome.err.rfind("rollcall: ", 0) == 0);
    CHECK(outcome.out.empty());
  }
}

TEST_CASE("who forgets the mark in front of a program is told to put it there") {
  const Folder folder;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", "true"}, {"run", "-n", "2", "echo", "-n", "4"}}) {
    CHECK(contains(run_command(folder, words).err, "put \"--\" in front of the program"));
  }
}

TEST_CASE("two ranks are one word, wherever the directory stands") {
  const Folder folder;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"diff", "--ranks", "1,2", "absent", "--json"},
        {"diff", "--ranks=1,2", "absent"},
        {"diff", "absent", "--ranks", "1,2"}}) {
    CHECK(contains(run_command(folder, words).err, "absent does not exist"));
  }
  CHECK(contains(run_command(folder, {"diff", "--ranks", "1-3", "absent"}).err, "such as 1,2"));
}

TEST_CASE("a window that is no number of calls is refused by every command that has one") {
  const Folder folder;
  for (const char* command : {"diff", "stats", "trace", "dump"}) {
    for (const char* window : {"-1", "", "99999999999999999999", "1.5", "many"}) {
      INFO(command << " --window " << window);
      const Outcome outcome = run_command(folder, {command, "absent", "--window", window});
      CHECK(outcome.status == 2);
      CHECK(contains(outcome.err, "--window"));
      CHECK_FALSE(contains(outcome.err, "absent"));
    }
    const Outcome zero = run_command(folder, {command, "absent", "--window", "0"});
    CHECK(contains(zero.err, "absent does not exist"));
  }
}

TEST_CASE("a time that is not a number is refused, and the option named") {
  const Folder folder;
  for (const char* option : {"--timeout", "--watch", "--stalled-after"}) {
    const bool is_diff = std::string(option) == "--stalled-after";
    for (const char* text : {"nan", "inf", "-1", ""}) {
      INFO(option << " " << text);
      const Outcome outcome = is_diff ? run_command(folder, {"diff", "absent", option, text})
                                      : run_command(folder, {"run", option, text, "--", "true"});
      CHECK(outcome.status == 2);
      CHECK(contains(outcome.err, std::string(option) + ": Value " + text + " not in range"));
    }
  }
}

TEST_CASE("an empty name of a file, directory or program is refused, and the option named") {
  const Folder folder;
  const Outcome directory = run_command(folder, {"run", "-d", "", "--", "true"});
  CHECK(directory.status == 2);
  CHECK(contains(directory.err, "--dir: the name is empty"));
  const Outcome program = run_command(folder, {"run", "--", ""});
  CHECK(program.status == 2);
  CHECK(contains(program.err, "the command behind \"--\" is an empty word"));
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"trace", "absent", "-o", ""},
        {"synth", "--ranks", "2", "--ops", "9", "-o", ""}}) {
    const Outcome output = run_command(folder, line);
    CHECK(output.status == 2);
    CHECK(contains(output.err, "--output: the name is empty"));
  }
}

TEST_CASE("a comparison has no verdict that --sentence could print") {
  const Folder folder;
  mkdir((folder / "a").c_str(), 0700);
  mkdir((folder / "b").c_str(), 0700);
  for (const std::vector<std::string>& line :
       {std::vector<std::string>{"diff", "a", "b", "--sentence"},
        {"diff", "a", "--ranks", "0,1", "--sentence"}}) {
    const Outcome outcome = run_command(folder, line);
    CHECK(outcome.status == 2);
    CHECK(contains(outcome.err, "--sentence"));
  }
}

TEST_CASE("control characters in names and arguments never reach stderr") {
  const Folder folder;
  const std::string name = "odd\x1b[31m\nrollcall: fake\r\xc2\x9b";
  const std::vector<std::vector<std::string>> lines = {
      {"diff", name},
      {"diff", "absent", "--context", name},
      {"trace", "absent", "-o", name},
      {"ctl", "status", name},
      {name},
      {"run", "--emulate=" + name, "--", "true"},
      {"run", "--", name},
      {"run", "-d", name, "--", "true"},
      {"synth", "-o", "x", "--ranks", "2", "--ops", "9", "--layout", name},
  };
  for (const auto& line : lines) {
    const Outcome outcome = run_command(folder, line);
    INFO(outcome.err);
    CHECK(outcome.err.rfind("rollcall: ", 0) == 0);
    CHECK(outcome.err.find('\x1b') == std::string::npos);
    CHECK(outcome.err.find('\r') == std::string::npos);
    CHECK_FALSE(contains(outcome.err, "\nrollcall: fake"));
    CHECK_FALSE(contains(outcome.err, "\xc2\x9b"));
  }
  // What is told of several files keeps its lines.
  mkdir((folder / "run").c_str(), 0700);
  std::ofstream(folder / "run/a.ring") << "x";
  const Outcome list = run_command(folder, {"diff", "run"});
  CHECK(contains(list.err, "run holds no recording that can be read.\n  "));
}

TEST_CASE("files that are no recording are named, whatever they hold") {
  const Folder folder;
  const std::string run = folder / "run";
  mkdir(run.c_str(), 0700);
  std::ofstream(run + "/node0.1.a.ring") << "";
  std::ofstream(run + "/node0.2.b.ring") << std::string(100, 'x');
  std::ofstream(run + "/node0.3.c.ring") << std::string(100000, '\xff');
  mkfifo((run + "/node0.4.d.ring").c_str(), 0600);
  for (const char* command : {"diff", "info", "dump", "pack"}) {
    INFO(command);
    const Outcome outcome = run_command(folder, {command, run});
    CHECK(outcome.status == 2);
    CHECK(contains(outcome.err, "node0.2.b.ring"));
    CHECK(contains(outcome.err, "node0.3.c.ring"));
    CHECK(contains(outcome.err, "node0.4.d.ring: is not a regular file"));
  }
  const Outcome control = run_command(folder, {"ctl", "status", run});
  CHECK(control.status == 2);
  CHECK(contains(control.err, "node0.1.a.ring"));
}

TEST_CASE("config shows what is set here") {
  const Folder folder;
  const Outcome table = run_command(folder, {"config"}, {"ROLLCALL_RING_SLOTS=4096"});
  CHECK(table.status == 0);
  CHECK(contains(table.out, "4096 (set; default "));
  CHECK(contains(table.out, "ROLLCALL_LIB_DIR"));
  CHECK(contains(table.out, "(default)"));
}

TEST_CASE("config says of a value that is not understood what the recorder will use") {
  const Folder folder;
  const Outcome table = run_command(
      folder, {"config"},
      {"ROLLCALL_RING_SLOTS=many", "ROLLCALL_GPU_POLL_MS=0", "ROLLCALL_GPU_TIMING=off"});
  CHECK(table.status == 0);
  CHECK(contains(table.out, "  many is not a number; using 65536\n"));
  CHECK(contains(table.out, "  0 is not between 1 and 3600000; using 1\n"));
  CHECK(contains(table.out, "  off (set; default events)\n"));
  CHECK_FALSE(contains(table.out, "many (set"));
}

TEST_CASE("verdicts lists every code") {
  const Folder folder;
  const Outcome outcome = run_command(folder, {"verdicts"});
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.out, "RC-MISSING-CALL"));
  CHECK(contains(outcome.out, "RC-INSUFFICIENT"));
}

TEST_CASE("output that cannot be written is reported") {
  const Folder folder;
  const Outcome outcome = run_command(folder, {"trace", folder.path(), "-o", "/nonexistent/x"});
  CHECK(outcome.status == 2);
}

}  // namespace test_arguments
