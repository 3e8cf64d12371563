// A run as `rollcall trace` writes it for Perfetto: judged, its ranks chosen, and each of them read
// whole only when it is written.
//
// Threads: the main thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/finding.h"
#include "report/perfetto/perfetto.h"
#include "trace/model.h"

namespace rollcall::tools {

struct PerfettoChoice {
  std::vector<std::string> paths;
  std::string ranks;  // "0-3,17", "all"; empty: those that matter
  std::optional<uint64_t> around;
  std::string steps;  // "100-200", "7"; empty: all
  uint64_t window = 0;
};

class PerfettoRun {
 public:
  // False: `error` is the sentence that says why.
  bool read(const PerfettoChoice& choice, std::string& error);

  const trace::Run& run() const { return run_; }
  size_t ranks_in_all() const { return ranks_in_all_; }
  const std::vector<uint32_t>& ranks_chosen() const { return *options_.processes; }
  // These processes are written as well, whichever were chosen.
  void write_also(const std::vector<uint32_t>& processes);
  void name_calls(
      std::function<std::map<uint64_t, report::KinetoName>(uint32_t, const trace::Process&)>
          names) {
    options_.kineto_names = std::move(names);
  }
  // See PerfettoOptions::write_below.
  void write_below(decltype(report::PerfettoOptions::write_below) writer) {
    options_.write_below = std::move(writer);
  }
  // The object outlives the trace's writing. Returns the slices written.
  uint64_t write(const std::function<bool(const std::string&)>& sink) const;

 private:
  bool choose(const PerfettoChoice& choice, std::string& error);
  bool choose_steps(const std::string& text, std::string& error);
  std::optional<trace::Process> whole(uint32_t at) const;

  trace::Run run_;
  analysis::Report report_;
  report::PerfettoOptions options_;
  std::optional<CommKey> comm_;
  std::optional<uint64_t> around_;
  // Of each process whose steps are known, where only some are wanted: from when on, and until
  // when. Without GPU times it is one process, and the others have what they did in its time.
  std::map<uint32_t, std::pair<int64_t, int64_t>> times_;
  std::pair<int64_t, int64_t> times_of_any_{INT64_MAX, 0};
  bool has_steps_ = false;
  size_t ranks_in_all_ = 0;
  bool reads_again_ = false;  // what the first reading left on disk
};

}  // namespace rollcall::tools
