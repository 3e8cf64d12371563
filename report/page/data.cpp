#include "report/page/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "report/json.h"
#include "report/json_terms.h"
#include "report/page/markup.h"
#include "report/page/roll.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using analysis::kNone;

// ASCII alone: no name can end its line or turn it around for whoever reads the file itself.
std::string compact(const Json& json) { return json.dump(-1, ' ', true); }

Json states_json() {
  Json list = Json::array();
#define ROLLCALL_X(name, letter, glyph, words) \
  list.push_back({std::string(1, letter), #name, glyph, words});
  ROLLCALL_CELL_STATES(ROLLCALL_X)
#undef ROLLCALL_X
  return list;
}

// Texts that are told once each, and numbers for them.
class Dictionary {
 public:
  size_t number_of(const std::string& text) {
    const auto [found, is_new] = numbers_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(shown(text));
    return found->second;
  }
  Json json() const { return texts_; }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<std::string> texts_;
};

Json ranks_json(const trace::Run& run, const std::vector<int32_t>& labels) {
  Dictionary hosts;
  Dictionary livenesses;
  std::vector<size_t> host;
  std::vector<size_t> liveness;
  std::vector<uint32_t> pid;
  for (const trace::Process& process : run.processes) {
    host.push_back(hosts.number_of(process.host));
    liveness.push_back(livenesses.number_of(std::string(trace::name_of(process.liveness))));
    pid.push_back(process.pid);
  }
  Json json = {{"label", labels}, {"host", host}, {"liveness", liveness}, {"pid", pid}};
  json["hosts"] = hosts.json();
  json["livenesses"] = livenesses.json();
  return json;
}

std::string run_lengths(std::string_view letters) {
  std::string text;
  for (size_t at = 0; at < letters.size();) {
    const size_t end = std::min(letters.find_first_not_of(letters[at], at), letters.size());
    text += letters[at];
    if (end - at > 1) text += fmt::format("{}", end - at);
    at = end;
  }
  return text;
}

// What the report's table says of each rank of one communicator, by label.
std::map<int32_t, std::string> sayings(const analysis::Report& report,
                                       const std::vector<int32_t>& labels,
                                       const std::string& comm_name) {
  std::map<int32_t, std::string> said;
  for (const analysis::RankRow& row : report.table) {
    if (row.comm_name != comm_name) continue;
    const bool is_known = row.rank >= 0 || row.process < labels.size();
    if (!is_known) continue;
    std::string text = row.state;
    if (!row.since.empty()) text += " " + row.since;
    said.emplace(row.rank >= 0 ? row.rank : labels[row.process], std::move(text));
  }
  return said;
}

Json rows_json(const Roll& roll, const std::vector<int32_t>& labels,
               const std::map<int32_t, std::string>& said) {
  Json json;
  for (const char* column : {"ranks", "process", "count", "states", "others", "culprit", "says"}) {
    json[column] = Json::array();
  }
  for (const RollRow& row : roll.rows) {
    std::vector<int32_t> ranks;
    for (const uint32_t process : row.processes) ranks.push_back(labels[process]);
    const bool has_file = !ranks.empty();
    const auto says = has_file ? said.find(ranks.front()) : said.end();
    Json others = Json::array();
    for (const auto& [column, call] : row.others) {
      others.push_back(column);
      others.push_back(call);
    }
    json["ranks"].push_back(rank_list(has_file ? ranks : row.ranks));
    json["process"].push_back(has_file ? Json(row.processes.front()) : Json(-1));
    json["count"].push_back(row.ranks.size());
    json["states"].push_back(run_lengths(row.states));
    json["others"].push_back(std::move(others));
    json["culprit"].push_back(row.is_culprit ? 1 : 0);
    json["says"].push_back(says == said.end() ? std::string() : shown(says->second));
  }
  return json;
}

Json roll_json(const analysis::Group& group, const Roll& roll, const analysis::Report& report,
               const std::vector<int32_t>& labels) {
  Json json;
  json["name"] = shown(group.name);
  json["key"] = key_hex(group.key);
  json["nranks"] = known_or_null(group.nranks, group.nranks >= 0);
  json["positions"] = roll.positions;
  json["stretches"] = roll.stretches;
  Json calls = Json::array();
  for (const RollCall& call : roll.calls) calls.push_back({shown(call.call), shown(call.line)});
  json["calls"] = std::move(calls);
  Json usual = Json::array();
  for (const uint32_t call : roll.usual) usual.push_back(call == kNone ? Json(-1) : Json(call));
  json["usual"] = std::move(usual);
  json["rows"] = rows_json(roll, labels, sayings(report, labels, group.name));
  json["seq"] = optional_number(roll.marked_seq);
  return json;
}

}  // namespace

PageData page_data(const trace::Run& run, const analysis::Index& index,
                   const analysis::Report& report) {
  const std::vector<int32_t> labels = process_labels(index.run());
  PageData data;
  // Pieces of text, for the rolls are large and are measured anyhow.
  Json begin = {{"schema", "rollcall.page/1"},
                {"states", states_json()},
                {"ranks", ranks_json(index.run(), labels)}};
  std::string rolls;
  for (const uint32_t group : groups_to_show(index, report)) {
    // The first is whole, whatever its size.
    if (rolls.size() > kRollBytesMax) {
      ++data.rolls_left_out;
      continue;
    }
    const Roll roll = roll_of(index, group, report);
    const std::string text = compact(roll_json(index.groups()[group], roll, report, labels));
    if (data.rolls > 0 && rolls.size() + text.size() > kRollBytesMax) {
      ++data.rolls_left_out;
      continue;
    }
    if (data.rolls++ > 0) rolls += ',';
    rolls += text;
  }
  begin["rolls_left_out"] = data.rolls_left_out;
  data.json = compact(begin);
  data.json.pop_back();
  data.json += fmt::format(",\"rolls\":[{}],\"diff\":{}}}", rolls,
                           compact(Json::parse(diff_json(run, report))));
  return data;
}

}  // namespace rollcall::report
