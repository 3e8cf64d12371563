// Lists of ranks that contradict each other, in jobs that make their communicators as PyTorch does:
// each rank passes the smallest rank of its list as the colour and its place in it as the key.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {
namespace split_lists_test {

using List = std::vector<int>;

// What a rank passes to one split; an empty list: it has no part in it.
struct Part {
  int colour = -1;
  int key = 0;
  std::string name;
};
using Parts = std::vector<std::vector<Part>>;  // by split, by rank

// new_group() of these lists, by rank: each numbers the groups, also those it is in none of.
Parts new_groups(const std::vector<std::vector<List>>& lists) {
  Parts parts(lists[0].size(), std::vector<Part>(lists.size()));
  for (size_t r = 0; r < lists.size(); ++r) {
    for (size_t split = 0; split < lists[r].size(); ++split) {
      const List& list = lists[r][split];
      const auto place = std::find(list.begin(), list.end(), static_cast<int>(r));
      if (place == list.end()) continue;
      parts[split][r] = {.colour = *std::min_element(list.begin(), list.end()),
                         .key = static_cast<int>(place - list.begin()),
                         .name = std::to_string(split + 1)};
    }
  }
  return parts;
}

// split_group() and device meshes: the same, named by a digest of the list, cut as on file.
Parts split_groups(const std::vector<std::vector<List>>& lists) {
  Parts parts = new_groups(lists);
  for (size_t split = 0; split < parts.size(); ++split) {
    for (size_t r = 0; r < lists.size(); ++r) {
      uint64_t digest = split + 1;
      for (const int rank : lists[r][split])
        digest = digest * 1000003 + static_cast<uint64_t>(rank);
      if (parts[split][r].colour >= 0) parts[split][r].name = fmt::format("{:039x}", digest);
    }
  }
  return parts;
}

// new_group() of the former backend: the colour is a hash of the list, the name has a description.
Parts described_groups(const std::vector<std::vector<List>>& lists) {
  Parts parts = new_groups(lists);
  for (size_t split = 0; split < parts.size(); ++split) {
    for (size_t r = 0; r < lists.size(); ++r) {
      Part& part = parts[split][r];
      if (part.colour < 0) continue;
      part.name = "undefined:" + part.name;
      for (const int rank : lists[r][split]) part.colour = (part.colour * 131 + rank) % 1000003;
    }
  }
  return parts;
}

// Every rank reduces in all of its communicators, as often as its fellows: all calls match.
trace::Run make_run(const Parts& parts, const std::string& world = "0") {
  const int ranks = static_cast<int>(parts[0].size());
  Program program;
  program.comms.emplace_back();
  program.ranks.resize(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    program.comms[0].ranks.push_back(r);
    program.ranks[static_cast<size_t>(r)].push_back(call(OpKind::AllReduce, 64));
  }
  std::vector<size_t> split_of = {0};
  for (size_t split = 0; split < parts.size(); ++split) {
    std::map<int, List> members;
    for (int r = 0; r < ranks; ++r) {
      const int colour = parts[split][static_cast<size_t>(r)].colour;
      if (colour >= 0) members[colour].push_back(r);
    }
    for (auto& [colour, list] : members) {
      std::stable_sort(list.begin(), list.end(), [&](int a, int b) {
        return parts[split][static_cast<size_t>(a)].key < parts[split][static_cast<size_t>(b)].key;
      });
      for (const int r : list) {
        const int comm = static_cast<int>(program.comms.size());
        program.ranks[static_cast<size_t>(r)].push_back(call(OpKind::AllReduce, 8, -1, comm));
      }
      split_of.push_back(split);
      program.comms.push_back({.ranks = list,
                               .parent = 0,
                               .child_number = static_cast<uint32_t>(split),
                               .colour = colour});
    }
  }
  trace::Run run = execute(program).run;
  for (size_t r = 0; r < run.processes.size(); ++r) {
    for (trace::Comm& comm : run.processes[r].comms) {
      const size_t which = comm.key.high == 7 ? comm.key.low - 1 : comm.key.high - 1;
      comm.name = world;
      if (which == 0) continue;
      const Part& part = parts[split_of[which]][r];
      comm.name = part.name;
      comm.split_key = part.key;
    }
  }
  return run;
}

std::vector<std::vector<List>> on_all(size_t ranks, const std::vector<List>& lists) {
  return std::vector<std::vector<List>>(ranks, lists);
}

List blamed(const Finding& finding) {
  List ranks;
  for (const Culprit& culprit : finding.culprits) ranks.push_back(culprit.rank);
  return ranks;
}

void check_mismatch(const trace::Run& run, const List& culprits) {
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::split_mismatch);
  CHECK(lead(report).confidence == Confidence::likely);
  CHECK(blamed(lead(report)) == culprits);
  CHECK(report.findings.size() == 1);
  CHECK(report.status == 1);
}

