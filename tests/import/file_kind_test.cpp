// What files are called that are handed over.
#include "trace/import/file_kind.h"

#include <string>

#include "tests/catch.h"

namespace rollcall::trace {
namespace {

FileKind kind_of_text(const std::string& text) {
  return kind_of({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

TEST_CASE("a trace of the PyTorch profiler is no Flight Recorder dump, although it has pg_config") {
  const std::string trace =
      R"({"schemaVersion": 1, "distributedInfo": {"pg_config": []}, "traceEvents": []})";
  CHECK(kind_of_text(trace).format == ForeignFormat::kineto);
  CHECK(kind_of_text(R"({"version": "2.10", "pg_config": {}})").format ==
        ForeignFormat::flight_recorder_json);
}

TEST_CASE("what is not read is named, with what to do instead") {
  const auto check = [](const std::string& text, const std::string& name) {
    const FileKind kind = kind_of_text(text);
    CAPTURE(name);
    CHECK(kind.format == ForeignFormat::named);
    CHECK(kind.name == name);
    CHECK(kind.help.size() > 20);
    CHECK(kind.help.find("move it out") == std::string_view::npos);
  };
  check("<system version=\"1\">\n  <cpu numaid=\"0\">", "a topology of NCCL (NCCL_TOPO_DUMP_FILE)");
  check("<graphs version=\"1\">", "the rings and trees of NCCL (NCCL_GRAPH_DUMP_FILE)");
  check(
      "\x7f"
      "ELF\x02\x01\x01" +
          std::string(9, '\0') + "\x03",
      "a program or a library");
  check(
      "\x7f"
      "ELF\x02\x01\x01" +
          std::string(9, '\0') + "\x04",
      "a core dump");
  check("PK\x03\x04 archive", "a zip archive, or a checkpoint of PyTorch");
  check("BZh91AY", "packed with bzip2");
  check("V|1|base_timestamp=1750000000.000\n", "a clog of torchcomms");
  check("nccl_bus_bandwidth_gbs{version=\"v5.1\"} 0.012\n",
        "metrics of NCCL Inspector for Prometheus");
  check("<!DOCTYPE html><html>", "a web page");
  check(R"([{"name": "x", "ph": "X", "ts": 1}])", "a Chrome trace without calls of NCCL");
}

TEST_CASE("text is told from other bytes, and nothing from either") {
  CHECK(kind_of_text("").format == ForeignFormat::empty);
  CHECK(kind_of_text("plain words\n").format == ForeignFormat::text);
  CHECK(kind_of_text(std::string(5000, '\0') + "plain words\n").format == ForeignFormat::text);
  CHECK(kind_of_text("words\n" + std::string(5000, '\0')).format == ForeignFormat::text);
  std::string noise;
  for (int i = 0; i < 4096; ++i) noise += static_cast<char>(i * 37 >> 2);
  CHECK(kind_of_text(noise).format == ForeignFormat::unknown);
  CHECK(kind_of_text("\x80\x04}q\x01.").format == ForeignFormat::other_pickle);
}

}  // namespace
}  // namespace rollcall::trace
