// `rollcall export`: every call of a run as a row of a Parquet file.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/views/by_gpu.h"
#include "report/parquet/call_table.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/skipped_calls.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nA row is a call of a rank; docs/VIEWS.md has the columns and queries. About 12 bytes a "
    "row.\n"
    "\nExamples:\n"
    "  rollcall export DIR -o calls.parquet\n"
    "  rollcall export DIR --partition host -o calls      a file for each host in calls/\n"
    "  duckdb -c \"SELECT kind, COUNT(*) FROM 'calls.parquet' GROUP BY kind\"";

struct Arguments {
  std::vector<std::string> paths;
  std::string output;
  std::string partition;  // "rank", "host"; empty: one file
  uint64_t window = 0;
};

// The rows of one file: indices of processes.
struct Part {
  std::string path;
  std::vector<size_t> processes;
};

// Taken apart where processes drive several GPUs.
std::optional<trace::Run> read_ranks(const Arguments& arguments, std::string& error) {
  const uint64_t held = arguments.window == 0 ? kRecordsInMemory : 0;
  std::optional<trace::Run> run = read_run(arguments.paths, arguments.window, error, held);
  if (run && analysis::take_apart(*run)) run = read_run(arguments.paths, arguments.window, error);
  if (run) forget_skipping(*run);
  return run;
}

std::map<std::pair<uint64_t, uint64_t>, std::string> comm_names(const trace::Run& run) {
  std::map<std::pair<uint64_t, uint64_t>, std::string> names;
  for (const analysis::CommSummary& comm : analysis::analyse(run).comms) {
    names[{comm.key.high, comm.key.low}] = comm.name;
  }
  return names;
}

void write_rows(const trace::Run& run, const std::vector<size_t>& processes, uint64_t window,
                report::CallTable& table) {
  const std::vector<int32_t> labels = report::process_labels(run);
  for (const size_t at : processes) {
    const trace::Process& known = run.processes[at];
    const std::optional<trace::Process> whole =
        window == 0 ? read_skipped(known, run.read_at_ns) : std::nullopt;
    table.add(whole ? *whole : known, labels[at]);
  }
}

std::vector<std::pair<std::string, std::string>> metadata_of(const trace::Run& run,
                                                             const std::string& numbering) {
  int64_t clock_bound_ns = 0;
  uint64_t run_id = 0;
  for (const trace::Process& process : run.processes) {
    if (process.superseded) continue;
    clock_bound_ns = std::max(clock_bound_ns, process.clock_doubt_ns);
    run_id = std::max(run_id, process.run_id);
  }
  std::vector<std::pair<std::string, std::string>> metadata = {
      {"rollcall.schema", "rollcall.calls/1"},
      {"rollcall.version", ROLLCALL_VERSION},
      {"rollcall.run_id", fmt::format("{:016x}", run_id)},
      {"rollcall.clock_bound_ns", fmt::format("{}", clock_bound_ns)}};
  if (!numbering.empty()) metadata.emplace_back("rollcall.ranks_are", numbering);
  return metadata;
}