void check_lockstep(const trace::Run& run) {
  const Report report = analyse(run);
  INFO(text_of(report));
  CHECK(lead(report).verdict == Verdict::in_lockstep);
  CHECK(report.findings.size() == 1);
  CHECK(report.status == 0);
}

TEST_CASE("who makes his groups in another order is named, with the members of both") {
  auto lists = on_all(8, {{0, 1, 2, 3}, {2, 3, 4, 5}});
  std::swap(lists[2][0], lists[2][1]);
  const trace::Run run = make_run(new_groups(lists));
  check_mismatch(run, {2});
  const Report report = analyse(run);
  const std::string& summary = lead(report).summary;
  CHECK(summary.starts_with("rank 2 listed other members for group 1 than ranks 0-1,3:"));
  CHECK(summary.find("2 communicators of it, of ranks 0-1,3 and of rank 2;") != std::string::npos);
  CHECK(summary.find("rank 3 is number 2 there and was listed as number 3") != std::string::npos);
  CHECK(lead(report).victims == std::vector<int32_t>{0, 1, 3, 4, 5});
  REQUIRE(!lead(report).evidence.empty());
  CHECK(lead(report).evidence[0].text ==
        "rank 3: number 3 of its list for \"1\", in split 0 of group 0; number 2 of the 3 that "
        "came");
}

TEST_CASE("a group in the place of one that the rank is no member of is seen") {
  for (const int wrong : {1, 3}) {
    auto lists = on_all(6, {{0, 1, 2, 3}, {4, 5}});
    std::swap(lists[static_cast<size_t>(wrong)][0], lists[static_cast<size_t>(wrong)][1]);
    check_mismatch(make_run(new_groups(lists)), {wrong});
  }
}

TEST_CASE("several ranks that differ are named, and all of them where none is in the minority") {
  auto lists = on_all(8, {{0, 1, 2, 3}, {2, 3, 4, 5}});
  for (const size_t r : {size_t{2}, size_t{3}}) std::swap(lists[r][0], lists[r][1]);
  check_mismatch(make_run(new_groups(lists)), {2, 3});
  lists = on_all(4, {{0, 1, 2, 3}});
  lists[2][0] = lists[3][0] = {1, 2, 3};
  check_mismatch(make_run(new_groups(lists)), {0, 1, 2, 3});
}

TEST_CASE("a list without some of the others is told by those who are not where they should be") {
  auto lists = on_all(6, {{0, 1, 2, 3, 4}});
  lists[2][0] = {2, 3};
  check_mismatch(make_run(new_groups(lists)), {2});
}

TEST_CASE("names with a description count, and children under the name of their parent do not") {
  auto lists = on_all(6, {{0, 1, 2, 3}, {4, 5}, {2, 3, 4, 5}});
  check_lockstep(make_run(described_groups(lists), "default_pg:0"));
  std::swap(lists[2][0], lists[2][2]);
  check_mismatch(make_run(described_groups(lists), "default_pg:0"), {2});
  lists = on_all(4, {{0, 1, 2, 3}});
  lists[2][0] = {1, 2};
  check_mismatch(make_run(described_groups(lists), "default_pg:0"), {2});
  Parts parts = described_groups(lists);
  for (Part& part : parts[0]) part.name = "default_pg:0";
  check_lockstep(make_run(parts, "default_pg:0"));
}

