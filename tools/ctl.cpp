// `rollcall ctl`: switches the recording of a running job off and on, without a signal to it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/text.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/ring_files.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

struct Arguments {
  std::string action;
  std::string directory;
  int64_t rank = -1;  // of the job; -1: all
};

std::string state_in_words(const FileHeader& header) {
  const bool asked = header.capture_switch != 0;
  if (header.exit_state == static_cast<uint32_t>(ExitState::exited)) return "process has ended";
  switch (static_cast<CaptureState>(header.capture_state)) {
    case CaptureState::recording:
      return asked ? "recording; pauses at its next call" : "recording";
    case CaptureState::paused:
      return asked ? "paused" : "paused; resumes at its next call";
    case CaptureState::off:
      return "off: the recorder switched itself off and cannot be resumed";
  }
  return "in an unknown state";
}

struct Ring {
  std::string path;
  FileHeader header;
  int64_t rank;  // -1: none
};

std::string name_of(const Ring& ring) {
  const std::string_view host = padded_view(ring.header.host);
  return fmt::format("{} on {}, pid {}",
                     ring.rank >= 0 ? fmt::format("rank {}", ring.rank) : "a process without rank",
                     report::printable(host), ring.header.pid);
}

std::vector<Ring> select_rings(const Arguments& arguments) {
  std::vector<Ring> rings;
  for (const std::string& path : list_rings(arguments.directory)) {
    std::string error;
    const std::optional<FileHeader> header = read_header(path, &error);
    if (!header) {
      say(error);
      continue;
    }
    uint64_t rank = 0;
    const bool known = parse_decimal(read_meta(path, *header, "job_rank"), rank);
    Ring ring{path, *header, known ? static_cast<int64_t>(rank) : -1};
    if (arguments.rank < 0 || arguments.rank == ring.rank) rings.push_back(std::move(ring));
  }
  return rings;
}

int control(const Arguments& arguments) {
  const char* path = arguments.directory.c_str();
  if (::access(path, F_OK) == 0 && ::access(path, R_OK) != 0) {
    return unusable(fmt::format("{} cannot be read: {}; check its owner and permissions.",
                                arguments.directory, std::strerror(errno)));
  }
  const std::vector<Ring> rings = select_rings(arguments);
  if (rings.empty()) {
    return unusable(
        arguments.rank >= 0
            ? fmt::format("{} holds no recording of rank {}; `rollcall info {}` lists "
                          "what there is.",
                          arguments.directory, arguments.rank, shell_word(arguments.directory))
            : fmt::format("{} holds no recording; give the directory that `rollcall run` "
                          "printed.",
                          arguments.directory));
  }
  int status = kExitGood;
  for (const Ring& ring : rings) {
    std::string state = state_in_words(ring.header);
    if (arguments.action != "status") {
      std::string error;
      if (!write_switch(ring.path, arguments.action == "pause" ? 1 : 0, error)) {
        status = unusable(error);
        continue;
      }
      const std::optional<FileHeader> now = read_header(ring.path);
      if (now) state = state_in_words(*now);
    }
    print_out(fmt::format("{}: {}\n", name_of(ring), state));
  }
  return finish_output(status);
}

}  // namespace

void add_ctl(CommandLine& line) {
  Subcommand command(line, "ctl",
                     "Pause or resume the recording of a running job, or ask its state.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("ACTION", arguments->action, "pause, resume or status")
      .required()
      .one_of({"pause", "resume", "status"});
  command.option("DIR", arguments->directory, "run directory, or one ring file").required();
  command.option("--rank", arguments->rank, "only this rank of the job")
      .value_name("R")
      .between(0, INT32_MAX);
  command.footer(
      "\nThe job is not interrupted: a word in its mapped file changes, and it looks at it at its\n"
      "next NCCL call. Calls made while paused are counted, not recorded, and `rollcall diff` "
      "says\n"
      "so.\n"
      "\nExamples:\n"
      "  rollcall ctl pause DIR\n"
      "  rollcall ctl resume DIR --rank 3\n"
      "  rollcall ctl status DIR");
  command.action([arguments] { return control(*arguments); });
}

}  // namespace rollcall::tools