// What all files of the run have in common.
struct Common {
  std::map<std::pair<uint64_t, uint64_t>, std::string> comm_names;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Beside the target, then renamed: a table that is there is whole.
std::string write_table(const trace::Run& run, const Part& part, const Common& common,
                        uint64_t window, uint64_t& rows) {
  const size_t slash = part.path.rfind('/');
  const OpenDirectory directory(slash == std::string::npos ? "." : part.path.substr(0, slash + 1));
  OutputFile file(directory, part.path.substr(slash + 1), Privacy::shared);
  if (file.failed()) return file.why();
  report::CallTable table([&](const std::string& piece) {
    file.write(piece);
    return !file.failed();
  });
  table.name_comms(common.comm_names);
  write_rows(run, part.processes, window, table);
  table.finish(common.metadata);
  rows += table.rows();
  return file.put_in_place() ? "" : file.why();
}

// A host's name as that of a file.
std::string file_word(const std::string& name) {
  std::string word = name.empty() ? "unknown" : name;
  for (char& one : word) {
    const auto character = static_cast<unsigned char>(one);
    if (std::isalnum(character) == 0 && one != '-' && one != '.') one = '_';
  }
  return word;
}

// Everything in one file, or a file for each rank or host in a directory.
std::vector<Part> parts_of(const trace::Run& run, const Arguments& arguments) {
  const std::vector<int32_t> labels = report::process_labels(run);
  std::vector<Part> parts;
  std::map<std::string, size_t> known;  // ranks or hosts
  std::set<std::string> paths;
  for (size_t at = 0; at < run.processes.size(); ++at) {
    const trace::Process& process = run.processes[at];
    if (process.superseded) continue;
    std::string whose;
    if (arguments.partition == "rank") whose = fmt::format("{}", labels[at]);
    if (arguments.partition == "host") whose = process.host;
    const auto [found, is_new] = known.emplace(whose, parts.size());
    if (is_new) {
      std::string path = arguments.output;
      if (!arguments.partition.empty()) {
        path += fmt::format("/{}-{}", arguments.partition, file_word(whose));
        while (!paths.insert(path).second) path += '_';  // of another host
        path += ".parquet";
      }
      parts.push_back({path, {}});
    }
    parts[found->second].processes.push_back(at);
  }
  return parts;
}

// Readers take all files of a directory for one table, so nothing else may be in it. Empty, or what
// is in the way.
std::string make_directory(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directory(path, failure);
  if (failure) return failure.message();
  const bool is_empty = std::filesystem::is_empty(path, failure);
  if (failure) return failure.message();
  return is_empty ? "" : "there are files in it already";
}

std::string write_parts(const trace::Run& run, const Common& common, const Arguments& arguments,
                        uint64_t& rows) {
  std::string why;
  if (!arguments.partition.empty()) why = make_directory(arguments.output);
  for (const Part& part : parts_of(run, arguments)) {
    if (why.empty()) why = write_table(run, part, common, arguments.window, rows);
  }
  return why;
}

int export_run(const Arguments& arguments) {
  std::string error;
  const std::optional<trace::Run> run = read_ranks(arguments, error);
  if (!run) return unusable(error);
  say_issues(*run);
  say_job_taken(*run, "export");
  const std::optional<analysis::Parts> parts = analysis::take_apart(*run);
  uint64_t rows = 0;
  std::string why;
  {
    const Progress progress(fmt::format("writing {}", arguments.output));
    const trace::Run& of_ranks = parts ? parts->run : *run;
    const Common common{comm_names(of_ranks), metadata_of(of_ranks, parts ? parts->numbering : "")};
    why = write_parts(of_ranks, common, arguments, rows);
  }
  if (!why.empty()) {
    return unusable(fmt::format("{} could not be written: {}; choose another {} with -o.",
                                arguments.output, why,
                                arguments.partition.empty() ? "file" : "directory"));
  }
  say(fmt::format("{} calls are in {}", report::grouped(rows), arguments.output));
  return kExitGood;
}

}  // namespace

void add_export(CommandLine& line) {
  Subcommand command(line, "export",
                     "Write every call of a run as a row of a Parquet file, for DuckDB, pandas and "
                     "Spark.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("PATH", arguments->paths, "run directory, or files of one run")
      .required()
      .value_name("...");
  command.option("-o,--output", arguments->output, "file to write, or directory with --partition")
      .required()
      .value_name("FILE")
      .not_empty();
  command
      .option("--partition", arguments->partition,
              "a file for each rank or each host, in a directory that is new or empty")
      .one_of({"rank", "host"});
  command
      .option("--window", arguments->window,
              "newest calls read per process; 0, the default, reads all")
      .calls();
  command.footer(kFooter);
  command.action([arguments] { return export_run(*arguments); });
}

}  // namespace rollcall::tools
