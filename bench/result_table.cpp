#include "bench/result_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace rollcall::bench {
namespace {

std::string goal_text(const Result& result) {
  if (!result.has_goal) return "";
  return fmt::format("{} {:g}", result.at_least ? ">=" : "<=", result.goal);
}

}  // namespace

void ResultTable::add(const Result& result) {
  results_.push_back(result);
  fmt::print(stderr, "  measured: {} = {:.4g} {}\n", result.name, result.value, result.unit);
}

void ResultTable::print() const {
  size_t width = 0;
  for (const Result& result : results_) width = std::max(width, result.name.size());
  fmt::print("{:<{}}  {:>12}  {:<18}  {:>10}  {}\n", "what", width, "value", "unit", "goal",
             "holds");
  for (const Result& result : results_) {
    fmt::print("{:<{}}  {:>12.4g}  {:<18}  {:>10}  {}\n", result.name, width, result.value,
               result.unit, goal_text(result),
               !result.has_goal ? "" : (result.holds() ? "yes" : "NO"));
  }
}

bool ResultTable::write_json(const std::string& path) const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Result& result : results_) {
    nlohmann::ordered_json row;
    row["name"] = result.name;
    row["value"] = result.value;
    row["unit"] = result.unit;
    row["goal"] = result.has_goal ? nlohmann::ordered_json(result.goal) : nlohmann::ordered_json();
    row["holds"] = result.holds();
    list.push_back(std::move(row));
  }
  std::ofstream file(path);
  file << list.dump(1) << '\n';
  file.close();
  if (!file) {
    fmt::print(stderr, "bench: {} could not be written; name another file with --json\n", path);
    return false;
  }
  return true;
}

bool ResultTable::all_hold() const {
  return std::all_of(results_.begin(), results_.end(),
                     [](const Result& result) { return result.holds(); });
}

}  // namespace rollcall::bench
