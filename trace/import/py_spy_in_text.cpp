// Dumps of py-spy wherever they stand in a text: SGLang's watchdog lets each of its processes print
// its own into the log.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/import/line_parser.h"
#include "trace/import/py_spy.h"
#include "trace/stacks.h"

namespace rollcall::trace {
namespace {

constexpr std::string_view kMark = "Pyspy dump for PID ";
constexpr size_t kDumpsMax = 16'384;         // as many as a job has ranks
constexpr size_t kDumpBytesMax = 256 << 10;  // of one, with all its threads

bool is_of_dump(std::string_view text) {
  constexpr std::string_view kBegins[] = {"    ", "Thread ", "Process ", "Python v"};
  return text.find_first_not_of(" \t\r") == std::string_view::npos ||
         std::any_of(std::begin(kBegins), std::end(kBegins),
                     [&](std::string_view begin) { return text.starts_with(begin); });
}

class PySpyParser final : public LineParser {
 public:
  explicit PySpyParser(std::string path) : path_(std::move(path)) {}

  std::span<const std::string_view> marks() const override { return kMarks; }

  void read_line(const TextLine& line) override {
    const size_t mark = line.text.find(kMark);
    if (mark != std::string_view::npos) return begin(line, mark + kMark.size());
    if (!is_inside_) return;
    if (!is_of_dump(line.text) || dump_.size() > kDumpBytesMax) return keep();
    dump_.append(line.text);
    dump_ += '\n';
  }

  bool wants_next() const override { return is_inside_; }

  void finish(std::vector<Process>& /*processes*/, std::vector<JobLog>& logs,
              std::vector<Issue>& /*issues*/) override {
    keep();
    if (!stands_.empty()) {
      logs.push_back({.file = path_, .sayings = std::move(stands_), .attempts = {}});
    }
  }

 private:
  static constexpr std::string_view kMarks[] = {kMark};

  void begin(const TextLine& line, size_t pid_at) {
    keep();
    const std::string_view pid = line.text.substr(pid_at);
    is_inside_ = true;
    number_ = line.number;
    writer_ = line.prefix.place.empty()
                  ? fmt::format("pid {}", pid.substr(0, pid.find_first_not_of("0123456789")))
                  : fmt::format("SGLang's {}", line.prefix.place);
  }

  void keep() {
    const std::string dump = std::exchange(dump_, {});
    if (!std::exchange(is_inside_, false) || stands_.size() >= kDumpsMax) return;
    Saying saying;
    saying.kind = SayingKind::outside;
    saying.line = number_;
    saying.op = kStackOp;
    saying.writer = writer_;
    saying.text = saying.quote =
        place_in_dump({reinterpret_cast<const uint8_t*>(dump.data()), dump.size()});
    if (!saying.text.empty()) stands_.push_back(std::move(saying));
  }

  std::string path_;
  std::string dump_;  // the one that is being read
  std::string writer_;
  uint64_t number_ = 0;
  bool is_inside_ = false;
  std::vector<Saying> stands_;
};

}  // namespace

std::unique_ptr<LineParser> py_spy_parser(const std::string& path) {
  return std::make_unique<PySpyParser>(path);
}

}  // namespace rollcall::trace
