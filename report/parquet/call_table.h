// The calls of a run as a Parquet file, a row for each: for pandas, DuckDB, Spark. docs/VIEWS.md
// has the columns.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "report/parquet/table_file.h"
#include "trace/model.h"

namespace rollcall::report {

class CallTable {
 public:
  explicit CallTable(parquet::TableFile::Sink sink);

  // Names of communicators that have none of their own, by key.
  void name_comms(std::map<std::pair<uint64_t, uint64_t>, std::string> names);
  // The rows of one process; `rank` is its label (report/terms.h).
  void add(const trace::Process& process, int32_t rank);
  void finish(const std::vector<std::pair<std::string, std::string>>& metadata) {
    file_.finish(metadata);
  }
  uint64_t rows() const { return file_.rows(); }

 private:
  void add_call(const trace::Process& process, const trace::Op& op);
  void add_place(const trace::Process& process, const trace::Op& op);
  void add_data(const trace::Process& process, const trace::Op& op);
  void add_times(const trace::Process& process, const trace::Op& op);

  parquet::TableFile file_;
  std::map<std::pair<uint64_t, uint64_t>, std::string> comm_names_;
  int32_t rank_ = -1;
};

}  // namespace rollcall::report
