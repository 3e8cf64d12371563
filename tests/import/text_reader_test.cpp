// How bytes become lines.
#include "trace/import/text_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "trace/import/importer.h"

namespace rollcall::trace {
namespace {

struct Heard {
  std::vector<std::string> texts;
  std::vector<uint64_t> numbers;
  std::vector<bool> damaged;
};

// Wants lines with "ALPHAMARK", and the one behind "ALPHAMARK more"; of those with "NOISEMARK" only
// what its writer says for the first time, and what holds "!!".
class Listener final : public LineParser {
 public:
  explicit Listener(Heard& heard) : heard_(heard) {}
  std::span<const std::string_view> marks() const override { return kMarks; }
  std::span<const std::string_view> short_marks() const override { return kShortMarks; }
  std::string_view noisy_mark() const override { return "NOISEMARK"; }
  bool passes_over(std::string_view line, size_t mark) override {
    const bool is_known = line.substr(0, mark) == writer_;
    if (!is_known) writer_ = line.substr(0, mark);
    return is_known;
  }
  void read_line(const TextLine& line) override {
    heard_.texts.emplace_back(line.text);
    heard_.numbers.push_back(line.number);
    heard_.damaged.push_back(line.is_damaged);
    wants_next_ = line.text.ends_with("ALPHAMARK more");
  }
  bool wants_next() const override { return wants_next_; }
  bool is_unfinished(std::string_view text) const override {
    return text.find("ALPHAMARK") != text.npos && !text.ends_with(')');
  }
  void finish(std::vector<Process>&, std::vector<JobLog>&, std::vector<Issue>&) override {}

