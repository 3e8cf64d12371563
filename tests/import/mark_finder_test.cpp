// The search for several words, held against one that looks at every byte.
#include "trace/import/mark_finder.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace rollcall::trace {
namespace {

using Places = std::vector<std::pair<size_t, size_t>>;  // of marks: where they begin, their number

Places places_of(const MarkFinder& finder, const std::string& text) {
  Places places;
  for (size_t at = 0; at < text.size(); ++at) {
    for (size_t i = 0; i < finder.marks().size(); ++i) {
      if (text.compare(at, finder.marks()[i].size(), finder.marks()[i]) == 0) {
        places.emplace_back(at, i);
      }
    }
  }
  return places;
}

// Pieces of marks, whole marks, and bytes that stand in none, without anything between them.
std::string text_of(const std::vector<std::string>& marks, std::mt19937& random) {
  std::string text;
  for (size_t pieces = random() % 30; pieces > 0; --pieces) {
    const std::string& mark = marks[random() % marks.size()];
    const size_t begin = random() % 2 == 0 ? 0 : random() % mark.size();
    const size_t bytes = random() % 2 == 0 ? mark.size() : random() % 5;
    text += random() % 4 == 0 ? std::string(random() % 9, 'z') : mark.substr(begin, bytes);
  }
  return text;
}

TEST_CASE("a mark is found wherever it stands, and first the one that begins first") {
  const std::vector<std::vector<std::string>> sets = {
      {"Error: "},
      {"Error: ", "Exception: ", "Errors: many", "ror: fatal", "NCCL WARN", " NCCL INFO "},
      {"aaaaaaa", "aaaaaaab", "aaaaaaaaaaaaaaaa", "baaaaaaa"},
      {"a mark that is longer than any look reaches", "another one that is as long as that"},
  };
  std::mt19937 random(7);
  for (const auto& set : sets) {
    const MarkFinder finder(set);
    for (int round = 0; round < 2000; ++round) {
      const std::string text = text_of(set, random);
      const Places places = places_of(finder, text);
      for (size_t from = 0; from <= text.size(); ++from) {
        const auto first =
            std::ranges::find_if(places, [&](const auto& place) { return place.first >= from; });
        CAPTURE(text, from);
        REQUIRE(finder.find(text, from) ==
                (first == places.end() ? std::string::npos : first->first));
      }
    }
  }
}

TEST_CASE("each place of each mark is told once, also where marks stand in marks") {
  const std::vector<std::string> set = {"Error: ", "CUDA Error: ", "Error: CUDA", "aaaaaaa"};
  const MarkFinder finder(set);
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = text_of(set, random);
    std::vector<size_t> expected;
    for (const auto& [at, mark] : places_of(finder, text)) expected.push_back(mark);
    std::vector<size_t> told;
    finder.for_each(text, [&](size_t mark) { told.push_back(mark); });
    std::ranges::sort(expected);
    std::ranges::sort(told);
    CAPTURE(text);
    REQUIRE(told == expected);
  }
}

TEST_CASE("a text that is shorter than a mark holds none") {
  const MarkFinder finder({"Error: ", "NCCL WARN"});
  for (const std::string_view text : {"", "E", "Erro", "Error:"}) {
    CHECK(finder.find(text, 0) == std::string_view::npos);
    finder.for_each(text, [](size_t) { FAIL("nothing stands there"); });
  }
  // A mark that begins before the place from which it is looked for is not found.
  CHECK(finder.find("Error: ", 0) == 0);
  CHECK(finder.find("Error: ", 1) == std::string_view::npos);
}

}  // namespace
}  // namespace rollcall::trace
