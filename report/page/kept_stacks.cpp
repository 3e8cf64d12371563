#include "report/page/kept_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "report/page/document.h"
#include "report/page/markup.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

constexpr size_t kStackLinesMax = 2000;

// The ranks behind a branch stand out: "frame   [rank 2; not ranks 0-1,3]".
std::string line_html(std::string_view line) {
  const size_t ranks = line.ends_with(']') ? line.rfind("   [") : std::string_view::npos;
  if (ranks == std::string_view::npos) return escaped(line, kNameBytesMax);
  return fmt::format("{}   <b>{}</b>", escaped(line.substr(0, ranks), kNameBytesMax),
                     escaped(line.substr(ranks + 3), kNameBytesMax));
}

}  // namespace

std::string stacks_html(const KeptStacks& stacks) {
  std::string_view text = stacks.text;
  std::string lines;
  size_t count = 0;
  while (!text.empty() && count < kStackLinesMax) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines += line_html(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
    ++count;
  }
  if (count == 0) return "";
  std::string html = paragraph(
      fmt::format(
          "Where the threads of all ranks stood, as {} keeps it; below each frame is what it "
          "called, and whoever stands where few do comes first.",
          shown(stacks.where)),
      "quiet");
  html += fmt::format(
      "<pre tabindex=\"0\" role=\"region\" aria-label=\"stacks of all ranks\">{}</pre>\n", lines);
  const bool is_cut = !text.empty() || stacks.text.size() >= kStacksBytesMax;
  if (is_cut) html += paragraph("... and more lines in stacks.txt", "quiet");
  return html;
}

}  // namespace rollcall::report
