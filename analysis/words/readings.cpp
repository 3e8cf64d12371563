#include "analysis/words/readings.h"

#include <fmt/format.h>

#include "analysis/terms/numbers.h"

namespace rollcall::analysis {
namespace {

// "one call", "3 calls".
std::string calls_text(uint32_t calls) {
  return calls == 1 ? "one call" : number_text(calls, "call", "calls");
}

// "(what it called is what the others called next)": why a call that looks like another one may be
// one behind those that were left out.
std::string due_text(const Difference& d, bool is_predicted) {
  return fmt::format("(what {} called is what {})", d.deviators.size() == 1 ? "it" : "they",
                     is_predicted ? "came next in the steps before" : "the others called next");
}

std::string left_out_text(uint32_t calls) {
  return calls == 1 ? "the others' call" : fmt::format("{} of the others' calls", calls);
}

}  // namespace

bool is_open(const Difference& d) {
  return !d.undecided && (d.may_be_other || d.may_be_extra != 0 || d.may_be_missing != 0);
}

bool agrees_behind(const Difference& d) { return d.matched != 0 && d.contradicted == 0; }

std::string behind_text(const Difference& d, const std::string& who) {
  const bool all_agree = agrees_behind(d);
  const uint32_t agreeing = d.predicted ? d.foreseen : d.matched;
  const uint32_t others = d.predicted ? d.unforeseen : d.contradicted;
  const char* usual =
      d.predicted && !all_agree ? "came next in the steps before" : "the others call next";
  if (agreeing == 0) return "";
  if (all_agree || others == 0) {
    return fmt::format("; what {} {} from there on is what {}", who,
                       d.deviators.size() == 1 ? "calls" : "call", usual);
  }
  return fmt::format("; of the calls of {} from there on {} what {}, {} not", who,
                     number_text(agreeing, "is", "are"), usual, number_text(others, "is", "are"));
}

std::string readings_text(const Difference& d, const std::string& who) {
  if (!is_open(d)) return "";
  if (d.slip == Slip::extra) {
    return fmt::format("; {} may instead have left out {} {}", who, left_out_text(d.may_be_missing),
                       due_text(d, true));
  }
  const std::string left_out = left_out_text(d.length) + " " + due_text(d, d.predicted);
  const std::string more =
      d.may_be_extra == 0 ? "" : fmt::format("made {} more", calls_text(d.may_be_extra));
  if (d.slip == Slip::missing) {
    const bool may_be_late = d.may_be_other && d.length == 1;
    return fmt::format("; {} left out {}{}{}{}", who, left_out,
                       may_be_late ? " or was to make it later" : "",
                       d.may_be_other ? ", or called another in its place" : "",
                       more.empty() ? "" : ", or " + more);
  }
  return fmt::format("; {} may also have left out {}{}", who, left_out,
                     more.empty() ? "" : ", or have " + more);
}

}  // namespace rollcall::analysis
