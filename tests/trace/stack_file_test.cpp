// Files of stacks, as they are written, cut off, and made up by somebody.
#include "trace/stack_file.h"

#include <string>

#include "core/format/stack_request.h"
#include "tests/catch.h"

namespace rollcall::trace {
namespace stack_file_test {

constexpr const char* kText =
    "rollcall_stacks 1\n"
    "realtime_ns 5000\n"
    "pid 70\n"
    "source recorder\n"
    "thread 70\n"
    "name train\\nme\n"
    "state S\n"
    "wait_channel hrtimer_nanosleep\n"
    "system_call 230 0x0\n"
    "thread 71\n"
    "state R\n"
    "python 3.12.1\n"
    "python_thread 70\n"
    "holds_gil 1\n"
    "frame /a/train.py:7 step\n"
    "frame /a/train.py:90 <module>\n"
    "end 1\n";

TEST_CASE("a file of stacks is read back, thread by thread", "[stacks]") {
  const auto file = parse_stacks(kText);
  REQUIRE(file);
  CHECK(file->pid == 70);
  CHECK(file->realtime_ns == 5000);
  CHECK(file->python == "3.12.1");
  CHECK(file->is_whole);
  CHECK_FALSE(file->is_from_outside);
  REQUIRE(file->threads.size() == 2);
  const StackThread& first = file->threads[0];
  CHECK(first.number == 70);
  CHECK(first.name == "train\nme");
  CHECK(first.wait_channel == "hrtimer_nanosleep");
  CHECK(first.system_call == "230 0x0");
  CHECK(first.holds_gil);
  CHECK(first.frames == std::vector<std::string>{"/a/train.py:7 step", "/a/train.py:90 <module>"});
  CHECK(file->threads[1].frames.empty());
  CHECK_FALSE(file->threads[1].holds_gil);
}

TEST_CASE("a file of stacks that is cut off anywhere is read as far as it goes, and not as whole",
          "[stacks]") {
  const std::string text = kText;
  for (size_t bytes = text.find('\n') + 1; bytes + 2 < text.size(); ++bytes) {
    const auto file = parse_stacks(text.substr(0, bytes));
    REQUIRE(file);
    CHECK(file->is_whole == (bytes >= text.size() - 3));
    CHECK(file->threads.size() <= 3);  // a number may be cut short
  }
}

TEST_CASE("what is no file of stacks is refused, and one that is made up is bounded", "[stacks]") {
  CHECK_FALSE(parse_stacks(""));
  CHECK_FALSE(parse_stacks("rollcall_stacks 2\npid 1\n"));
  CHECK_FALSE(parse_stacks("frame x:1 f\n"));
  std::string deep = "rollcall_stacks 1\nframe nobody's:1 f\nthread x\nframe y:1 f\nthread 9\n";
  for (int i = 0; i < 1000; ++i) deep += "frame a:1 f\n";
  const auto file = parse_stacks(deep + "\n \nunknown\nthread 18446744073709551616\nframe z:1 f\n");
  REQUIRE(file);
  REQUIRE(file->threads.size() == 1);
  CHECK(file->threads[0].frames.size() == kStackFramesMax);
  CHECK_FALSE(file->is_whole);
}

}  // namespace stack_file_test
}  // namespace rollcall::trace
