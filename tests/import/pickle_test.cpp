#include "trace/import/pickle.h"

#include <string>
#include <vector>

#include "tests/catch.h"

using namespace rollcall::trace;

namespace {

PickleResult read(const std::string& bytes) {
  return read_pickle({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

std::string text(const std::string& content) {
  const auto length = static_cast<char>(content.size());
  return std::string("\x58") + length + std::string(3, '\0') + content;
}

}  // namespace

TEST_CASE("a dictionary of plain values is read") {
  const PickleResult result =
      read("\x80\x02}(" + text("a") + "K\x07" + text("b") + "\x88" + text("c") + "Nu.");
  REQUIRE(result.root != nullptr);
  CHECK(result.root->integer_of("a", -1) == 7);
  CHECK(result.root->find("b")->boolean_or(false));
  CHECK(result.root->find("c")->integer_or(-5) == -5);
  CHECK(result.error.empty());
}

TEST_CASE("negative and eight byte integers keep their value") {
  const std::string eight("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
  const std::string minus_two("\x8a\x01\xfe", 3);
  const PickleResult result = read("\x80\x02](" + eight + minus_two + "J\xff\xff\xff\xff" + "e.");
  REQUIRE(result.root != nullptr);
  const PlainList& list = *result.root->list();
  CHECK(list[0]->integer_or(0) == INT64_MAX);
  CHECK(list[1]->integer_or(0) == -2);
  CHECK(list[2]->integer_or(0) == -1);
}

TEST_CASE("an opcode that names code is refused wherever it stands") {
  // GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, STACK_GLOBAL, PERSID, BINPERSID, EXT1,
  // EXT2, EXT4, and what only those need: POP, DUP.
  const std::string forbidden =
      "cRbio\x81\x92\x93PQ\x82\x83\x84"
      "02";
  for (const char opcode : forbidden) {
    const PickleResult result = read(std::string("\x80\x02](K\x01") + opcode + "os\nsystem\ne.");
    CAPTURE(static_cast<int>(static_cast<unsigned char>(opcode)));
    CHECK(result.root == nullptr);
    CHECK(result.refused);
  }
}

TEST_CASE("a pickle cut off at any byte is truncated, never a value") {
  const std::string whole = "\x80\x02}(" + text("entries") + "](" + text("x") + "K\x01" + "eu.";
  REQUIRE(read(whole).root != nullptr);
  for (size_t length = 0; length < whole.size(); ++length) {
    const PickleResult result = read(whole.substr(0, length));
    CAPTURE(length);
    CHECK(result.root == nullptr);
    CHECK(result.truncated);
    CHECK_FALSE(result.refused);
  }
}

TEST_CASE("a memo bomb stays as small as its file") {
  // Each list holds the one before it twice: 2^40 leaves if it were expanded.
  std::string bytes = "\x80\x04](]\x94";
  for (int i = 0; i < 40; ++i) {
    const auto index = static_cast<char>(i);
    bytes += std::string("](h") + index + "h" + index + "e\x94";
  }
  const PickleResult result = read(bytes + "e.");
  REQUIRE(result.root != nullptr);
  CHECK(result.root->depth == 42);
}

TEST_CASE("a list that would contain itself is refused") {
  CHECK(read(std::string("\x80\x02]q\x00(h\x00"
                         "e.",
                         9))
            .refused);
  // Through another list: the inner one is sealed once it is part of the outer.
  const std::string indirect(
      "\x80\x02]q\x00]q\x01h\x00"
      "ah\x01"
      "a.",
      14);
  CHECK(read(indirect).root == nullptr);
}

TEST_CASE("nesting deeper than any dump is refused") {
  const PickleResult result =
      read("\x80\x02" + std::string(200000, ']') + std::string(199999, 'a') + ".");
  CHECK(result.root == nullptr);
  CHECK(result.refused);
}

TEST_CASE("a length beyond the file is refused before memory is asked for") {
  const PickleResult result =
      read(std::string("\x80\x02X\xff\xff\xff\x7f"
                       "abc",
                       10));
  CHECK(result.root == nullptr);
  CHECK(result.refused);
}

TEST_CASE("a memo index out of order is malformed") {
  CHECK(read(std::string("\x80\x02]q\x05.", 6)).root == nullptr);
  CHECK(read(std::string("\x80\x02h\x00.", 5)).root == nullptr);
}
