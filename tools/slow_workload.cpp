#include "tools/slow_workload.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

namespace rollcall::tools {
namespace {

// Between these what is divided by them stays finite, and no job is beyond.
constexpr double kLeast = 1e-30;
constexpr double kMost = 1e60;

// `of_what`: with an example.
bool read_number(std::string_view name, std::string_view of_what, const std::string& word,
                 double& number, std::string& error) {
  if (word.empty()) return true;
  double read = 0;
  const auto [end, trouble] = std::from_chars(word.data(), word.data() + word.size(), read);
  const bool is_whole = trouble == std::errc() && end == word.data() + word.size();
  if (is_whole && std::isfinite(read) && read >= kLeast && read <= kMost) {
    number = read;
    return true;
  }
  error = fmt::format("{} takes {}, and is above 0; '{}' is something else.", name, of_what, word);
  return false;
}

std::string contradiction(const WorkloadWords& words, bool is_of_two_runs) {
  if (is_of_two_runs) {
    if (!words.flops.empty() || !words.peak_flops.empty()) {
      return "--flops and --peak-flops are about one run; name one, or add --together.";
    }
    if (words.tokens.empty() != words.tokens_before.empty()) {
      return "of two runs --tokens-before is of a step of the old one and --tokens of the new one; "
             "give both.";
    }
    return "";
  }
  if (!words.tokens_before.empty()) {
    return "--tokens-before is of the old one of two runs; name both, or leave it out.";
  }
  if (!words.peak_flops.empty() && words.flops.empty()) {
    return "--peak-flops goes with --flops, the operations of a step of the whole job; give both.";
  }
  return "";
}

}  // namespace

bool read_workload(const WorkloadWords& words, bool is_of_two_runs, slow::Workload& workload,
                   std::string& error) {
  error = contradiction(words, is_of_two_runs);
  return error.empty() &&
         read_number("--flops",
                     "the floating-point operations of a step of the whole job, as 4.2e18",
                     words.flops, workload.flops, error) &&
         read_number("--peak-flops",
                     "the floating-point operations of one GPU in a second, as 989e12",
                     words.peak_flops, workload.peak_flops, error) &&
         read_number("--tokens", "the tokens of a step of the whole job, as 4194304", words.tokens,
                     workload.tokens, error) &&
         read_number("--tokens-before", "the tokens of a step of the old run, as 4194304",
                     words.tokens_before, workload.tokens_before, error);
}

}  // namespace rollcall::tools
