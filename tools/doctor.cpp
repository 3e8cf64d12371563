// `rollcall doctor`: why a job is not recorded, or not all of it, or would not be.
#include "tools/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/base/setting_files.h"
#include "core/base/text.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/process_table.h"
#include "tools/ring_files.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

const char* word_of(Mark mark) {
  switch (mark) {
    case Mark::good:
      return "good";
    case Mark::open:
      return "note";
    case Mark::bad:
      return "BAD";
  }
  return "";
}

void append(Remarks& all, Remarks more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

int print(const Remarks& remarks) {
  size_t width = 0;
  for (const Remark& remark : remarks) width = std::max(width, remark.subject.size());
  size_t bad = 0;
  std::string text;
  for (const Remark& remark : remarks) {
    bad += remark.mark == Mark::bad ? 1 : 0;
    text += fmt::format("{:<4}  {:<{}}  {}\n", word_of(remark.mark), remark.subject, width,
                        report::printable(remark.sentence));
    if (!remark.advice.empty()) {
      text +=
          fmt::format("{:<4}  {:<{}}  -> {}\n", "", "", width, report::printable(remark.advice));
    }
  }
  text += bad == 0 ? "\nNothing that was looked at is in the way.\n"
                   : fmt::format("\n{} of {} stand in the way.\n", bad, remarks.size());
  print_out(text);
  return finish_output(bad == 0 ? kExitGood : kExitHang);
}

std::string configured_directory() {
  const char* value = setting("ROLLCALL_DIR");
  return value == nullptr ? "rollcall-runs" : value;
}

int of_command(const std::vector<std::string>& command) {
  Remarks remarks = examine_program(command);
  append(remarks, examine_installation());
  append(remarks, examine_directory(configured_directory()));
  append(remarks, examine_system());
  return print(remarks);
}

int of_process(pid_t pid) {
  if (!read_process(pid)) {
    return unusable(
        fmt::format("there is no process {} here, or it may not be seen; name one that "
                    "runs on this machine, and in this container.",
                    pid));
  }
  Remarks remarks = examine_process_tree(pid);
  append(remarks, examine_system());
  return print(remarks);
}

int of_run(const std::string& path) {
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    return unusable(fmt::format(
        "{} does not exist; name a run directory, the number of a process, or a command behind "
        "\"--\".",
        path));
  }
  Remarks remarks = examine_rings(list_rings(path));
  append(remarks, examine_directory(path));
  return print(remarks);
}

int doctor(const std::string& subject, const CommandLine& line) {
  if (line.job_given()) {
    if (!subject.empty()) {
      return unusable("give a process or a directory, or a command behind \"--\"; not both.");
    }
    if (line.job().empty() || line.job()[0].empty()) {
      return unusable("the command behind \"--\" is missing: rollcall doctor -- ./train");
    }
    return of_command(line.job());
  }
  if (subject.empty()) {
    Remarks remarks = examine_installation();
    append(remarks, examine_directory(configured_directory()));
    append(remarks, examine_system());
    return print(remarks);
  }
  uint64_t pid = 0;
  constexpr uint64_t kPidMax = uint64_t{1} << 22;
  const bool is_pid = parse_decimal(subject, pid) && pid > 0 && pid <= kPidMax;
  return is_pid ? of_process(static_cast<pid_t>(pid)) : of_run(subject);
}

}  // namespace

void add_doctor(CommandLine& line) {
  Subcommand command(
      line, "doctor",
      "Look for what keeps a job from being recorded: a command, a running process, a run.");
  const auto subject = std::make_shared<std::string>();
  command.option("PID|DIR", *subject,
                 "a running process with all its children, or a run directory");
  command.footer(
      "\nOf a command (behind \"--\") the program's file is looked at; it is not started. Exit "
      "status: 0\nwhen nothing is in the way, 1 when something is, 2 on unusable arguments.\n"
      "\nExamples:\n"
      "  rollcall doctor -- torchrun --nproc-per-node 8 train.py    before the job\n"
      "  rollcall doctor 4711                                       while it runs\n"
      "  rollcall doctor rollcall-runs/<run>                        afterwards");
  command.action([subject, &line] { return doctor(*subject, line); });
}

}  // namespace rollcall::tools
