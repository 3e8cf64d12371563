#include "core/base/text.h"

#include "tests/catch.h"

namespace rollcall {
namespace {

TEST_CASE("text that does not fit is cut, and counted") {
  TextBuffer<8> buffer;
  buffer.text("abcdef").number(12345);
  CHECK(buffer.view() == "abcdef12");
  CHECK(buffer.cut_bytes() == 3);
  CHECK(std::string_view(buffer.c_str()) == "abcdef1");
}

TEST_CASE("numbers are written as they are read") {
  TextBuffer<200> buffer;
  buffer.number(0).character(' ').number(UINT64_MAX).character(' ').signed_number(INT64_MIN);
  buffer.character(' ').padded(42, 6).character(' ').hex(0xdeadbeef).character(' ').hex(1, 4);
  CHECK(buffer.view() == "0 18446744073709551615 -9223372036854775808 000042 deadbeef 0001");
  uint64_t value = 0;
  CHECK(parse_decimal("18446744073709551615", value));
  CHECK(value == UINT64_MAX);
  CHECK_FALSE(parse_decimal("18446744073709551616", value));
  CHECK_FALSE(parse_decimal("", value));
  CHECK_FALSE(parse_decimal("12 ", value));
}

TEST_CASE("control characters cannot break a line of meta or a JSON string") {
  TextBuffer<100> meta;
  meta.escaped(std::string_view("a\nb\\c\0d", 7));
  CHECK(meta.view() == "a\\nb\\\\c\\0d");
  TextBuffer<100> json;
  json.json("say \"hi\"\n\\");
  CHECK(json.view() == "say \\\"hi\\\"\\u000a\\\\");
}

TEST_CASE("a part of a text that is not there is empty, whatever the positions") {
  constexpr std::string_view kText = "rollcall";
  CHECK(part_of(kText, 0, 4) == "roll");
  CHECK(part_of(kText, 4) == "call");
  CHECK(part_of(kText, 4, 100) == "call");
  CHECK(part_of(kText, 8).empty());
  CHECK(part_of(kText, 9).empty());
  CHECK(part_of(kText, std::string_view::npos, std::string_view::npos).empty());
  CHECK(part_of({}, 0).empty());
}

}  // namespace
}  // namespace rollcall
