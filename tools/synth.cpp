// `rollcall synth`: a run of any size, with a fault planted in it, for tests and benchmarks.
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>

#include "report/terms.h"
#include "tools/command.h"
#include "tools/new_run_directory.h"
#include "tools/synth_file.h"
#include "tools/synth_job.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

struct Arguments {
  std::string directory;
  uint64_t ranks = 0;
  uint64_t ops = 0;
  std::string layout;
  std::string fault = "none";
  uint64_t seed = 1;
  bool list_faults = false;
};

std::optional<uint64_t> number_in(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "dp=4,tp=2,pp=2"; what is left out is 1, and dp follows from the ranks. Empty: fine.
std::string read_layout(std::string_view text, SynthOptions& options) {
  uint64_t data_parallel = 0;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::optional<uint64_t> size = number_in(part.size() > 3 ? part.substr(3) : "");
    const bool is_known =
        part.starts_with("dp=") || part.starts_with("tp=") || part.starts_with("pp=");
    if (!is_known || !size || *size == 0 || *size > kRanksMax) {
      return fmt::format("--layout: \"{}\" is no part of a layout; write dp=4,tp=2,pp=2", part);
    }
    if (part[0] == 'd') data_parallel = *size;
    if (part[0] == 't') options.tensor_parallel = static_cast<uint32_t>(*size);
    if (part[0] == 'p') options.pipeline_parallel = static_cast<uint32_t>(*size);
  }
  const uint64_t model = uint64_t{options.tensor_parallel} * options.pipeline_parallel;
  if (data_parallel != 0 && data_parallel * model != options.ranks) {
    return fmt::format("--layout: dp={} x tp={} x pp={} are {} ranks, not {}", data_parallel,
                       options.tensor_parallel, options.pipeline_parallel, data_parallel * model,
                       options.ranks);
  }
  return "";
}

// "KIND@RANK:STEP", "KIND@RANK" (in the last step) or "none". Empty: fine.
std::string read_fault(std::string_view text, SynthOptions& options) {
  const std::string_view kind = text.substr(0, text.find('@'));
  for (unsigned i = 0; i < static_cast<unsigned>(SynthFault::Count); ++i) {
    const auto fault = static_cast<SynthFault>(i);
    if (traits_of(fault).name != kind) continue;
    options.fault = fault;
    if (fault == SynthFault::none) return "";
    if (kind.size() == text.size()) break;
    const std::string_view place = text.substr(kind.size() + 1);
    const size_t colon = std::min(place.find(':'), place.size());
    const std::optional<uint64_t> rank = number_in(place.substr(0, colon));
    const std::optional<uint64_t> step = colon == place.size() ? std::optional(options.fault_step)
                                                               : number_in(place.substr(colon + 1));
    if (!rank || *rank > kRanksMax || !step) break;
    options.fault_rank = static_cast<uint32_t>(*rank);
    options.fault_step = *step;
    return "";
  }
  return fmt::format(
      "--fault: \"{}\" is not KIND@RANK:STEP with a kind that --list-faults names; for example "
      "count@3:2",
      text);
}

int list_faults() {
  for (unsigned i = 0; i < static_cast<unsigned>(SynthFault::Count); ++i) {
    const SynthFaultTraits& traits = traits_of(static_cast<SynthFault>(i));
    print_out(fmt::format("{}\t{}\t{}\n", traits.name, traits.verdict, traits.what));
  }
  return finish_output(kExitGood);
}

int synth(const Arguments& arguments) {
  if (arguments.list_faults) return list_faults();
  if (arguments.directory.empty() || arguments.ranks == 0 || arguments.ops == 0) {
    return unusable("synth needs -o DIR, --ranks N and --ops M");
  }
  SynthOptions options;
  options.ranks = static_cast<uint32_t>(arguments.ranks);
  options.ops = arguments.ops;
  options.seed = arguments.seed;
  std::string error = read_layout(arguments.layout, options);
  if (error.empty()) error = read_fault(arguments.fault, options);
  if (!error.empty()) return unusable(error);
  const SynthJob job(options, error);
  if (!error.empty()) return unusable(error);
  const auto directory = make_run_directory(arguments.directory, "synth", error);
  if (!directory) return unusable(error);
  SynthWriter writer(directory->path);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    if (!writer.write(job, rank, error)) return unusable(error);
  }
  print_out(fmt::format("{} ranks, {} calls, {} steps in {}\n", options.ranks,
                        writer.calls_written(), job.steps(), report::printable(directory->path)));
  return finish_output(kExitGood);
}

}  // namespace

void add_synth(CommandLine& line) {
  Subcommand command(
      line, "synth",
      "Write a synthetic run of any size, with a planted fault, for tests and benches.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("-o,--output", arguments->directory, "directory to write, new or empty")
      .value_name("DIR")
      .not_empty();
  command.option("--ranks", arguments->ranks, "ranks of the job")
      .value_name("N")
      .between(1, kRanksMax);
  command.option("--ops", arguments->ops, "calls of a rank, up to the fault")
      .value_name("M")
      .between(1, uint64_t{1} << 40);
  command
      .option("--layout", arguments->layout,
              "sizes of the parallel groups: dp=D,tp=T,pp=P (default: data parallel only)")
      .value_name("SIZES");
  command
      .option("--fault", arguments->fault,
              "KIND@RANK:STEP, or KIND@RANK for the last step (default: none)")
      .value_name("FAULT");
  command.option("--seed", arguments->seed, "of sizes and keys (default 1)").value_name("S");
  command.flag("--list-faults", arguments->list_faults,
               "the kinds, each with the verdict that `rollcall diff` leads with");
  command.footer(
      "\nExamples:\n"
      "  rollcall synth -o run --ranks 64 --ops 2000 --layout tp=4,pp=2 --fault missing-call@17\n"
      "  rollcall diff run");
  command.unlisted();
  command.action([arguments] { return synth(*arguments); });
}

}  // namespace rollcall::tools
