// The page's template with its parts filled in: what a page of one run and a page of two share.
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::report {

// Rows of one table of a page.
inline constexpr size_t kPageRowsMax = 512;

// One tab. Empty `html`: there is nothing to say, and no tab.
struct Section {
  const char* id;     // of the element, and of a link to it
  const char* title;  // of the tab
  std::string html;
};

struct Document {
  std::string title;   // text of anybody's
  std::string header;  // HTML that is above the tabs, whichever is open
  std::vector<Section> sections;
  std::string data;  // JSON of the schema rollcall.page/1 (report/page/data.h)
};

std::string document_html(const Document& document);

// Text of anybody's as a paragraph.
std::string paragraph(std::string_view text, std::string_view css_class = {});
// The lines from `begin` to `end`, an item each.
std::string list_items(const std::vector<std::string>& lines, size_t begin, size_t end);
// A term of a list of terms, and its lines; those behind the first few are folded. Empty without
// lines.
std::string term_html(std::string_view term, const std::vector<std::string>& lines);

}  // namespace rollcall::report
