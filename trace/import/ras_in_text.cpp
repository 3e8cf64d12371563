// A report of `ncclras` wherever it stands in a text: pasted behind a job's log, below the prompt
// of a shell, with a launcher's prefixes in front of its lines; as text or as JSON.
#include <fmt/format.h>

#include "trace/import/importer.h"
#include "trace/import/line_parser.h"

namespace rollcall::trace {
namespace {

// A report of ten thousand ranks, each of them listed, has a tenth of that.
constexpr size_t kReportBytesMax = 64 << 20;
constexpr std::string_view kFirstKey = "\"nccl_version\":";

// Finds the end of an object of JSON that comes in pieces.
class ObjectEnd {
 public:
  // Of `piece` so much belongs to the object; it has ended where has_ended().
  size_t take(std::string_view piece) {
    for (size_t i = 0; i < piece.size(); ++i) {
      const char c = piece[i];
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (in_string_) {
        is_escaped_ = c == '\\';
        in_string_ = c != '"';
      } else if (c == '"') {
        in_string_ = true;
      } else if (c == '{') {
        ++depth_;
      } else if (c == '}' && --depth_ <= 0) {
        return i + 1;
      }
    }
    return piece.size();
  }
  bool has_ended() const { return depth_ <= 0; }

 private:
  int64_t depth_ = 0;
  bool in_string_ = false;
  bool is_escaped_ = false;
};

class RasReportParser final : public LineParser {
 public:
  explicit RasReportParser(std::string path) : path_(std::move(path)) {}

  std::span<const std::string_view> marks() const override { return kMarks; }

  void read_line(const TextLine& line) override {
    // NCCL itself says its version as well, without the words behind it.
    const bool begins = line.text.starts_with("NCCL version ") &&
                        line.text.find(" compiled with ") != std::string_view::npos;
    const size_t key = line.text.find(kFirstKey);
    if (key != std::string_view::npos) return begin_object(line.text, key);
    if (begins) {
      keep();
      is_inside_ = true;
    }
    if (!is_inside_) return;
    if (is_object_) return take_object(line.text);
    const bool is_other = begins_as_nccl(line.text) || report_.size() > kReportBytesMax;
    if (is_other) return keep();
    report_.append(line.text);
    report_ += '\n';
  }

  bool wants_next() const override { return is_inside_; }

  void finish(std::vector<Process>& processes, std::vector<JobLog>& /*logs*/,
              std::vector<Issue>& issues) override {
    keep();
    if (broken_ != 0) {
      issues.push_back(
          {path_,
           fmt::format("holds {} of ncclras as JSON without an end, which {} not read: "
                       "cut off, or mixed with other lines",
                       broken_ == 1 ? "a report" : fmt::format("{} reports", broken_),
                       broken_ == 1 ? "is" : "are"),
           0, false});
    }
    if (reports_ == 0) return;
    if (reports_ > 1) {
      issues.push_back({path_,
                        fmt::format("holds {} reports of ncclras; the last one is read", reports_),
                        0, false});
    }
    const std::span<const uint8_t> bytes{reinterpret_cast<const uint8_t*>(last_.data()),
                                         last_.size()};
    if (is_last_object_) return import_ras_json(path_, bytes, processes, issues);
    import_ras_text(path_, bytes, processes, issues);
  }

 private:
  static constexpr std::string_view kMarks[] = {"NCCL version ", kFirstKey};

  // Its brace stands in front of the first key, or on a line of its own before.
  void begin_object(std::string_view text, size_t key) {
    keep();
    is_inside_ = is_object_ = true;
    end_ = {};
    const size_t brace = text.rfind('{', key);
    if (brace != std::string_view::npos) return take_object(text.substr(brace));
    take_object("{");
    take_object(text.substr(key));
  }

  void take_object(std::string_view text) {
    report_.append(text.substr(0, end_.take(text)));
    report_ += '\n';
    if (end_.has_ended() || report_.size() > kReportBytesMax) keep();
  }

  void keep() {
    const std::string_view sign = is_object_ ? "\"communicators_count\":" : "\nJob summary";
    const bool is_whole = !is_object_ || end_.has_ended();
    const bool is_report = is_inside_ && report_.find(sign) != std::string::npos;
    if (is_report && is_whole) {
      last_ = std::move(report_);
      is_last_object_ = is_object_;
      ++reports_;
    } else if (is_report) {
      ++broken_;
    }
    report_.clear();
    is_inside_ = is_object_ = false;
  }

  std::string path_;
  std::string report_;  // the one that is being read
  std::string last_;
  size_t reports_ = 0;
  size_t broken_ = 0;  // objects that began, and were not kept
  bool is_inside_ = false;
  bool is_object_ = false;  // what is inside is JSON
  bool is_last_object_ = false;
  ObjectEnd end_;
};

}  // namespace

std::unique_ptr<LineParser> ras_report_parser(const std::string& path) {
  return std::make_unique<RasReportParser>(path);
}

}  // namespace rollcall::trace
