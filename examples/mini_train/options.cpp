#include "options.h"

#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "examples/launch/number.h"

namespace mini_train {
namespace {

struct OptionSpec {
  const char* name;
  const char* value;  // null: a flag
  const char* meaning;
  std::function<void(Options*, const std::string&)> set;
};

template <typename Number>
std::function<void(Options*, const std::string&)> number(Number Options::*field, const char* name,
                                                         Number smallest) {
  return [=](Options* options, const std::string& text) {
    options->*field = examples::parse_number<Number>(text, name, smallest);
  };
}

const std::vector<OptionSpec>& option_table() {
  static const std::vector<OptionSpec> table = {
      {"--dp", "N", "ranks of a data-parallel group (default: what is left of the world)",
       number(&Options::data_parallel, "--dp", 1)},
      {"--tp", "N", "ranks of a tensor-parallel group (1)",
       number(&Options::tensor_parallel, "--tp", 1)},
      {"--pp", "N", "pipeline stages (1)", number(&Options::pipeline_parallel, "--pp", 1)},
      {"--steps", "N", "training steps (10)", number(&Options::steps, "--steps", 0)},
      {"--microbatches", "N", "micro-batches that pass the pipeline in a step (2)",
       number(&Options::microbatches, "--microbatches", 1)},
      {"--layers", "N", "layers of a stage, one tensor-parallel AllReduce each way (2)",
       number(&Options::layers, "--layers", 1)},
      {"--buckets", "N", "gradient buckets (3)", number(&Options::buckets, "--buckets", 1)},
      {"--straggler-delay-ms", "N",
       "how late the rank of the fault straggler is in every step (50)",
       number<int>(&Options::straggler_delay_ms, "--straggler-delay-ms", 0)},
      {"--bucket-elements", "N", "elements of a bucket (4096)",
       number<size_t>(&Options::bucket_elements, "--bucket-elements", 1)},
      {"--step-ms", "N", "simulated compute of a step in milliseconds (0)",
       number(&Options::step_ms, "--step-ms", 0)},
      {"--non-blocking", nullptr, "make communicators on which NCCL's calls come back at once",
       [](Options* options, const std::string&) { options->non_blocking = true; }},
      {"--graphs", nullptr, "replay the gradients' operations from a CUDA graph, from step 1 on",
       [](Options* options, const std::string&) { options->graphs = true; }},
      {"--hang-timeout", "SECONDS", "give up with exit status 6 when a step takes longer (never)",
       number<double>(&Options::hang_timeout_s, "--hang-timeout", 0)},
      {"--log", "PREFIX", "write every NCCL call of rank R to PREFIX.R as JSON lines",
       [](Options* options, const std::string& text) { options->log_prefix = text; }},
      {"--fault", "KIND@RANK:STEP", "plant a fault (--list-faults)",
       [](Options* options, const std::string& text) { options->fault = parse_fault(text); }},
      {"--no-verify", nullptr, "do not check results: for a GPU whose kernels compute nothing",
       [](Options* options, const std::string&) { options->verify = false; }},
      {"--list-faults", nullptr, "name, expected verdict and description of every fault",
       [](Options* options, const std::string&) { options->list_faults = true; }},
      {"--help", nullptr, "this text",
       [](Options* options, const std::string&) { options->help = true; }},
  };
  return table;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    std::string value;
    const size_t equals = word.find('=');
    const bool joined = equals != std::string::npos;
    if (joined) {
      value = word.substr(equals + 1);
      word.resize(equals);
    }
    const OptionSpec* found = nullptr;
    for (const OptionSpec& spec : option_table()) {
      if (word == spec.name) found = &spec;
    }
    if (!found) throw std::invalid_argument("there is no option " + word + "; see --help");
    if (found->value && !joined) {
      if (++i == argc) throw std::invalid_argument(word + " needs a value: " + found->value);
      value = argv[i];
    }
    found->set(&options, value);
  }
  return options;
}

void complete(Options* options, const Launch& launch) {
  const int model = options->tensor_parallel * options->pipeline_parallel;
  if (options->data_parallel == 0) options->data_parallel = launch.world_size / model;
  if (options->data_parallel * model != launch.world_size) {
    throw std::invalid_argument("--dp x --tp x --pp must be the number of ranks, " +
                                std::to_string(launch.world_size));
  }
  const Fault& fault = options->fault;
  const bool of_graphs = fault.kind == FaultKind::graph_capture ||
                         fault.kind == FaultKind::graph_replay ||
                         fault.kind == FaultKind::graph_kept;
  options->graphs = options->graphs || of_graphs;
  if (options->graphs && options->data_parallel < 2) {
    throw std::invalid_argument("CUDA graphs hold the gradients' operations: --dp 2 or more");
  }
  if (of_graphs && fault.step < 1) {
    throw std::invalid_argument("--fault " + std::string(traits_of(fault.kind).name) +
                                ": step 0 has no graph yet");
  }
  if (fault.kind == FaultKind::none) return;
  if (fault.rank >= launch.world_size || launch.world_size < 2) {
    throw std::invalid_argument("--fault: rank " + std::to_string(fault.rank) +
                                " is not one of the " + std::to_string(launch.world_size) +
                                " ranks (at least two are needed)");
  }
  const bool p2p = fault.kind == FaultKind::p2p_unmatched || fault.kind == FaultKind::p2p_cycle ||
                   fault.kind == FaultKind::p2p_count;
  if (p2p && options->pipeline_parallel < 2) {
    throw std::invalid_argument("--fault " + std::string(traits_of(fault.kind).name) +
                                " needs sends and receives: --pp 2 or more");
  }
  const int ranks_per_stage = options->tensor_parallel * options->data_parallel;
  if (fault.kind == FaultKind::p2p_cycle &&
      fault.rank / ranks_per_stage == options->pipeline_parallel - 1) {
    throw std::invalid_argument("--fault p2p-cycle needs a rank that is not in the last stage");
  }
}

std::string usage() {
  std::string text =
      "mini_train: a small distributed training job on NCCL, and what can go wrong in it\n\n"
      "usage: rollcall run -n RANKS [--emulate] -- mini_train [options]\n\noptions:\n";
  for (const OptionSpec& spec : option_table()) {
    std::string left = std::string("  ") + spec.name;
    if (spec.value) left += std::string(" ") + spec.value;
    if (left.size() < 26) left.resize(26, ' ');
    text += left + "  " + spec.meaning + "\n";
  }
  return text +
         "\nRank and size come from RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.\n"
         "Exit status: 0 trained, 1 a wrong result, 2 usage, 3 the fault `exit`, 4 NCCL or CUDA\n"
         "failed, 5 the fault `abort`, 6 --hang-timeout.\n";
}

}  // namespace mini_train
