// A report of `ncclras` wherever it stands in a text: pasted behind a job's log, below the prompt
// of a shell, with a launcher's prefixes in front of its lines.
#include <fmt/format.h>

#include "trace/import/importer.h"
#include "trace/import/line_parser.h"

namespace rollcall::trace {
namespace {

// A report of ten thousand ranks, each of them listed, has a tenth of that.
constexpr size_t kReportBytesMax = 64 << 20;

class RasReportParser final : public LineParser {
 public:
  explicit RasReportParser(std::string path) : path_(std::move(path)) {}

  std::span<const std::string_view> marks() const override { return kMarks; }

  void read_line(const TextLine& line) override {
    // NCCL itself says its version as well, without the words behind it.
    const bool begins = line.text.starts_with("NCCL version ") &&
                        line.text.find(" compiled with ") != std::string_view::npos;
    if (begins) {
      keep();
      is_inside_ = true;
    }
    if (!is_inside_) return;
    const bool is_other = begins_as_nccl(line.text) || report_.size() > kReportBytesMax;
    if (is_other) return keep();
    report_.append(line.text);
    report_ += '\n';
  }

  bool wants_next() const override { return is_inside_; }

  void finish(std::vector<Process>& processes, std::vector<JobLog>& /*logs*/,
              std::vector<Issue>& issues) override {
    keep();
    if (reports_ == 0) return;
    if (reports_ > 1) {
      issues.push_back({path_,
                        fmt::format("holds {} reports of ncclras; the last one is read", reports_),
                        0, false});
    }
    import_ras_text(path_, {reinterpret_cast<const uint8_t*>(last_.data()), last_.size()},
                    processes, issues);
  }

 private:
  static constexpr std::string_view kMarks[] = {"NCCL version "};

  void keep() {
    if (is_inside_ && report_.find("\nJob summary") != std::string::npos) {
      last_ = std::move(report_);
      ++reports_;
    }
    report_.clear();
    is_inside_ = false;
  }

  std::string path_;
  std::string report_;  // the one that is being read
  std::string last_;
  size_t reports_ = 0;
  bool is_inside_ = false;
};

}  // namespace

std::unique_ptr<LineParser> ras_report_parser(const std::string& path) {
  return std::make_unique<RasReportParser>(path);
}

}  // namespace rollcall::trace
