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
  uint64_t window = 0;
};

class PerfettoRun {
 public:
  // False: `error` is the sentence that says why.
  bool read(const PerfettoChoice& choice, std::string& error);

  const trace::Run& run() const { return run_; }
  size_t ranks_in_all() const { return ranks_in_all_; }
  size_t ranks_chosen() const { return options_.processes->size(); }
  // These processes are written as well, whichever were chosen.
  void write_also(const std::vector<uint32_t>& processes);
  void name_calls(
      std::function<std::map<uint64_t, report::KinetoName>(uint32_t, const trace::Process&)>
          names) {
    options_.kineto_names = std::move(names);
  }
  // The object outlives the trace's writing. Returns the slices written.
  uint64_t write(const std::function<bool(const std::string&)>& sink) const;

 private:
  bool choose(const PerfettoChoice& choice, std::string& error);
  std::optional<trace::Process> whole(uint32_t at) const;

  trace::Run run_;
  analysis::Report report_;
  report::PerfettoOptions options_;
  std::optional<CommKey> comm_;
  std::optional<uint64_t> around_;
  size_t ranks_in_all_ = 0;
  bool reads_again_ = false;  // what the first reading left on disk
};

}  // namespace rollcall::tools
