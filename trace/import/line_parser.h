// Who reads the lines of a text: the parsers of NCCL's log, of PyTorch's, of RAS's reports.
//
// A text is read once, whatever its size, and a line at a time (text_import.cpp). Most lines of a
// job's log concern nobody: parsers are given those that hold a word which one of them asked for,
// and no others.
//
// Threads: a parser belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/line_prefix.h"
#include "trace/model.h"

namespace rollcall::trace {

// One line: UTF-8, without its end, colours and whatever a launcher put in front. Valid during the
// call only.
struct TextLine {
  std::string_view text;
  std::string_view whole;  // with what stood in front
  uint64_t number = 0;     // in the file as it stands there, from 1
  // Holds bytes that were lost (NUL, which stands here as U+FFFD), or is longer than
  // kLineBytesMax and was cut: no value of it may be taken for certain.
  bool is_damaged = false;
  LinePrefix prefix;
};

class LineParser {
 public:
  virtual ~LineParser() = default;
  // Every line that begins something for this parser holds one of these. Each has kMarkBytesMin
  // bytes at least (mark_finder.h); the longer the shortest of them, the faster a text is read.
  // They may become fewer while it is.
  virtual std::span<const std::string_view> marks() const = 0;
  // Words that are looked for in lines which a mark brought, and in no others: too short for
  // marks().
  virtual std::span<const std::string_view> short_marks() const { return {}; }
  // Called with each line that holds a mark of any parser, in the order of the file, and with those
  // that wants_next() asked for.
  virtual void read_line(const TextLine& line) = 0;
  // Reads the line that `text` begins with, if it is whole, nobody else's, and of a kind of which a
  // text may hold millions; what stood in front of it was taken off. Returns how many bytes it has
  // with its end; 0: it is to be given to everybody. Not asked while another parser wants the next
  // line, nor of a damaged one.
  virtual size_t read_plain_line(std::string_view /*text*/) { return 0; }
  // Whether read_plain_line() ever does: of one parser of a text at most.
  virtual bool has_plain_lines() const { return false; }
  // One of marks(), whose lines are many and mostly nothing to anybody; empty: there is none. No
  // other parser's mark begins with it.
  virtual std::string_view noisy_mark() const { return {}; }
  // Passes over a line, as it stands in the file, that holds the noisy mark once, at `mark`, and no
  // other mark of any parser. False: it is to be given to everybody. Not asked while a parser wants
  // the next line.
  virtual bool passes_over(std::string_view /*line*/, size_t /*mark*/) { return false; }
  // The line behind the one just read is wanted, whatever is in it: a form goes on for several.
  virtual bool wants_next() const { return false; }
  // `text` begins a form of this parser, and its end is missing. Asked of lines that are as wide as
  // the terminal that they were copied from; the next one is then joined to it.
  virtual bool is_unfinished(std::string_view /*text*/) const { return false; }
  // Appends what was found; nothing where the text held nothing for this parser.
  virtual void finish(std::vector<Process>& processes, std::vector<JobLog>& logs,
                      std::vector<Issue>& issues) = 0;
};

// One of each, for a text that `path` names in messages.
std::unique_ptr<LineParser> nccl_log_parser(const std::string& path);
std::unique_ptr<LineParser> job_log_parser(const std::string& path);
std::unique_ptr<LineParser> ras_report_parser(const std::string& path);
std::unique_ptr<LineParser> py_spy_parser(const std::string& path);

}  // namespace rollcall::trace
