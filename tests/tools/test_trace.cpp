// `rollcall trace`: which format, which ranks, which calls.
#include <filesystem>

#include "tests/catch.h"
#include "tests/tools/command_line.h"

namespace test_trace {

using namespace rollcall::test;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void make_run(const Folder& folder, const char* ranks, const char* ops) {
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", ranks, "--ops", ops, "--fault",
                               "missing-call@70"})
              .status == 0);
}

// Perfetto's files begin with the first field of a message, which is one.
constexpr char kProtobuf = '\n';

TEST_CASE("the name of a trace decides its format, and --format decides against the name") {
  const Folder folder;
  make_run(folder, "80", "20");
  const auto first_of = [&](const std::vector<std::string>& words, const std::string& file) {
    std::vector<std::string> all = {"trace", "run", "-o", file};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run_command(folder, all);
    REQUIRE(outcome.status == 0);
    const std::string text = file == "-" ? outcome.out : read_text(folder / file);
    REQUIRE_FALSE(text.empty());
    return text.front();
  };
  CHECK(first_of({}, "a.pftrace") == kProtobuf);
  CHECK(first_of({}, "a.perfetto-trace") == kProtobuf);
  CHECK(first_of({}, "a.json") == '{');
  CHECK(first_of({}, "-") == '{');
  CHECK(first_of({"--format", "json"}, "b.pftrace") == '{');
  CHECK(first_of({"--format", "perfetto"}, "b.json") == kProtobuf);
  CHECK(first_of({"--format", "perfetto"}, "-") == kProtobuf);
}

TEST_CASE("a trace of a large run says which share of it was written, and --ranks chooses") {
  const Folder folder;
  make_run(folder, "80", "20");
  const Outcome chosen = run_command(folder, {"trace", "run", "-o", "a.pftrace"});
  CHECK(chosen.status == 0);
  CHECK(contains(chosen.err, "of 64 of 80 processes are in a.pftrace"));
  CHECK(contains(read_text(folder / "a.pftrace"), "(culprit)"));
  const Outcome all = run_command(folder, {"trace", "run", "-o", "b.pftrace", "--ranks", "all"});
  CHECK(contains(all.err, "of 80 processes are in b.pftrace"));
  CHECK_FALSE(contains(all.err, "--ranks"));
  const Outcome some =
      run_command(folder, {"trace", "run", "-o", "c.pftrace", "--ranks", "9,2-3,3"});
  CHECK(contains(some.err, "of 3 of 80 processes are in c.pftrace"));
  const std::string text = read_text(folder / "c.pftrace");
  CHECK(contains(text, "rank 9 "));
  CHECK_FALSE(contains(text, "rank 70 node"));
}

TEST_CASE("ranks that are no list, or on no file, are refused by name") {
  const Folder folder;
  make_run(folder, "80", "20");
  for (const char* list : {"x", "3-", "5-4", "1,,2", "-1"}) {
    INFO(list);
    const Outcome outcome =
        run_command(folder, {"trace", "run", "-o", "a.pftrace", std::string("--ranks=") + list});
    CHECK(outcome.status == 2);
    CHECK(contains(outcome.err, "--ranks"));
  }
  const Outcome absent = run_command(folder, {"trace", "run", "-o", "a.pftrace", "--ranks", "80"});
  CHECK(absent.status == 2);
  CHECK(contains(absent.err, "no file of rank 80"));
  const Outcome json = run_command(folder, {"trace", "run", "-o", "a.json", "--ranks", "3"});
  CHECK(json.status == 2);
  CHECK(contains(json.err, "--ranks, --steps and --around are for Perfetto's own format"));
}

TEST_CASE("--around writes the calls around a position and no others") {
  const Folder folder;
  make_run(folder, "80", "400");
  REQUIRE(run_command(folder, {"trace", "run", "-o", "all.pftrace"}).status == 0);
  const Outcome around =
      run_command(folder, {"trace", "run", "-o", "part.pftrace", "--around", "30"});
  CHECK(around.status == 0);
  CHECK(read_text(folder / "part.pftrace").size() < read_text(folder / "all.pftrace").size() / 2);
}

