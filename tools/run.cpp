// `rollcall run`: starts a job with the recorder in front of NCCL and stays with it to its end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <utility>

#include "analysis/analysis.h"
#include "core/base/clock.h"
#include "core/base/config.h"
#include "core/base/setting_files.h"
#include "core/base/text.h"
#include "report/terms.h"
#include "tools/bring_home.h"
#include "tools/class_status.h"
#include "tools/command.h"
#include "tools/elf_file.h"
#include "tools/exclude_file.h"
#include "tools/incident.h"
#include "tools/job.h"
#include "tools/launcher.h"
#include "tools/libraries.h"
#include "tools/own_command.h"
#include "tools/ring_files.h"
#include "tools/run_directory.h"
#include "tools/run_plan.h"
#include "tools/step_summary.h"
#include "tools/survivors.h"
#include "tools/sweep_rings.h"
#include "tools/terminal.h"
#include "tools/variables.h"
#include "tools/verdict_command.h"
#include "tools/watch.h"
#include "tools/write_job_end.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nThe job's output is untouched; what rollcall says goes to stderr. The exit status is the\n"
    "job's: of the first rank that failed. After signal N it is 128 + N in a shell, for the "
    "command\n"
    "ends itself by that signal. With --kill-on-hang it is 1 after a hang, with --timeout 124 "
    "after\n"
    "the time limit; with --exit-by-class that of the verdict's class where the job failed. "
    "Signals are\n"
    "passed on; the third SIGINT or SIGTERM within some seconds kills. A job that is ended this "
    "way\n"
    "leaves no process behind. A job that cannot be recorded runs all the same, and what is "
    "missing is\n"
    "said.\n"
    "\nExamples:\n"
    "  rollcall run -n 4 -- ./train                     4 ranks on this machine, as torchrun does\n"
    "  rollcall run -- torchrun --nproc-per-node 8 train.py\n"
    "  rollcall run --watch 30 -- mpirun -np 8 ./job    say who broke step once nothing has moved\n"
    "                                                   for 30 s\n"
    "  rollcall run --emulate -n 8 -- ./train           without a GPU";

constexpr int kExitTimeout = 124;
constexpr unsigned kRanksMaxHere = 1024;
// Between SIGTERM and SIGKILL.
constexpr int64_t kGraceNs = 3'000'000'000;
constexpr int64_t kLookNs = 250'000'000;
// At the time limit a call counts as missing after this part of the limit, where that is less than
// diff's own patience.
constexpr double kLimitPerWait = 3;
// What a verdict may take before the end of the run is reported without it.
constexpr int64_t kVerdictNs = 60'000'000'000;

int64_t now_ns() { return static_cast<int64_t>(monotonic_now_ns()); }

