#include "report/page/markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/terms.h"

namespace rollcall::report {

std::string shown(std::string_view text, size_t bytes_max) {
  // No character becomes longer by being made printable; broken ones become one byte.
  constexpr size_t kBytesMax = 4;
  const bool is_cut = text.size() > bytes_max;
  std::string clean = printable(text.substr(0, bytes_max + (is_cut ? kBytesMax : 0)));
  if (!is_cut) return clean;
  size_t end = std::min(bytes_max, clean.size());
  while (end > 0 && (static_cast<unsigned char>(clean[end - 1]) & 0xc0) == 0x80) --end;
  if (end > 0 && (static_cast<unsigned char>(clean[end - 1]) & 0x80) != 0) --end;
  clean.resize(end);
  return clean + "\u2026";
}

std::string escaped(std::string_view text, size_t bytes_max) {
  std::string out;
  for (const char character : shown(text, bytes_max)) {
    switch (character) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += character;
    }
  }
  return out;
}

std::string inside_script(std::string_view json) {
  constexpr std::string_view kSeparators[] = {"\u2028", "\u2029"};
  std::string out;
  out.reserve(json.size());
  for (size_t at = 0; at < json.size();) {
    if (json[at] == '<') {
      out += "\\u003c";
    } else if (json.substr(at, 3) == kSeparators[0]) {
      out += "\\u2028";
      at += 2;
    } else if (json.substr(at, 3) == kSeparators[1]) {
      out += "\\u2029";
      at += 2;
    } else {
      out += json[at];
    }
    ++at;
  }
  return out;
}

HtmlTable::HtmlTable(std::vector<std::string> head, size_t rows_max)
    : head_(std::move(head)), rows_max_(rows_max) {}

void HtmlTable::add(const std::vector<std::string>& cells, std::string_view row_class) {
  if (++rows_ > rows_max_) return;
  body_ += row_class.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", row_class);
  for (const std::string& cell : cells) {
    body_ += fmt::format("<td>{}</td>", escaped(cell, kNameBytesMax));
  }
  body_ += "</tr>\n";
}

std::string HtmlTable::html() const {
  std::string out = "<div class=\"table\"><table><thead><tr>";
  for (const std::string& cell : head_) {
    out += fmt::format("<th scope=\"col\">{}</th>", escaped(cell));
  }
  out += fmt::format("</tr></thead><tbody>\n{}</tbody></table></div>\n", body_);
  if (rows_ > rows_max_) {
    out += fmt::format("<p class=\"quiet\">... and {} more rows</p>\n", rows_ - rows_max_);
  }
  return out;
}

}  // namespace rollcall::report
