// Lines that a log driver wrapped in objects of JSON.
#include "trace/import/embedded_line.h"

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/catch.h"
#include "tests/import/damage.h"
#include "tests/import/job_words.h"

using namespace rollcall;
using namespace rollcall::trace;

namespace {

std::string inside(const std::string& line) {
  std::string scratch;
  return std::string(embedded_line(line, scratch));
}

std::string docker(const std::string& json_of_message) {
  return R"({"log":)" + json_of_message +
         R"(,"stream":"stderr","time":"2026-11-27T15:40:00.123456789Z"})";
}

}  // namespace

TEST_CASE("what docker wrapped is what a parser of JSON finds in it") {
  const std::vector<std::string> pieces = {"a", "[rank3]:",         "\"", "\\", "\t", "\x1b", "<&>",
                                           "é", "\xf0\x9f\x98\x80", "\r", "}"};
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string message;
    for (size_t k = random() % 8; k > 0; --k) message += pieces[random() % pieces.size()];
    message += "x";
    const nlohmann::json whole = message + "\n";
    CHECK(inside(docker(whole.dump())) == message);
    CHECK(inside(docker(whole.dump(-1, ' ', true))) == message);  // all but ASCII spelt
  }
}

TEST_CASE("an object with other fields, in another order, or of another program is read as well") {
  CHECK(inside(R"({"stream":"stderr","log":"words\n","time":"t"})") == "words");
  CHECK(inside(R"({"log":"words\n","stream":"stdout","attrs":{"tag":"x"},"time":"t"})") == "words");
  CHECK(inside(R"({"level":"error","msg":"words"})") == "words");
}

TEST_CASE("what only begins as docker's lines do stays as it is") {
  for (const char* line : {R"({"log":"words\n","stream":"stderr","time":"t})",
                           R"({"log":"words\q","stream":"stdout"})", R"({"log":"words)",
                           R"({"log":7})", R"({"log":"\u12"})", R"({"log":"a","stream":"x",})"}) {
    CAPTURE(line);
    CHECK(inside(line) == line);
  }
}

TEST_CASE("a log that docker wrapped, with colours and bars in it, says what the bare one does") {
  const auto wrapped = [](const std::string& log) {
    std::string out;
    for (const std::string& line : lines_of(log)) {
      out +=
          docker(nlohmann::json("\r 1%|  |\x1b[36m(Worker pid=12)\x1b[0m " + line).dump()) + "\n";
    }
    return out;
  };
  CHECK(judged(wrapped(three_gave_up())).summary == judged(three_gave_up()).summary);
}