TEST_CASE("--steps writes the calls of these steps and no others") {
  const Folder folder;
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "4", "--ops", "2000"}).status == 0);
  const auto slices_of = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"trace", "run", "-o", "a.pftrace"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run_command(folder, all);
    CHECK(outcome.status == 0);
    std::string number = outcome.err.substr(0, outcome.err.find(" slices"));
    std::erase_if(number, [](char one) { return one < '0' || one > '9'; });
    return std::stoul(number);
  };
  // A step is 9 calls; of each there is the slice of the call, and that of the rank's state.
  const size_t of_one = slices_of({"--steps", "10"});
  CHECK(of_one >= 4 * 18);
  CHECK(of_one <= 4 * 18 + 16);
  CHECK(slices_of({"--steps", "10-12"}) >= 3 * 4 * 18);
  CHECK(slices_of({"--steps", "10-12"}) <= 3 * 4 * 18 + 16);
  CHECK(slices_of({"--steps", "10", "--ranks", "2"}) <= of_one / 3);
  const size_t whole = slices_of({});
  CHECK(slices_of({"--steps", "0-1000000"}) <= whole);
  CHECK(slices_of({"--steps", "0-1000000"}) >= whole - whole / 100);
}

TEST_CASE("steps that are no range, or that there are not, are refused") {
  const Folder folder;
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "4", "--ops", "2000"}).status == 0);
  for (const char* steps : {"x", "3-", "5-4", "-1", "99999999999"}) {
    INFO(steps);
    const Outcome outcome =
        run_command(folder, {"trace", "run", "-o", "a.pftrace", std::string("--steps=") + steps});
    CHECK(outcome.status == 2);
    CHECK(contains(outcome.err, "--steps takes a range of steps"));
  }
  const Outcome absent =
      run_command(folder, {"trace", "run", "-o", "a.pftrace", "--steps", "1000000"});
  CHECK(absent.status == 2);
  CHECK(contains(absent.err, "steps, which are counted from 0"));
  REQUIRE(run_command(folder, {"synth", "-o", "few", "--ranks", "4", "--ops", "2"}).status == 0);
  const Outcome none = run_command(folder, {"trace", "few", "-o", "a.pftrace", "--steps", "0"});
  CHECK(none.status == 2);
  CHECK(contains(none.err, "--steps: there are no steps"));
  CHECK_FALSE(std::filesystem::exists(folder / "a.pftrace"));
}

TEST_CASE("steps are not counted in a window, which begins at any of them") {
  const Folder folder;
  REQUIRE(run_command(folder, {"synth", "-o", "run", "--ranks", "2", "--ops", "200"}).status == 0);
  const Outcome outcome =
      run_command(folder, {"trace", "run", "-o", "a.pftrace", "--steps", "3", "--window", "100"});
  CHECK(outcome.status == 2);
  CHECK(contains(outcome.err, "leave --window out"));
  CHECK_FALSE(std::filesystem::exists(folder / "a.pftrace"));
}

TEST_CASE("calls of a large run that judging leaves on disk are in its trace") {
  const Folder folder;
  // More than are held in memory (tools/perfetto_run.cpp).
  make_run(folder, "1024", "1100");
  const std::vector<std::string> words = {"trace", "run", "--ranks", "5,70", "-o"};
  const auto trace_with = [&](std::vector<std::string> more, const char* file) {
    std::vector<std::string> all = words;
    all.emplace_back(file);
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_command(folder, all);
    CHECK(outcome.status == 0);
    CHECK_FALSE(contains(outcome.err, "left on disk"));
    return read_text(folder / file);
  };
  const std::string trace = trace_with({}, "a.pftrace");
  CHECK(trace.size() > 2 * 1000 * 40);
  CHECK((trace == trace_with({"--window", "1000000"}, "b.pftrace")));
}

}  // namespace test_trace
