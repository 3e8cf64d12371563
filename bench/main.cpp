// `make bench`: every number that the documents quote, as ratios to a floor measured in the same
// run.
#include <CLI/CLI.hpp>

#include "bench/gpu_bench.h"
#include "bench/plugin_bench.h"
#include "bench/record_bench.h"

int main(int argc, char** argv) {
  CLI::App app{"Measures what recording costs."};
  std::string json_path;
  bool quick = false;
  app.add_option("--json", json_path, "also write the table to this file");
  app.add_flag("--quick", quick, "shorter and noisier");
  CLI11_PARSE(app, argc, argv);

  rollcall::bench::ResultTable table;
  rollcall::bench::bench_record(table, quick);
  rollcall::bench::bench_threads(table, quick);
  rollcall::bench::bench_sustained(table, quick);
  rollcall::bench::bench_gpu_marks(table, quick);
  rollcall::bench::bench_plugin(table, quick);
  rollcall::bench::bench_plugin_memory(table, quick);
  rollcall::bench::bench_history_bytes(table, quick);
  table.print();
  if (!json_path.empty() && !table.write_json(json_path)) return 2;
  // Goals are printed, not enforced: a shared machine may miss one for reasons of its own.
  return 0;
}