 private:
  static constexpr std::string_view kMarks[] = {"ALPHAMARK", "BETAMARK", "NOISEMARK"};
  static constexpr std::string_view kShortMarks[] = {"!!"};
  Heard& heard_;
  std::string writer_;
  bool wants_next_ = false;
};

TextCounts read(const std::string& bytes, Heard& heard) {
  const auto text = as_utf8(unpacked(std::make_unique<MemoryStream>(
      std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()))));
  std::vector<std::unique_ptr<LineParser>> parsers;
  parsers.push_back(std::make_unique<Listener>(heard));
  return TextReader(*text, parsers).read();
}

std::vector<std::string> lines_of(const std::string& bytes) {
  Heard heard;
  read(bytes, heard);
  return heard.texts;
}

using Lines = std::vector<std::string>;

std::string utf16(const std::string& ascii, bool is_big) {
  std::string wide;
  for (const char c : ascii) {
    if (is_big) wide += '\0';
    wide += c;
    if (!is_big) wide += '\0';
  }
  return wide;
}

TEST_CASE("lines end with a line feed, both, or a lone carriage return") {
  CHECK(lines_of("a ALPHAMARK 1\nno\nb ALPHAMARK 2") == Lines{"a ALPHAMARK 1", "b ALPHAMARK 2"});
  CHECK(lines_of("a ALPHAMARK 1\r\nno\r\n") == Lines{"a ALPHAMARK 1"});
  CHECK(lines_of("10% \r20% ALPHAMARK\r30% \rx BETAMARK\n") ==
        Lines{"20% ALPHAMARK", "x BETAMARK"});
}

TEST_CASE("a line has the number that it has in the file") {
  Heard heard;
  const TextCounts counts = read("one\ntwo ALPHAMARK\n\n\nfive BETAMARK\nsix\n", heard);
  CHECK(heard.numbers == std::vector<uint64_t>{2, 5});
  CHECK(counts.lines == 6);
  CHECK(counts.given == 2);
}

TEST_CASE("lines that nobody hears are counted, however many stand together") {
  for (const size_t empty : {7U, 255U, 2039U, 2040U, 2041U, 10'000U}) {
    INFO(empty);
    Heard heard;
    const TextCounts counts = read(std::string(empty, '\n') + "ALPHAMARK\nsix\n", heard);
    CHECK(heard.numbers == std::vector<uint64_t>{empty + 1});
    CHECK(counts.lines == empty + 2);
  }
}

TEST_CASE("a parser hears the line behind one that goes on") {
  CHECK(lines_of("ALPHAMARK more\r\nplain\r\nother\r\n") == Lines{"ALPHAMARK more", "plain"});
}

TEST_CASE("of lines with a noisy mark those are given that hold more, and those that are refused") {
  Heard heard;
  const TextCounts counts = read(
      "a: NOISEMARK 1\n"
      "a: NOISEMARK 2\n"
      "a: NOISEMARK 3 !!\n"
      "nothing\n"
      "a: NOISEMARK 5 BETAMARK\n"
      "a: NOISEMARK 6 NOISEMARK\n"
      "a: NOISEMARK 7\n"
      "b: NOISEMARK 8\n"
      "ALPHAMARK more\n"
      "b: NOISEMARK 10\n"
      "b: NOISEMARK 11\n"
      "a: BETAMARK\n",
      heard);
  CHECK(heard.numbers == std::vector<uint64_t>{1, 3, 5, 6, 8, 9, 10, 12});
  CHECK(counts.lines == 12);
  CHECK(counts.given == 11);
}

TEST_CASE("a noisy line that is damaged, or too long, is given and counted") {
  Heard heard;
  const std::string long_line = "a: NOISEMARK " + std::string(kLineBytesMax, 'x') + "\n";
  const TextCounts counts = read("a: NOISEMARK 1\na: NOISEMARK" + std::string(1, '\0') + "2\n" +
                                     long_line + "a: NOISEMARK 4\n",
                                 heard);
  CHECK(heard.numbers == std::vector<uint64_t>{1, 2, 3});
  CHECK(counts.damaged == 1);
  CHECK(counts.cut == 1);
}

TEST_CASE("marks of UTF-8 and UTF-16 of both orders are understood, with and without a mark") {
  const std::string text = "first line of the log\nh ALPHAMARK 1\n";
  const Lines expected{"h ALPHAMARK 1"};
  CHECK(lines_of("\xef\xbb\xbf" + text) == expected);
  CHECK(lines_of("\xff\xfe" + utf16(text, false)) == expected);
  CHECK(lines_of("\xfe\xff" + utf16(text, true)) == expected);
  CHECK(lines_of(utf16(text, false)) == expected);
  CHECK(lines_of(utf16(text, true)) == expected);
}

TEST_CASE("characters beyond ASCII come out of UTF-16 as UTF-8") {
  std::string wide = "\xff\xfe" + utf16("ALPHAMARK ", false);
  wide += {"\xe4\x00\x3d\xd8\x00\xde", 6};  // a umlaut, and a smile of two units
  CHECK(lines_of(wide) == Lines{"ALPHAMARK \xc3\xa4\xf0\x9f\x98\x80"});
}

TEST_CASE("colours and titles of terminals are taken out, also within a mark") {
  CHECK(lines_of("\x1b[36mred\x1b[0m \x1b[01;31m\x1b[KALPHA\x1b[m\x1b[KMARK\x1b[0m\n") ==
        Lines{"red ALPHAMARK"});
  CHECK(lines_of("\x1b]0;title\a\x1b(Bx BETAMARK\n") == Lines{"x BETAMARK"});
  CHECK(lines_of("\x1b[999\nx BETAMARK\n") == Lines{"x BETAMARK"});
}

TEST_CASE("NUL bytes around a line are passed over, those within it damage it") {
  Heard heard;
  const std::string nul(3, '\0');
  const TextCounts counts =
      read(nul + "a ALPHAMARK" + nul + "\nb ALPHAMARK 1" + nul + "0\n", heard);
  REQUIRE(heard.texts.size() == 2);
  CHECK(heard.texts[0] == "a ALPHAMARK");
  CHECK(heard.damaged == std::vector<bool>{false, true});
  CHECK(heard.texts[1] ==
        "b ALPHAMARK 1\xef\xbf\xbd"
        "0");
  CHECK(counts.damaged == 1);
}

TEST_CASE("a line longer than any is cut and counted, and what follows is read") {
  for (const size_t bytes : {size_t{1} << 17, size_t{5} << 20}) {
    CAPTURE(bytes);
    Heard heard;
    const TextCounts counts =
        read("x ALPHAMARK " + std::string(bytes, 'y') + "\nb BETAMARK\nc BETAMARK\n", heard);
    REQUIRE(heard.texts.size() == 3);
    CHECK(heard.texts[0].size() == kLineBytesMax);
    CHECK(heard.damaged[0]);
    CHECK(heard.texts[1] == "b BETAMARK");
    CHECK(heard.texts[2] == "c BETAMARK");
    CHECK(counts.cut == 1);
  }
}

TEST_CASE("a long line of progress without a single line feed costs nothing") {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += fmt::format("\rstep {}", i);
  CHECK(lines_of(text + "\rx ALPHAMARK") == Lines{"x ALPHAMARK"});
}

TEST_CASE("marks are found wherever blocks of a large text end") {
  std::string text;
  size_t marked = 0;
  while (text.size() < (5u << 20)) {
    text += fmt::format("{} {} words of no interest {}\n", text.size(),
                        marked % 7 == 3 ? "ALPHAMARK" : "BETAMARK", std::string(marked % 90, '.'));
    ++marked;
    text += "nothing\n";
  }
  Heard heard;
  const TextCounts counts = read(text, heard);
  CHECK(heard.texts.size() == marked);
  CHECK(heard.numbers.back() == 2 * marked - 1);
  CHECK(counts.lines == 2 * marked);
  CHECK(counts.bytes == text.size());
}

// As a terminal shows it that is so wide.
std::string broken(const std::string& text, size_t width) {
  std::string out;
  size_t column = 0;
  for (const char c : text) {
    if (c != '\n' && column == width) {
      out += '\n';
      column = 0;
    }
    out += c;
    column = c == '\n' ? 0 : column + 1;
  }
  return out;
}

TEST_CASE("lines that a terminal broke are joined where a form goes on, whatever was broken") {
  const std::string call =
      "some words in front of it ALPHAMARK(with, arguments, that, go, on, and, on)";
  std::string text;
  for (int i = 0; i < 8; ++i) text += fmt::format("{}{}\nshort\n", std::string(i, ' '), call);
  for (const size_t width : {40u, 41u, 47u, 53u}) {
    CAPTURE(width);
    Heard heard;
    const TextCounts counts = read(broken(text, width), heard);
    REQUIRE(heard.texts.size() == 8);
    for (size_t i = 0; i < 8; ++i) CHECK(heard.texts[i] == std::string(i, ' ') + call);
    CHECK(counts.joined >= 8);
  }
}

TEST_CASE("a line that a terminal broke has the number of its first piece in the file") {
  std::string text;
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 8; ++i) {
    const std::string before = broken(text, 40);
    numbers.push_back(1 + static_cast<uint64_t>(std::count(before.begin(), before.end(), '\n')));
    text += "some words in front of it ALPHAMARK(with, arguments, that, go, on)\nshort\n";
  }
  Heard heard;
  const TextCounts counts = read(broken(text, 40), heard);
  CHECK(counts.joined == 8);
  CHECK(heard.numbers == numbers);
  CHECK(counts.lines == 24);
}

TEST_CASE("lines that are all as long and complete are not joined") {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    text += fmt::format("a line that is complete, ALPHAMARK({:04})\nand others\n", i);
  }
  Heard heard;
  const TextCounts counts = read(text, heard);
  CHECK(heard.texts.size() == 8);
  CHECK(counts.joined == 0);
}

