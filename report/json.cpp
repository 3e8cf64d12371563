#include "report/json.h"

#include <algorithm>
#include <set>

#include "analysis/record/index.h"
#include "analysis/verdict.h"
#include "report/json_terms.h"
#include "report/terms.h"
#include "trace/job_end.h"

namespace rollcall::report {
namespace {

Json finding_json(const analysis::Finding& finding);

Json culprit_json(const analysis::Culprit& culprit) {
  Json json;
  json["rank"] = known_or_null(culprit.rank, culprit.rank >= 0);
  json["process"] = known_or_null(culprit.process, culprit.process != analysis::kNone);
  json["host"] = text_or_null(culprit.host);
  json["pid"] = known_or_null(culprit.pid, culprit.pid != 0);
  if (culprit.gpu >= 0) json["gpu"] = culprit.gpu;
  for (const analysis::Coordinate& at : culprit.coordinates) {
    json["coordinates"][valid_utf8(at.dimension)] = at.index;
  }
  json["comm"] = culprit.comm ? Json(key_hex(*culprit.comm)) : Json(nullptr);
  json["comm_name"] = text_or_null(culprit.comm_name);
  json["comm_rank"] = known_or_null(culprit.comm_rank, culprit.comm_rank >= 0);
  if (culprit.p2p_seq) {
    json["p2p_seq"] = *culprit.p2p_seq;
    json["peer"] = known_or_null(culprit.peer, culprit.peer >= 0);
  } else {
    json["seq"] = optional_number(culprit.seq);
  }
  json["op"] = text_or_null(culprit.op);
  return json;
}

Json ranks_json(const std::vector<int32_t>& ranks) {
  return {{"count", ranks.size()}, {"ranks", rank_list(ranks)}};
}

Json wait_json(const analysis::Wait& wait) {
  Json json;
  json["text"] = valid_utf8(wait.text);
  json["waiting"] = ranks_json(wait.ranks);
  json["call"] = valid_utf8(wait.call);
  json["comm"] = wait.comm ? Json(key_hex(*wait.comm)) : Json(nullptr);
  json["comm_name"] = text_or_null(wait.comm_name);
  json["seq"] = optional_number(wait.seq);
  json["for"] = ranks_json(wait.for_ranks);
  return json;
}

// A finding that another one explains, told as what it then is.
Json explained_json(const analysis::Finding& finding) {
  analysis::Wait wait{.ranks = finding.victims,
                      .for_ranks = {},
                      .call = {},
                      .comm = {},
                      .comm_name = {},
                      .seq = {},
                      .text = finding.summary};
  for (const analysis::Culprit& culprit : finding.culprits) {
    if (culprit.rank >= 0) wait.for_ranks.push_back(culprit.rank);
  }
  Json json = wait_json(wait);
  json["call"] = nullptr;
  return json;
}

// In /1 a call that waits was a finding under the one that it waits for.
Json wait_as_finding_json(const analysis::Wait& wait) {
  analysis::Finding finding;
  finding.verdict = analysis::Verdict::waiting;
  finding.summary = wait.text;
  finding.victims = wait.ranks;
  return finding_json(finding);
}

void append_what_follows(const analysis::Finding& finding, Json& list) {
  for (const analysis::Wait& wait : finding.waits) list.push_back(wait_json(wait));
  for (const analysis::Finding& next : finding.consequences) {
    list.push_back(explained_json(next));
    append_what_follows(next, list);
  }
}

Json finding_json(const analysis::Finding& finding) {
  Json json;
  json["code"] = analysis::code_of(finding.verdict);
  json["severity"] = analysis::name_of(finding.severity);
  json["confidence"] = analysis::name_of(finding.confidence);
  json["misstep"] = finding.misstep ? Json(analysis::name_of(*finding.misstep)) : Json(nullptr);
  json["class"] = analysis::name_of(analysis::origin_of(finding));
  json["summary"] = valid_utf8(finding.summary);
  json["next"] = text_or_null(finding.next);
  json["culprits"] = Json::array();
  for (const analysis::Culprit& culprit : finding.culprits) {
    json["culprits"].push_back(culprit_json(culprit));
  }
  json["victims"] = ranks_json(finding.victims);
  json["evidence"] = Json::array();
  for (const analysis::Evidence& evidence : finding.evidence) {
    json["evidence"].push_back({{"file", text_or_null(evidence.file)},
                                {"record", text_or_null(evidence.record)},
                                {"text", valid_utf8(evidence.text)}});
  }
  json["follows"] = Json::array();
  append_what_follows(finding, json["follows"]);
  json["waits_left_out"] = finding.waits_left_out;
  json["consequences"] = Json::array();
  for (const analysis::Wait& wait : finding.waits) {
    json["consequences"].push_back(wait_as_finding_json(wait));
  }
  for (const analysis::Finding& next : finding.consequences) {
    json["consequences"].push_back(finding_json(next));
  }
  return json;
}

Json comm_json(const analysis::CommSummary& comm) {
  Json json;
  json["key"] = key_hex(comm.key);
  json["name"] = text_or_null(comm.name);
  json["nranks"] = known_or_null(comm.nranks, comm.nranks >= 0);
  json["ranks"] = rank_list(comm.ranks);
  json["parent"] = comm.parent ? Json(key_hex(*comm.parent)) : Json(nullptr);
  json["last_common_seq"] = optional_number(comm.last_common_seq);
  json["first_difference_seq"] = optional_number(comm.first_difference_seq);
  return json;
}

Json end_json(const trace::JobEnd& end) {
  Json json;
  json["file"] = valid_utf8(end.file);
  json["host"] = text_or_null(end.host);
  json["rank"] = known_or_null(end.rank, end.rank >= 0);
  json["status"] = known_or_null(end.number, !end.by_signal);
  json["signal"] = known_or_null(end.number, end.by_signal);
  json["by"] = trace::name_of(end.reason);
  return json;
}

Json run_json(const trace::Run& run) {
  std::set<int32_t> ranks;
  int64_t started_ns = 0;
  for (const trace::Process& process : run.processes) {
    if (process.job_rank >= 0) ranks.insert(process.job_rank);
    if (process.started_ns > 0 && (started_ns == 0 || process.started_ns < started_ns)) {
      started_ns = process.started_ns;
    }
  }
  Json json;
  json["dir"] = valid_utf8(run.directory);
  json["processes"] = run.processes.size();
  json["ranks"] = ranks.empty() ? Json(nullptr) : Json(ranks.size());
  json["started"] = text_or_null(iso_time(started_ns));
  json["live"] = run.live;
  json["has_stale_values"] = has_stale_values(run);
  json["ends"] = Json::array();
  for (const trace::JobEnd& end : run.ends) json["ends"].push_back(end_json(end));
  return json;
}

}  // namespace

std::string diff_json(const trace::Run& run, const analysis::Report& report,
                      const std::vector<std::string>& incidents) {
  Json json;
  json["schema"] = "rollcall.diff/2";
  json["status"] = report.status;
  json["run"] = run_json(run);
  if (!report.numbering.empty()) json["ranks_are"] = valid_utf8(report.numbering);
  json["findings"] = Json::array();
  for (const analysis::Finding& finding : report.findings) {
    json["findings"].push_back(finding_json(finding));
  }
  json["incidents"] = Json::array();
  for (const std::string& one : incidents) json["incidents"].push_back(valid_utf8(one));
  json["comms"] = Json::array();
  for (const analysis::CommSummary& comm : report.comms) json["comms"].push_back(comm_json(comm));
  json["issues"] = issues_json(run);
  return json.dump(2) + "\n";
}

}  // namespace rollcall::report
