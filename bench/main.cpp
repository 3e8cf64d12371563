// `make bench`: every number that the documents quote, as ratios to a floor measured in the same
// run.
#include <CLI/CLI.hpp>

#include "bench/gpu_bench.h"
#include "bench/plugin_bench.h"
#include "bench/record_bench.h"

namespace rollcall::bench {
namespace {

struct Part {
  const char* name;
  void (*run)(ResultTable&, bool quick);
};
constexpr Part kParts[] = {{"record", bench_record},        {"threads", bench_threads},
                           {"sustained", bench_sustained},  {"gpu", bench_gpu_marks},
                           {"plugin", bench_plugin},        {"plugin-memory", bench_plugin_memory},
                           {"history", bench_history_bytes}};

}  // namespace
}  // namespace rollcall::bench

int main(int argc, char** argv) {
  CLI::App app{"Measures what recording costs."};
  std::string json_path;
  std::string only;
  bool quick = false;
  app.add_option("--json", json_path, "also write the table to this file");
  app.add_flag("--quick", quick, "shorter and noisier");
  app.add_option("--only", only, "one part: record, threads, sustained, gpu, plugin, ...");
  CLI11_PARSE(app, argc, argv);

  rollcall::bench::ResultTable table;
  for (const rollcall::bench::Part& part : rollcall::bench::kParts) {
    if (only.empty() || only == part.name) part.run(table, quick);
  }
  table.print();
  if (!json_path.empty() && !table.write_json(json_path)) return 2;
  // Goals are printed, not enforced: a shared machine may miss one for reasons of its own.
  return 0;
}