TEST_CASE("lines that a collector wrapped into JSON are taken out of it") {
  CHECK(lines_of("{\"log\":\"[rank3]: a \\\"b\\\" ALPHAMARK\\n\",\"stream\":\"stdout\"}\n") ==
        Lines{"a \"b\" ALPHAMARK"});
  CHECK(lines_of("{\"labels\":{},\"line\":\"x BETAMARK\"}\n") == Lines{"x BETAMARK"});
  CHECK(lines_of("{not JSON ALPHAMARK}\n") == Lines{"{not JSON ALPHAMARK}"});
}

TEST_CASE("the first line of NCCL may stand anywhere in a log") {
  std::string text(70000, 'x');
  for (size_t i = 100; i < text.size(); i += 100) text[i] = '\n';
  text +=
      "\nn:10:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 5 datatype 7 op "
      "0 root 0 comm 0x0a [nranks=1] stream 0x1\n";
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_bytes("job.log", {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, processes,
               issues);
  REQUIRE(processes.size() == 1);
  CHECK(processes[0].ops.size() == 1);
}

TEST_CASE("a report of ncclras may stand anywhere in a text, below prefixes, and twice") {
  const std::string report =
      "NCCL version 2.30.7 compiled with CUDA 13.0\n\nJob summary\n===========\n"
      "    0         1         1         4         4         4   RUNNING      OK\n";
  std::string prefixed;
  for (size_t at = 0; at < report.size();) {
    const size_t end = report.find('\n', at);
    prefixed += "2026-11-27T15:40:00Z " + report.substr(at, end + 1 - at);
    at = end + 1;
  }
  std::vector<Process> processes;
  std::vector<Issue> issues;
  const std::string text = "$ ncclras\n" + prefixed + "\nnode1:1:1 [0] NCCL INFO x\n" + report;
  import_bytes("notes.txt", {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, processes,
               issues);
  CHECK(std::count_if(processes.begin(), processes.end(), [](const Process& process) {
          return process.recorder == "ncclras_text";
        }) == 4);
  REQUIRE_FALSE(issues.empty());
  CHECK(std::any_of(issues.begin(), issues.end(), [](const Issue& issue) {
    return issue.text == "holds 2 reports of ncclras; the last one is read";
  }));
}

}  // namespace
}  // namespace rollcall::trace