int64_t realtime_ns() {
  using std::chrono::duration_cast;
  return duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A port nobody listens on now.
uint16_t free_port() {
  constexpr uint16_t kUsual = 29500;
  const int socket_number = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_number < 0) return kUsual;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  const bool found =
      ::bind(socket_number, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::getsockname(socket_number, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  ::close(socket_number);
  return found ? ntohs(address.sin_port) : kUsual;
}

Settings rank_settings(const Plan& plan, unsigned rank, unsigned ranks, const std::string& address,
                       const std::string& port) {
  Settings settings = plan.settings;
  const std::string number = fmt::format("{}", rank);
  const std::string all = fmt::format("{}", ranks);
  settings.emplace_back("RANK", number);
  settings.emplace_back("LOCAL_RANK", number);
  settings.emplace_back("WORLD_SIZE", all);
  settings.emplace_back("LOCAL_WORLD_SIZE", all);
  settings.emplace_back("MASTER_ADDR", address);
  settings.emplace_back("MASTER_PORT", port);
  return settings;
}

// One run from its start to its end.
class Session {
 public:
  Session(const RunArguments& arguments, const std::vector<std::string>& command, Plan plan)
      : arguments_(arguments),
        plan_(std::move(plan)),
        own_directory_(own_directory(plan_)),
        program_(command[0]),
        processes_(new_token()),
        guardian_(processes_.token(), limit_ns(arguments)),
        job_(command, processes_),
        watch_(plan_.directory, static_cast<int64_t>(patience_s(arguments) * 1e9),
               !arguments.watch_given),
        command_(arguments.command(), plan_.directory) {}

  // The exit status, and the signal that the job died of, 0 for none: what ended the job ends this
  // command, too.
  struct Result {
    int status;
    int signal;
  };

  Result run() {
    int status = 0;
    start_ns_ = now_ns();
    processes_.leave_out(guardian_.pid());
    // Not among what is shown: nobody is to set it.
    plan_.settings.emplace_back(kTokenVariable, token_value(processes_.token()));
    if (!start_all(status)) return {status, 0};
    if (job_.own_group() != 0) guardian_.tell_group(job_.own_group());
    while (job_.running() > 0) {
      job_.wait_signal(needs_looks() ? kLookNs : -1);
      if (job_.was_told_to_end()) tell_guardian_of_end();
      note_ends();
      look();
    }
    clean_up();
    status = close();
    const bool is_of_job = first_failure_ && status == first_failure_->exit_status();
    return {status, is_of_job && first_failure_->by_signal ? first_failure_->number : 0};
  }

 private:
  static int64_t limit_ns(const RunArguments& arguments) {
    if (arguments.timeout_s <= 0) return 0;
    return now_ns() + static_cast<int64_t>(arguments.timeout_s * 1e9);
  }

  // Of commands that a launcher started one by one, each for a part of one job, the first watches
  // it, unless somebody asks the others to.
  static double patience_s(const RunArguments& arguments) {
    return is_one_of_many(arguments) && !arguments.watch_given ? 0 : arguments.watch_s;
  }

  static bool is_one_of_many(const RunArguments& arguments) {
    return arguments.ranks == 0 && launcher_job() && launcher_rank() != 0u;
  }

  void tell_guardian_of_end() {
    if (!std::exchange(guardian_knows_, true)) guardian_.tell_end();
  }

  bool start_all(int& status) {
    std::string error;
    if (arguments_.ranks == 0) {
      if (job_.start(-1, plan_.settings, error, status)) return true;
      say(error);
      if (!plan_.directory.empty()) ::rmdir(plan_.directory.c_str());
      return false;
    }
    const std::string address = environment_or("MASTER_ADDR", "127.0.0.1");
    const std::string port = environment_or("MASTER_PORT", fmt::format("{}", free_port()));
    if (!arguments_.quiet) {
      say(
          fmt::format("starting {} ranks with RANK=0..{} LOCAL_RANK WORLD_SIZE={} MASTER_ADDR={} "
                      "MASTER_PORT={}",
                      arguments_.ranks, arguments_.ranks - 1, arguments_.ranks, address, port));
    }
    for (unsigned rank = 0; rank < arguments_.ranks; ++rank) {
      const Settings settings = rank_settings(plan_, rank, arguments_.ranks, address, port);
      if (job_.start(static_cast<int32_t>(rank), settings, error, status)) continue;
      say(error);
      job_.signal_all(SIGKILL);
      return false;
    }
    return true;
  }

  bool needs_looks() const {
    return watch_.enabled() || arguments_.timeout_s > 0 || kill_at_ns_ > 0 || helper_output_ >= 0;
  }

  void note_ends() {
    for (const Ended& ended : job_.reap()) {
      if (ended.is_normal()) continue;
      if (!first_failure_) note_failure(ended);
      if (arguments_.ranks == 0 || job_.was_told_to_end() || ending_) continue;
      std::string line = fmt::format("rank {} (pid {}) {} after {}", ended.rank, ended.pid,
                                     in_words(ended), report::duration(now_ns() - start_ns_));
      if (job_.running() > 0) {
        line += fmt::format(
            "; {} still running, and may wait for it for ever (Ctrl-C ends them)",
            job_.running() == 1 ? "1 rank is" : fmt::format("{} ranks are", job_.running()));
      }
      say(line);
    }
  }

  void note_failure(const Ended& ended) {
    first_failure_ = ended;
    end_of_job_.run_id = parse_run_id(plan_.run_id);
    end_of_job_.ended_ns = realtime_ns();
    end_of_job_.rank = ended.rank;
    end_of_job_.pid = static_cast<uint32_t>(ended.pid);
    end_of_job_.by_signal = ended.by_signal;
    end_of_job_.number = ended.number;
    end_of_job_.reason = hang_                    ? trace::EndReason::hang
                         : timed_out_             ? trace::EndReason::time_limit
                         : job_.was_told_to_end() ? trace::EndReason::signal
                                                  : trace::EndReason::job;
  }

  // What has to happen at a certain time, or because nothing happens.
  void look() {
    const int64_t now = now_ns();
    if (kill_at_ns_ > 0 && now >= kill_at_ns_) {
      job_.signal_all(SIGKILL);
    }
    if (ending_ || job_.running() == 0) return;
    if (helper_output_ >= 0) {
      if (const auto status = job_.take_helper()) take_verdict(*status, now);
      return;
    }
    if (arguments_.timeout_s > 0 &&
        now - start_ns_ > static_cast<int64_t>(arguments_.timeout_s * 1e9)) {
      timed_out_ = true;
      if (!job_.away([&] { return has_record(); })) {
        end_after_time_limit(
            "No verdict: nothing was recorded. A job that waits in its rendezvous for a rank has "
            "not called NCCL yet.",
            "");
      } else {
        // Nobody can ask again: within a short limit a shorter wait has to do.
        const double usual_s = static_cast<double>(analysis::Options{}.live_threshold_ns) / 1e9;
        const double patience_s = std::min(usual_s, arguments_.timeout_s / kLimitPerWait);
        ask_verdict({"--stalled-after", fmt::format("{}", patience_s)});
      }
    } else {
      listen_to_watch(now);
    }
  }

  void listen_to_watch(int64_t now) {
    const WatchWord word = job_.away([&] { return watch_.look(now); });
    switch (word.act) {
      case Act::nothing:
        return;
      case Act::warn:
        if (arguments_.quiet) return;
        return say(fmt::format(
            "one communicator has not advanced for {}; the verdict "
            "comes in {} if that goes on.",
            report::duration(word.quiet_ns), report::duration(word.patience_ns - word.quiet_ns)));
      case Act::resumed:
        return take_back(word);
      case Act::confirm:
        if (!word_.is_final) note_change(kItStands + report::duration(word.quiet_ns));
        if (!arguments_.ends_on_hang() && !command_.is_given()) return exclude_hosts();
        break;
      case Act::ask:
        break;
    }
    word_ = word;
    asked_ns_ = now_ns();
    // A call counts as missing after the time that the watch waited, not after diff's own patience.
    const double patience_s = std::max(static_cast<double>(word.patience_ns) * 0.5e-9, 0.1);
    std::vector<std::string> options{"--stalled-after", fmt::format("{}", patience_s)};
    // Ranks that are through with all that they called compile, evaluate or write files. Who asks
    // to be told when nothing advances is told of that, too; nobody else.
    options.push_back(was_asked_for() ? "--only-hangs" : "--only-waits");
    if (word.act == Act::ask) options.push_back("--incident");
    ask_verdict(options);
  }

  bool was_asked_for() const { return word_.is_of_all && !watch_.is_by_default(); }

  // A directory that is shared may hold an earlier attempt, or another job.
  bool has_record() const {
    return plan_.is_shared ? holds_run(own_directory_, parse_run_id(plan_.run_id))
                           : !list_rings(plan_.directory).empty();
  }

  void ask_verdict(const std::vector<std::string>& options) {
    helper_output_ = open_answer();
    std::vector<std::string> words{"diff", plan_.directory, "--exit-by-class"};
    words.insert(words.end(), options.begin(), options.end());
    const pid_t pid = start_own_command({.words = std::move(words), .output = helper_output_});
    if (pid > 0) job_.add_helper(pid);
  }

  std::string helper_text() { return take_answer(std::exchange(helper_output_, -1)); }

  void take_verdict(int status, int64_t now) {
    const std::string text = helper_text();
    if (timed_out_) {
      // Without a text diff has said on stderr why.
      end_after_time_limit(text.empty() ? "No verdict." : "The verdict before that:", text);
      return;
    }
    const bool is_confirmed = word_.act == Act::confirm;
    const bool is_hang = is_hang_status(status);
    if (!is_confirmed) watch_.answered(is_hang);
    // Not a hang: the ranks compute, or the files do not tell. It is asked again later.
    if (!is_hang) return tell_once(status, text, now);
    class_status_ = status;
    if (!is_confirmed) tell_of_hang(text, now);
    if (!is_confirmed && !word_.is_final) return;
    exclude_hosts();
    run_command(now);
    if (!arguments_.ends_on_hang()) return;
    const char* option = arguments_.ending_option();
    note_change(fmt::format("the job is ended ({})", option));
    say(fmt::format("ending the job ({}); without that option its processes stay to be looked at.",
                    option));
    hang_ = true;
    begin_end();
  }

  void tell_of_hang(const std::string& text, int64_t now) {
    const std::string end = arguments_.ends_on_hang() && !word_.is_final
                                ? fmt::format(" The job is ended if that goes on for {}.",
                                              report::duration(patience_ns()))
                                : "";
    say(fmt::format("{} for {}.{} The verdict:", still_text(), quiet_text(now), end), text + "\n");
    verdict_shown_ = true;
    take_incident(text);
    if (word_.is_final) note_change(kItStands + quiet_text(now));
  }

  int64_t patience_ns() const { return static_cast<int64_t>(arguments_.watch_s * 1e9); }
  std::string quiet_text(int64_t now) const {
    return report::duration(word_.quiet_ns + now - asked_ns_);
  }
  const char* still_text() const {
    return word_.is_of_all ? "nothing has advanced" : "one communicator has not advanced";
  }

  // The folder that the comparison has kept its verdict in.
  void take_incident(const std::string& text) {
    const size_t at = text.rfind(std::string("\n") + kSavedIn);
    incident_.clear();
    if (at == std::string::npos) return;
    incident_ = text.substr(at + 1 + std::strlen(kSavedIn));
    while (!incident_.empty() && incident_.back() == '\n') incident_.pop_back();
  }

  void note_change(const std::string& sentence) {
    if (!incident_.empty()) job_.away([&] { return add_change(incident_, sentence); });
  }

  // Hosts that the job should not be started on again, where the verdict may name any.
  void exclude_hosts() {
    const std::string& file = arguments_.exclude_file;
    if (file.empty() || incident_.empty()) return;
    const std::optional<Incident> incident = job_.away([&] { return read_incident(incident_); });
    const std::vector<std::string> hosts =
        incident ? hosts_to_exclude(*incident) : std::vector<std::string>{};
    std::vector<std::string> added;
    std::string why;
    const bool is_added =
        job_.away([&] { return hosts.empty() || add_hosts(file, hosts, added, why); });
    if (!is_added) {
      return say(fmt::format("{} could not be written: {}. It should name {}.", file, why,
                             fmt::join(hosts, ", ")));
    }
    if (added.empty()) return;
    note_change(fmt::format("{} is added to {}", fmt::join(added, ", "), file));
    say(fmt::format("{} is added to {}, for {} is certain and of class node.",
                    fmt::join(added, ", "), file, incident->code));
  }

  void run_command(int64_t now) {
    if (!command_.is_given() || incident_.empty()) return;
    std::string why;
    const pid_t pid = job_.away([&] { return command_.start(incident_, now, why); });
    if (pid != 0) return processes_.leave_out(pid);
    say(fmt::format("the command of --on-verdict is not started: {}.", why));
  }

  // Nothing moves, and no rank is known to be the reason: nobody is ended for that. The status says
  // that it is undecided of two more: of ranks in lockstep whose files lack records, which compute,
  // and of waits that are too young, about which is asked again.
  void tell_once(int status, const std::string& text, int64_t now) {
    const bool is_open = status == kExitUndecided || status == kExitRisk;
    const auto says = [&](analysis::Verdict verdict) {
      return text.find(analysis::code_of(verdict)) != std::string::npos;
    };
    if (!is_open || !was_asked_for() || was_told_ || says(analysis::Verdict::in_lockstep) ||
        says(analysis::Verdict::waiting)) {
      return;
    }
    was_told_ = true;
    say(fmt::format("nothing has advanced for {}, and it is not known that a rank holds the others "
                    "up{}. What is known:",
                    quiet_text(now), arguments_.ends_on_hang() ? ": the job is not ended" : ""),
        text + "\n");
  }

  // Who read the verdict should know that it was early.
  void take_back(const WatchWord& word) {
    note_change(kItGoesOn + report::duration(word.quiet_ns));
    say(fmt::format("the job calls NCCL again, after {}: what was said to hang may have ended.",
                    report::duration(word.quiet_ns)));
    verdict_shown_ = false;
    class_status_ = kExitHang;
  }

  void end_after_time_limit(const char* remark, const std::string& verdict) {
    say(fmt::format("the time limit of {} s is over; ending the job. {}", arguments_.timeout_s,
                    remark),
        verdict.empty() ? verdict : verdict + "\n");
    verdict_shown_ = true;
    begin_end();
  }

  void begin_end() {
    ending_ = true;
    tell_guardian_of_end();
    job_.signal_all(SIGTERM);
    // The look that led to this may have taken long.
    kill_at_ns_ = now_ns() + kGraceNs;
  }

  void clean_up() {
    if (helper_output_ >= 0) helper_text();
    if (!ending_ && !job_.was_told_to_end()) return;
    job_.signal_all(SIGKILL);
    job_.reap();
  }

  // It has a limit of its own, and may need the files.
  void wait_for_command() {
    while (command_.is_running()) {
      const int number = job_.wait_signal(kLookNs);
      if (number == SIGINT || number == SIGTERM || number == SIGQUIT) return;
      job_.reap();
    }
  }

  // A launcher that starts again what has failed may give up in an attempt in which no rank has
  // come to NCCL.
  std::string attempt_in_words() const {
    const std::optional<uint64_t> newest = newest_attempt(plan_.directory);
    if (!newest || plan_.is_shared) return {};
    return fmt::format(" (of attempt-{}, the newest on file)", *newest);
  }

  // The verdict's sentence, for a run that failed.
  void say_sentence() {
    std::vector<std::string> options{"--sentence"};
    // Of a job that was told to end nobody is blamed.
    const bool is_kept = !arguments_.exclude_file.empty() && !job_.was_told_to_end();
    if (is_kept) options.push_back("--incident");
    ask_verdict(options);
    const int64_t limit_ns = now_ns() + kVerdictNs;
    std::optional<int> status;
    while (!status && now_ns() < limit_ns && helper_output_ >= 0) {
      const int number = job_.wait_signal(kLookNs);
      // The job is over: who still asks for an end means us.
      if (number == SIGINT || number == SIGTERM || number == SIGQUIT) return;
      job_.reap();
      status = job_.take_helper();
    }
    if (!status || *status == kExitUnusable) return;
    std::string text = helper_text();
    take_incident(text);
    text.resize(std::min(text.find('\n'), text.size()));
    if (!text.empty()) say(text + attempt_in_words());
    if (is_hang_status(*status)) class_status_ = *status;
  }

  void say_steps() {
    const std::string text = summarize_steps(plan_.directory, now_ns() - start_ns_);
    if (!text.empty()) say(text);
  }

  int close() {
    wait_for_command();
    bring_rings_home(plan_.directory);
    int status = first_failure_ ? first_failure_->exit_status() : 0;
    if (first_failure_) {
      note_change(fmt::format("the {} {}", arguments_.ranks == 0 ? "job" : "first rank to end",
                              in_words(*first_failure_)));
    }
    if (hang_) status = kExitHang;
    if (timed_out_) status = kExitTimeout;
    // Said before the start.
    if (plan_.directory.empty()) return status;
    if (!has_record()) {
      say(why_nothing_recorded(plan_, program_));
      return status;
    }
    if (std::string why; first_failure_ && !write_job_end(plan_.directory, end_of_job_, why)) {
      say(
          fmt::format("how the job ended could not be written into {}: {}; `rollcall diff` will "
                      "not know it.",
                      plan_.directory, why));
    }
    if (status != 0 && !verdict_shown_) say_sentence();
    if (status != 0 && !job_.was_told_to_end()) exclude_hosts();
    status = status_by_class(status);
    if (arguments_.quiet && status == 0) return status;
    if (status == 0 && !job_.was_told_to_end() && !verdict_shown_ && !is_one_of_many(arguments_)) {
      say_steps();
    }
    say(fmt::format("recorded in {}; for the verdict: rollcall diff {}", plan_.directory,
                    shell_word(plan_.directory)));
    return status;
  }

  // Of a job that was told to end, or had its time, the verdict does not tell why it is over.
  int status_by_class(int status) const {
    const bool is_asked = arguments_.exit_by_class && !timed_out_ && !job_.was_told_to_end();
    return is_asked && status != 0 && class_status_ != kExitHang ? class_status_ : status;
  }

  const RunArguments& arguments_;
  Plan plan_;
  const std::string own_directory_;
  const std::string program_;
  JobProcesses processes_;
  Guardian guardian_;
  Job job_;
  Watch watch_;
  VerdictCommand command_;
  int64_t start_ns_ = 0;
  int64_t kill_at_ns_ = 0;  // 0: not ending
  int helper_output_ = -1;
  std::optional<Ended> first_failure_;
  trace::JobEnd end_of_job_;  // of that
  bool ending_ = false;
  bool guardian_knows_ = false;
  bool hang_ = false;
  bool timed_out_ = false;
  bool verdict_shown_ = false;
  int class_status_ = kExitHang;  // of the newest verdict; kExitHang: of no class, or no hang
  std::string incident_;          // the folder of the newest verdict; empty: none was kept
  WatchWord word_;                // that the analysis was asked for
  int64_t asked_ns_ = 0;          // when
  bool was_told_ = false;         // that nothing moves, and not why
};

// Ends this process as the job was ended, so that a shell or a launcher sees what it would see
// without us: a script's loop ends at Ctrl-C. Returns where the signal does nothing, as in the
// first process of a container.
void die_of(int number) {
  std::fflush(nullptr);
  // The job has left its core; ours tells nothing.
  prctl(PR_SET_DUMPABLE, 0);
  std::signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  ::raise(number);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
}

int run(const RunArguments& arguments, const CommandLine& line) {
  if (!line.job_given() || line.job().empty()) {
    return unusable(
        "the command to run is missing: put it behind \"--\", for example `rollcall run -n 4 -- "
        "./train`.");
  }
  if (line.job()[0].empty()) {
    return unusable(
        "the command behind \"--\" is an empty word; name a program, for example `rollcall run -- "
        "./train`.");
  }
  if (arguments.ends_on_hang() && arguments.watch_s <= 0) {
    return unusable(
        fmt::format("{} needs the watch that --watch 0 turns off; give another number of seconds, "
                    "after which a job counts as hanging.",
                    arguments.ending_option()));
  }
  if (arguments.on_hang == kNotify && arguments.on_verdict.empty()) {
    return unusable("--on-hang notify needs a command that tells somebody: --on-verdict COMMAND.");
  }
  Plan plan;
  std::string error;
  if (!prepare_run(arguments, line.job()[0], plan, error)) return unusable(error);
  if (plan.directory.empty()) {
    say(fmt::format("the job is started, but not recorded: {}", plan.obstacle));
  } else if (const std::string objection = objection_to(line.job()[0], arguments.emulate_given);
             !objection.empty()) {
    say(objection);
  }
  for (const std::string& sentence : setting_complaints()) say(sentence);
  for (const std::string& sentence : unknown_variables()) say(sentence);
  if (!arguments.quiet) {
    for (const auto& [name, value] : plan.settings) say(fmt::format("set {}={}", name, value));
  }
  sweep_rings_beside(read_config([](std::string_view) {}).local_directory);
  const auto result = Session(arguments, line.job(), std::move(plan)).run();
  if (result.signal != 0) die_of(result.signal);
  return result.status;
}

}  // namespace

void add_run(CommandLine& line) {
  Subcommand command(line, "run", "Start a job with the recorder in front of NCCL.");
  const auto arguments = std::make_shared<RunArguments>();
  command
      .option("-d,--dir", arguments->directory,
              "run directory (default <time>-<program> in rollcall-runs, or in ROLLCALL_DIR of a "
              "configuration file); one with an earlier run gets "
              "attempt-1, attempt-2, ... inside")
      .value_name("DIR")
      .not_empty();
  command
      .option("-n,--ranks", arguments->ranks,
              "start so many ranks of the command on this machine, as torchrun does")
      .value_name("N")
      .between(1, kRanksMaxHere);
  const Option emulate =
      command
          .option("--emulate", arguments->emulate,
                  "run without a GPU, on so many emulated ones (default 8, more with -n)")
          .value_name("GPUS")
          .value_is_optional();
  command
      .option("--emulate-nodes", arguments->nodes,
              "emulated machines that the GPUs are spread over")
      .value_name("N")
      .needs(emulate)
      .between(1, kEmulatedGpusMax);
  const Option watch =
      command
          .option("--watch", arguments->watch_s,
                  "print the verdict once a communicator, or the job, has stood still for so long, "
                  "or sooner where that is unusual for it (default 60; 0: never)")
          .seconds_between(0, 1e6);
  const Option kill_on_hang =
      command.flag("--kill-on-hang", arguments->kill_on_hang,
                   "end the job after a verdict that says it hangs, and the time of --watch");
  command
      .option("--on-hang", arguments->on_hang,
              "what follows a verdict that says the job hangs, and the time of --watch: log (it is "
              "printed and kept), notify (and the command of --on-verdict runs), end (and the job "
              "is ended, as by --kill-on-hang); by default notify with --on-verdict, else log")
      .one_of({kLog, kNotify, kEnd})
      .excludes(kill_on_hang);
  command
      .option(
          "--exclude-file", arguments->exclude_file,
          "add the hosts that a certain verdict of class node names to this file, a name a "
          "line, as `sbatch --exclude=./FILE` reads them where the nodes are called as the hosts "
          "are; a verdict of another class names none")
      .value_name("FILE")
      .not_empty();
  command.flag("--exit-by-class", arguments->exit_by_class, kExitByClassHelp);
  command
      .option(
          "--on-verdict", arguments->on_verdict,
          "run this once a hang has lasted for the time of --watch: `sh -c`, incident.json on its "
          "standard input, ROLLCALL_VERDICT, _VERDICT_CLASS, _VERDICT_CERTAIN, _INCIDENT, "
          "_CULPRIT_HOSTS set; at most a minute, and once in five")
      .value_name("COMMAND")
      .not_empty();
  command.option("--timeout", arguments->timeout_s, "end the job after so long, with a verdict")
      .seconds_between(0.1, 1e9);
  command.flag("-q,--quiet", arguments->quiet, "say nothing unless something goes wrong");
  command.footer(kFooter);
  command.action([arguments, emulate, watch, &line] {
    arguments->emulate_given = emulate.given();
    arguments->watch_given = watch.given();
    return run(*arguments, line);
  });
}

}  // namespace rollcall::tools
