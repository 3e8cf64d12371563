#include "report/page/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/base/check.h"
#include "page_assets.h"
#include "report/page/markup.h"

namespace rollcall::report {
namespace {

constexpr size_t kLinesShown = 6;
constexpr size_t kLinesMax = 200;

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

std::string document_html(const Document& document) {
  std::vector<Section> sections = document.sections;
  std::erase_if(sections, [](const Section& section) { return section.html.empty(); });
  return fill_in(assets::kPage, [&](std::string_view name) -> std::string {
    if (name == "title") return escaped(document.title, kNameBytesMax);
    if (name == "style-hash") return std::string(assets::kStyleHash);
    if (name == "script-hash") return std::string(assets::kScriptHash);
    if (name == "style") return std::string(assets::kStyle);
    if (name == "script") return std::string(assets::kScript);
    if (name == "verdict") return document.header;
    if (name == "tabs") return tabs_html(sections);
    if (name == "sections") return sections_html(sections);
    if (name == "data") return inside_script(document.data);
    ROLLCALL_CHECK(false);
    return {};
  });
}

std::string paragraph(std::string_view text, std::string_view css_class) {
  return css_class.empty() ? fmt::format("<p>{}</p>\n", escaped(text))
                           : fmt::format("<p class=\"{}\">{}</p>\n", css_class, escaped(text));
}

std::string list_items(const std::vector<std::string>& lines, size_t begin, size_t end) {
  std::string html;
  for (size_t at = begin; at < std::min(end, lines.size()); ++at) {
    html += fmt::format("<li>{}</li>\n", escaped(lines[at]));
  }
  return html;
}

// A term and its lines; those behind the first few are folded.
std::string term_html(std::string_view term, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string html =
      fmt::format("<dt>{}</dt><dd><ul>\n{}</ul>\n", term, list_items(lines, 0, kLinesShown));
  if (lines.size() > kLinesShown) {
    html += fmt::format("<details><summary>and {} more</summary><ul>\n{}</ul></details>\n",
                        lines.size() - kLinesShown, list_items(lines, kLinesShown, kLinesMax));
  }
  return html + "</dd>\n";
}

}  // namespace rollcall::report
