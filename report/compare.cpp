#include "report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "report/json_terms.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using comparison::CallShape;
using comparison::CallTable;
using comparison::Compared;
using comparison::Comparison;
using comparison::Edit;
using comparison::Fold;

// Lines of one stretch, and stretches of one group, that are shown without --all.
constexpr size_t kLinesMax = 12;
constexpr size_t kEditsShownMax = 40;

std::string call_text(const CallTable& table, uint32_t number) {
  const CallShape& shape = table.shape(number);
  const OpTraits& traits = traits_of(shape.kind);
  const bool transfers = is_p2p(shape.kind);
  std::string text(traits.name);
  if (shape.count != trace::kCountUnknown) text += fmt::format(" {}", shape.count);
  if (const std::string name = datatype_name(shape.datatype); !name.empty()) text += " " + name;
  if (shape.reduction != kUnknown8) text += " " + reduction_name(shape.reduction);
  if (traits.rooted) text += fmt::format(" root {}", shape.root_or_offset);
  const uint64_t width = bytes_of_datatype(shape.datatype);
  if (shape.count != trace::kCountUnknown && width != 0 && shape.count * width >= 1024) {
    text += fmt::format(" ({})", byte_size(shape.count * width));
  }
  if (transfers) {
    const char* way = shape.kind == OpKind::Send ? "to" : "from";
    text += fmt::format(" {} the rank {} {}", way, std::abs(shape.root_or_offset),
                        shape.root_or_offset < 0 ? "before" : "further");
  }
  return fmt::format("{} on {}", text, printable(table.comm_name(shape.comm)));
}

// "AllReduce ... x 12", one line per call or loop; the body of a loop is indented.
void fold_lines(const CallTable& table, std::span<const Fold> folds, size_t indent,
                std::vector<std::string>& lines) {
  for (const Fold& one : folds) {
    const std::string margin(indent * 2, ' ');
    const std::string times = one.times > 1 ? fmt::format(" x {}", grouped(one.times)) : "";
    if (one.body.empty()) {
      lines.push_back(margin + call_text(table, one.call) + times);
      continue;
    }
    lines.push_back(fmt::format("{}{} times:", margin, grouped(one.times)));
    fold_lines(table, one.body, indent + 1, lines);
  }
}

void add_stretch(const CallTable& table, std::span<const uint32_t> calls, char sign, bool all,
                 std::vector<CompareLine>& lines) {
  std::vector<std::string> folded;
  fold_lines(table, comparison::fold(calls), 0, folded);
  const size_t shown = all ? folded.size() : std::min(folded.size(), kLinesMax);
  for (size_t i = 0; i < shown; ++i) lines.push_back({sign, folded[i], false});
  if (shown < folded.size()) {
    lines.push_back({sign, fmt::format("... and {} more lines", folded.size() - shown), true});
  }
}

std::span<const uint32_t> calls_of(const Compared& group, const Edit& edit) {
  if (edit.kind == Edit::added) return std::span(group.b).subspan(edit.begin_b, edit.length);
  return std::span(group.a).subspan(edit.begin_a, edit.length);
}

std::string group_text(const Comparison& comparison, const Compared& group, const Sides& sides,
                       bool all) {
  const std::string who = sides.are_ranks ? "" : ranks_in_words(group.ranks) + ": ";
  std::string text = fmt::format("{}{}\n", who, compared_calls(group));
  for (const CompareLine& line : compare_lines(comparison, group, all)) {
    const std::string sign = line.sign == 0 ? std::string() : fmt::format("{} ", line.sign);
    text += fmt::format("  {}{}{}\n", sign, line.text, line.is_cut ? "; --all shows them" : "");
  }
  return text;
}

}  // namespace

std::string compared_calls(const Compared& group) {
  if (group.is_equal()) return fmt::format("the same {} calls", grouped(group.a.size()));
  return fmt::format("{} calls against {}", grouped(group.a.size()), grouped(group.b.size()));
}

std::vector<CompareLine> compare_lines(const Comparison& comparison, const Compared& group,
                                       bool all) {
  std::vector<CompareLine> lines;
  if (group.is_equal()) {
    if (all) add_stretch(comparison.table, group.a, ' ', all, lines);
    return lines;
  }
  if (!group.is_shortest) {
    lines.push_back(
        {0, "too many differences for the shortest way; from the first to the last:", false});
  }
  size_t shown = 0;
  for (const Edit& edit : group.edits) {
    if (!all && ++shown > kEditsShownMax) {
      lines.push_back({0, "... and more", true});
      break;
    }
    if (edit.kind == Edit::same) {
      lines.push_back({' ', fmt::format("{} calls alike", grouped(edit.length)), false});
      if (all) add_stretch(comparison.table, calls_of(group, edit), ' ', all, lines);
      continue;
    }
    add_stretch(comparison.table, calls_of(group, edit), edit.kind == Edit::removed ? '-' : '+',
                all, lines);
  }
  return lines;
}

std::string compare_text(const Comparison& comparison, const Sides& sides, bool all) {
  std::string text = comparison.is_equal()
                         ? fmt::format("{} and {} made the same calls.\n", sides.a, sides.b)
                         : fmt::format("- only {}, + only {}\n", sides.a, sides.b);
  for (const Compared& group : comparison.groups) {
    text += "\n" + group_text(comparison, group, sides, all);
  }
  if (!comparison.only_a.empty()) {
    text += fmt::format("\nonly in {}: {}\n", sides.a, ranks_in_words(comparison.only_a));
  }
  if (!comparison.only_b.empty()) {
    text += fmt::format("\nonly in {}: {}\n", sides.b, ranks_in_words(comparison.only_b));
  }
  if (!comparison.cut.empty()) {
    text += fmt::format(
        "\nthe oldest calls of {} are no longer on file: the beginnings may differ by what was "
        "kept\n",
        ranks_in_words(comparison.cut));
  }
  return text;
}

std::string compare_json(const Comparison& comparison, const Sides& sides) {
  constexpr const char* kKinds[] = {"same", "removed", "added"};
  Json json;
  json["schema"] = "rollcall.compare/1";
  json["a"] = valid_utf8(sides.a);
  json["b"] = valid_utf8(sides.b);
  json["equal"] = comparison.is_equal();
  json["only_a"] = rank_list(comparison.only_a);
  json["only_b"] = rank_list(comparison.only_b);
  json["cut"] = rank_list(comparison.cut);
  json["groups"] = Json::array();
  for (const Compared& group : comparison.groups) {
    Json entry;
    entry["ranks"] = rank_list(group.ranks);
    entry["calls_a"] = group.a.size();
    entry["calls_b"] = group.b.size();
    entry["shortest"] = group.is_shortest;
    entry["edits"] = Json::array();
    for (const Edit& edit : group.edits) {
      Json one;
      one["kind"] = kKinds[edit.kind];
      one["at_a"] = edit.begin_a;
      one["at_b"] = edit.begin_b;
      one["length"] = edit.length;
      if (edit.kind != Edit::same) {
        one["calls"] = Json::array();
        for (const uint32_t call : calls_of(group, edit)) {
          one["calls"].push_back(call_text(comparison.table, call));
        }
      }
      entry["edits"].push_back(std::move(one));
    }
    json["groups"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

}  // namespace rollcall::report
