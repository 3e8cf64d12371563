// NCCL's texts: found by content, wherever they lie, and nothing else is taken for one of them.
#include "profiler_plugin/names.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace rollcall {
namespace names_test {

using profiler::datatype_of;
using profiler::method_of_names;
using profiler::ShortText;

// A page, behind which nothing may be read.
class LastPage {
 public:
  LastPage() : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* pages =
        mmap(nullptr, 2 * page_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    begin_ = static_cast<char*>(pages);
    REQUIRE(mprotect(begin_ + page_bytes_, page_bytes_, PROT_NONE) == 0);
  }
  ~LastPage() { munmap(begin_, 2 * page_bytes_); }
  LastPage(const LastPage&) = delete;
  LastPage& operator=(const LastPage&) = delete;

  // The text, with `behind` bytes between its end and that of the page.
  const char* put(const std::string& text, size_t behind) {
    memset(begin_, 'x', page_bytes_);
    char* place = begin_ + page_bytes_ - behind - text.size() - 1;
    memcpy(place, text.c_str(), text.size() + 1);
    return place;
  }

 private:
  size_t page_bytes_;
  char* begin_ = nullptr;
};

OpKind kind_of(const std::string& text) { return profiler::kind_of(text.c_str()); }

TEST_CASE("every operation of NCCL is found by its name, and marks of ours are none") {
#define ROLLCALL_X(name, family, rooted, reduces)                                               \
  CHECK(kind_of(#name) == (OpFamily::family == OpFamily::mark ? OpKind::Count : OpKind::name)); \
  CHECK(kind_of(#name "s") == OpKind::Count);                                                   \
  CHECK(kind_of(std::string(#name).substr(0, strlen(#name) - 1)) == OpKind::Count);
  ROLLCALL_OPERATIONS(ROLLCALL_X)
#undef ROLLCALL_X
  CHECK(kind_of("") == OpKind::Count);
  CHECK(kind_of("Invalid") == OpKind::Count);
  CHECK(profiler::kind_of(nullptr) == OpKind::Count);
}

TEST_CASE("every datatype is found by its name with NCCL's number") {
  const std::vector<std::string> names = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                          "ncclUint32",   "ncclInt64",      "ncclUint64",
                                          "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                          "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  for (size_t number = 0; number < names.size(); ++number) {
    CHECK(datatype_of(names[number].c_str()) == number);
    CHECK(datatype_of((names[number] + "x").c_str()) == kUnknown8);
  }
  CHECK(datatype_of("Unknown") == kUnknown8);
  CHECK(datatype_of("ncclFloat3") == kUnknown8);
  CHECK(datatype_of(nullptr) == kUnknown8);
}

TEST_CASE("every pair of algorithm and protocol is found by the names") {
  const std::vector<std::string> algorithms = {
      "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
  const std::vector<std::string> protocols = {"LL", "LL128", "SIMPLE"};
  for (size_t i = 0; i < algorithms.size(); ++i) {
    for (size_t k = 0; k < protocols.size(); ++k) {
      const uint8_t method = method_of_names(algorithms[i].c_str(), protocols[k].c_str(), false);
      CHECK(kAlgorithms[algorithm_of(method)] == algorithms[i]);
      CHECK(kProtocols[protocol_of(method)] == protocols[k]);
    }
  }
  const uint8_t symmetric = method_of_names("AGxLL", "", false);
  CHECK(kAlgorithms[algorithm_of(symmetric)] == "symmetric");
  CHECK(method_of_names("RING", "LL", true) == symmetric);
  CHECK(method_of_names("RINGS", "LLL", false) == 0);
  CHECK(method_of_names(nullptr, nullptr, false) == 0);
  CHECK(method_of_names("RING", nullptr, false) == method_of(2, 0));
}

TEST_CASE("a text that ends where its page ends is read up to its end only") {
  LastPage page;
  for (size_t behind = 0; behind < 16; ++behind) {
    for (const char* text : {"", "LL", "Send", "AllGather", "AllReduce", "ReduceScatter"}) {
      INFO(text << ", " << behind << " bytes before the end of the page");
      const ShortText read(page.put(text, behind));
      CHECK(read.is("LL") == (strcmp(text, "LL") == 0));
      CHECK(read.is("Send") == (strcmp(text, "Send") == 0));
      CHECK(read.is("AllReduce") == (strcmp(text, "AllReduce") == 0));
      CHECK(read.is("ReduceScatter") == (strcmp(text, "ReduceScatter") == 0));
    }
  }
}

TEST_CASE("what differs in one letter is another name") {
  const std::string name = "AllReduce";
  for (size_t at = 0; at <= name.size(); ++at) {
    std::string text = name + '\0';
    text[at] = '?';
    CHECK_FALSE(ShortText(text.c_str()).is("AllReduce"));
  }
  // Seven letters and the end fill the word that is compared; eight and the end do not.
  CHECK(ShortText("1234567").is("1234567"));
  CHECK_FALSE(ShortText("12345678").is("1234567"));
  CHECK(ShortText("12345678").is("12345678"));
  CHECK_FALSE(ShortText("1234567").is("12345678"));
  CHECK_FALSE(ShortText("123456789").is("12345678"));
}

}  // namespace names_test
}  // namespace rollcall