TEST_CASE("a device mesh of another shape is seen although its groups have the right members") {
  std::vector<List> rows = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  const auto list_of = [](const std::vector<List>& dim, int rank) {
    return *std::find_if(dim.begin(), dim.end(), [&](const List& list) {
      return std::find(list.begin(), list.end(), rank) != list.end();
    });
  };
  std::vector<std::vector<List>> lists(8);
  for (int r = 0; r < 8; ++r) {
    const bool is_wrong = r == 5;
    lists[static_cast<size_t>(r)] = {
        list_of(is_wrong ? std::vector<List>{{0, 2, 4, 6}, {1, 3, 5, 7}} : rows, r),
        list_of(is_wrong ? std::vector<List>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}
                         : std::vector<List>{{0, 1, 2, 3}, {4, 5, 6, 7}},
                r)};
  }
  check_mismatch(make_run(split_groups(lists)), {5});
  lists[5] = {{1, 5}, {4, 5, 6, 7}};
  check_lockstep(make_run(split_groups(lists)));
}

TEST_CASE("groups that overlap, differ in size or hold one rank are in lockstep") {
  check_lockstep(make_run(new_groups(on_all(8, {{0, 1, 2, 3}, {2, 3, 4, 5}}))));
  check_lockstep(make_run(new_groups(on_all(8, {{0, 1, 2}, {3, 4, 5, 6, 7}, {7}, {6, 2}}))));
  check_lockstep(make_run(new_groups(on_all(4, {{3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {1, 3}}))));
}

// The parts of one split by their colours, under one name.
Parts halves(const std::string& name, const std::function<int(int)>& key_of) {
  Parts parts(1, std::vector<Part>(8));
  for (int r = 0; r < 8; ++r) {
    parts[0][static_cast<size_t>(r)] = {.colour = r < 3 ? 0 : 1, .key = key_of(r), .name = name};
  }
  return parts;
}

TEST_CASE("parts of one name are in lockstep, whatever their keys mean") {
  for (const char* name : {"tp", "1", ""}) {
    INFO(name);
    check_lockstep(make_run(halves(name, [](int r) { return r < 3 ? r : r - 3; })));
    check_lockstep(make_run(halves(name, [](int r) { return r; })));
    check_lockstep(make_run(halves(name, [](int) { return 0; })));
    check_lockstep(make_run(halves(name, [](int r) { return -r; })));
  }
  check_lockstep(make_run(halves("tp", [](int r) { return 10 * r + 5; })));
  check_lockstep(make_run(halves("1", [](int r) { return 10 * r + 5; }), "world"));
  check_lockstep(make_run(halves("1", [](int r) { return 10 * r + 5; }), "7"));
}

TEST_CASE("ranks that number their groups differently and list the same members are in lockstep") {
  // Ranks 0 and 1 had a group of their own before, which the others did not count.
  Parts parts = new_groups(on_all(4, {{0, 1, 2, 3}, {0, 2}, {1, 3}}));
  for (auto& split : parts) {
    for (const size_t r : {size_t{0}, size_t{1}}) {
      if (split[r].colour >= 0) split[r].name = std::to_string(std::stoi(split[r].name) + 1);
    }
  }
  check_lockstep(make_run(parts));
  // Each half makes its own group alone.
  std::vector<std::vector<List>> lists(4, {{0, 1}});
  lists[2][0] = lists[3][0] = {2, 3};
  check_lockstep(make_run(new_groups(lists)));
}

TEST_CASE("a missing file, a shrunk communicator and another recorder's keys accuse nobody") {
  trace::Run run = make_run(new_groups(on_all(6, {{0, 1, 2, 3}, {2, 3, 4, 5}})));
  run.processes.erase(run.processes.begin() + 2);
  const Report missing = analyse(run);
  CHECK(text_of(missing).find("RC-SPLIT-MISMATCH") == std::string::npos);

  auto lists = on_all(8, {{0, 1, 2, 3}, {2, 3, 4, 5}});
  std::swap(lists[2][0], lists[2][1]);
  run = make_run(new_groups(lists));
  trace::Run shrunk = run;
  for (trace::Process& process : shrunk.processes) {
    for (size_t i = 1; i < process.comms.size(); ++i) process.comms[i].origin = CommOrigin::shrink;
  }
  check_lockstep(shrunk);
  for (trace::Process& process : run.processes) process.recorder = "nccl_log";
  CHECK(text_of(analyse(run)).find("RC-SPLIT-MISMATCH") == std::string::npos);
}

}  // namespace split_lists_test
}  // namespace rollcall::analysis
