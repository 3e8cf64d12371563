// The file of stacks: what is left out of it, and that it says so.
#include "core/capture/stack_file.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tests/catch.h"

namespace rollcall {
namespace stack_file_test {

// The file's text, of lines that `write` adds.
template <typename Write>
std::string text_of(const Write& write) {
  char name[] = "/tmp/rollcall-stacks-XXXXXX";
  const std::string folder = mkdtemp(name);
  auto file = std::make_unique<capture::StackFile>();
  REQUIRE(file->create(folder.c_str(), "one"));
  write(*file);
  CHECK(file->finish());
  std::ostringstream text;
  text << std::ifstream(folder + "/one.stacks").rdbuf();
  std::filesystem::remove_all(folder);
  return text.str();
}

TEST_CASE("behind the first line that does not fit there is none of the file of stacks") {
  const std::string text = text_of([](capture::StackFile& file) {
    const std::string kLong(4000, 'x');
    // So that the last long one does not fit, and a short one would.
    for (uint64_t i = 0; i <= kStackFileBytesMax / kLong.size(); ++i) file.line("long", kLong);
    file.line("short", 1);
  });
  CHECK(text.size() <= kStackFileBytesMax);
  CHECK(text.find("short") == std::string::npos);
  CHECK(text.ends_with("x\ncut 1\nend 1\n"));
}

TEST_CASE("a file of stacks from which something was left out goes on, and says so at its end") {
  CHECK(text_of([](capture::StackFile& file) {
          file.note_cut();
          file.line("later", 1);
        }) == "later 1\ncut 1\nend 1\n");
  CHECK(text_of([](capture::StackFile& file) { file.line("all", 1); }) == "all 1\nend 1\n");
}

}  // namespace stack_file_test
}  // namespace rollcall
