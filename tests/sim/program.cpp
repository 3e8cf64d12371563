// What can be asked of a program before it runs, and its text.
#include <fmt/format.h>

#include <algorithm>

#include "tests/sim/cluster.h"

namespace rollcall::sim {

bool Program::replays() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const std::vector<Step>& steps) {
    return std::any_of(steps.begin(), steps.end(),
                       [](const Step& step) { return step.act == Act::replay; });
  });
}

int rank_in(const CommSpec& comm, int job_rank) {
  const auto found = std::find(comm.ranks.begin(), comm.ranks.end(), job_rank);
  return found == comm.ranks.end() ? -1 : static_cast<int>(found - comm.ranks.begin());
}

namespace {

std::string text_of(const Step& step) {
  switch (step.act) {
    case Act::call:
      return fmt::format(" {}@{}:{}/{}/{}{}{}", name_of(step.kind), step.comm, step.count,
                         step.datatype, step.reduction,
                         step.root_or_peer >= 0 ? fmt::format("<{}", step.root_or_peer) : "",
                         step.group ? fmt::format("(g{})", step.group) : "") +
             (step.stream ? fmt::format("~{}{}", step.stream, step.joins ? "+" : "") : "") +
             (step.graph ? fmt::format(" captured@{}", step.graph) : "") +
             (step.is_lame ? " LAME" : "");
    case Act::replay:
      return fmt::format(" REPLAY@{}{}{}", step.graph,
                         step.stream ? fmt::format("~{}", step.stream) : "",
                         step.stands_at == 0 ? ""
                         : step.is_lame      ? " LAME"
                                             : " BLOCKED");
    case Act::create:
      return fmt::format(" CREATE@{}", step.comm);
    case Act::sync:
      return " | ";
    case Act::exit:
      return " EXIT";
    case Act::die:
      return " DIE";
    case Act::stop:
      return " STOP";
    case Act::stick:
      return " STICK";
    case Act::abort:
      return " ABORT";
    case Act::hold:
      return " HOLD";
    case Act::refuse:
      return " REFUSE";
    case Act::block:
      return " BLOCK";
  }
  return "";
}

}  // namespace

std::string describe(const Program& program) {
  std::string text;
  for (size_t k = 0; k < program.comms.size(); ++k) {
    text += fmt::format("comm {}: {}\n", k, fmt::join(program.comms[k].ranks, " "));
  }
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    text += fmt::format("rank {}:", r);
    for (const Step& step : program.ranks[r]) text += text_of(step);
    text += '\n';
  }
  return text;
}

}  // namespace rollcall::sim
