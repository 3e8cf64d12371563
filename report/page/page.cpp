#include "report/page/page.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string_view>

#include "analysis/views/by_gpu.h"
#include "core/base/check.h"
#include "page_assets.h"
#include "report/page/data.h"
#include "report/page/markup.h"
#include "report/page/sections.h"
#include "report/text.h"
#include "statistics/operation_table.h"

namespace rollcall::report {
namespace {

// The template with its marks, "{{name}}", replaced. What is put in is not looked through again.
std::string fill_in(std::string_view page,
                    const std::function<std::string(std::string_view name)>& value_of) {
  constexpr std::string_view kBegin = "{{";
  constexpr std::string_view kEnd = "}}";
  std::string out;
  for (size_t at = 0; at < page.size();) {
    const size_t begin = page.find(kBegin, at);
    out += page.substr(at, begin - at);
    if (begin == std::string_view::npos) break;
    const size_t end = page.find(kEnd, begin);
    ROLLCALL_CHECK(end != std::string_view::npos);
    out += value_of(page.substr(begin + kBegin.size(), end - begin - kBegin.size()));
    at = end + kEnd.size();
  }
  return out;
}

std::string tabs_html(const std::vector<Section>& sections) {
  std::string html;
  for (const Section& section : sections) {
    html += fmt::format("<a href=\"#{}\">{}</a>\n", section.id, section.title);
  }
  return html;
}

std::string sections_html(const std::vector<Section>& sections) {
  std::string html;
  for (const Section& section : sections) {
    html += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", section.id,
                        section.title, section.html);
  }
  return html;
}

}  // namespace

std::string page_html(const trace::Run& whole, const analysis::Report& report) {
  // Ranks as the findings number them.
  const std::optional<analysis::Parts> parts =
      report.numbering.empty() ? std::nullopt : analysis::take_apart(whole);
  const analysis::Index index(parts ? parts->run : whole);
  const PageData data = page_data(whole, index, report);
  const std::vector<statistics::OperationRow> operations = statistics::operation_table(whole);
  const PageSource source{whole, index, report, operations, data.rolls_left_out};
  const std::vector<Section> sections = sections_of(source);
  return fill_in(assets::kPage, [&](std::string_view name) -> std::string {
    if (name == "title") return escaped(diff_sentence(report), kNameBytesMax);
    if (name == "style-hash") return std::string(assets::kStyleHash);
    if (name == "script-hash") return std::string(assets::kScriptHash);
    if (name == "style") return std::string(assets::kStyle);
    if (name == "script") return std::string(assets::kScript);
    if (name == "verdict") return verdict_html(source);
    if (name == "tabs") return tabs_html(sections);
    if (name == "sections") return sections_html(sections);
    if (name == "data") return inside_script(data.json);
    ROLLCALL_CHECK(false);
    return {};
  });
}

}  // namespace rollcall::report
