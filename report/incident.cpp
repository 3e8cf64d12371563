#include "report/incident.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "analysis/verdict.h"
#include "report/json.h"
#include "report/json_terms.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

// Of the meta text of a process; the rest is about the recorder, or long.
bool is_of_environment(std::string_view key) {
  constexpr std::array kNames = {"exe",
                                 "cmdline",
                                 "conf",
                                 "cwd",
                                 "nccl_version",
                                 "nccl_path",
                                 "cuda_driver_version",
                                 "coverage",
                                 "cuda_runtime_version",
                                 "rollcall_version"};
  return key.starts_with("env.") || std::find(kNames.begin(), kNames.end(), key) != kNames.end();
}

Json environment_json(const trace::Run& run) {
  const std::vector<int32_t> labels = process_labels(run);
  std::map<std::string, std::map<std::string, std::vector<int32_t>>> by_name;
  size_t processes = 0;
  for (size_t p = 0; p < run.processes.size(); ++p) {
    if (run.processes[p].superseded) continue;
    ++processes;
    for (const auto& [key, value] : run.processes[p].meta) {
      if (is_of_environment(key)) by_name[key][value].push_back(labels[p]);
    }
  }
  Json common = Json::object();
  Json differing = Json::object();
  for (const auto& [name, values] : by_name) {
    const bool is_common = values.size() == 1 && values.begin()->second.size() == processes;
    if (is_common) {
      common[valid_utf8(name)] = valid_utf8(values.begin()->first);
      continue;
    }
    Json list = Json::array();
    for (const auto& [value, ranks] : values) {
      list.push_back({{"value", valid_utf8(value)}, {"ranks", rank_list(ranks)}});
    }
    differing[valid_utf8(name)] = std::move(list);
  }
  return {{"common", std::move(common)}, {"differing", std::move(differing)}};
}

}  // namespace

std::string incident_json(const trace::Run& run, const analysis::Report& report,
                          int64_t written_ns) {
  const analysis::Finding& lead = report.findings.front();
  const analysis::Origin origin = analysis::origin_of(lead);
  Json json;
  json["schema"] = "rollcall.incident/1";
  json["code"] = analysis::code_of(lead.verdict);
  json["class"] = analysis::name_of(origin);
  json["what_follows"] = analysis::consequence_of(origin);
  json["certain"] = lead.confidence == analysis::Confidence::certain;
  json["summary"] = valid_utf8(lead.summary);
  json["next"] = text_or_null(lead.next);
  json["written"] = iso_time(written_ns);
  json["culprits"] = Json::array();
  for (const analysis::Culprit& culprit : lead.culprits) {
    json["culprits"].push_back({{"rank", known_or_null(culprit.rank, culprit.rank >= 0)},
                                {"host", text_or_null(culprit.host)},
                                {"pid", known_or_null(culprit.pid, culprit.pid != 0)}});
  }
  json["environment"] = environment_json(run);
  json["verdict"] = Json::parse(diff_json(run, report));
  return json.dump(2) + "\n";
}

}  // namespace rollcall::report
