#include "trace/import/file_kind.h"

#include <algorithm>
#include <cstring>

#include "core/format/ring_layout.h"
#include "core/format/segment_layout.h"

namespace rollcall::trace {
namespace {

constexpr std::string_view kToReadCalls =
    "it holds no calls; Rollcall reads job logs, NCCL_DEBUG logs, Flight Recorder dumps, profiler "
    "traces and reports of ncclras";

struct Text {
  std::string_view head;
  char first = 0;  // that is no blank
  bool has(std::string_view words) const { return head.find(words) != std::string_view::npos; }
  bool begins(std::string_view words) const { return head.starts_with(words); }
};

bool is_pickle(const Text& text) {
  // Protocol 2 to 5. Any program may leave a pickle: only one with a dump's keys is asked further.
  if (text.head.size() < 3 || static_cast<uint8_t>(text.head[0]) != 0x80) return false;
  return text.head[1] >= 2 && text.head[1] <= 5;
}

bool is_dump(const Text& text) {
  return is_pickle(text) && (text.has("pg_config") || text.has("profiling_name") ||
                             text.has("comm_lib_version") || text.has("nccl_version"));
}

bool is_object(const Text& text) { return text.first == '{'; }
bool is_json(const Text& text) { return text.first == '{' || text.first == '['; }

bool is_kineto(const Text& text) {
  return is_object(text) && (text.has("\"traceEvents\"") || text.has("\"distributedInfo\"")) &&
         (text.has("\"schemaVersion\"") || text.has("\"deviceProperties\"") ||
          text.has("\"baseTimeNanoseconds\"") || text.has("\"distributedInfo\"") ||
          text.has("\"record_param_comms\""));
}

template <typename Number>
bool begins_with_number(const Text& text, Number number) {
  return text.head.size() >= sizeof number &&
         std::memcmp(text.head.data(), &number, sizeof number) == 0;
}

struct Row {
  bool (*is)(const Text& text);
  FileKind kind;
};

// The first that fits. What is special comes in front of what is general.
const Row kRows[] = {
    {[](const Text& t) { return t.head.empty(); },
     {ForeignFormat::empty, "empty",
      "whoever was to write it was killed first, or the disk was full: of its rank nothing is "
      "known"}},
    {is_dump, {ForeignFormat::flight_recorder_pickle, "a Flight Recorder dump of PyTorch", ""}},
    {[](const Text& t) { return begins_with_number(t, kRingMagic); },
     {ForeignFormat::named, "a ring file of Rollcall under another name",
      "give it a name that ends in .ring"}},
    {[](const Text& t) { return begins_with_number(t, kSegmentMagic); },
     {ForeignFormat::named, "a segment of Rollcall under another name",
      "give it the name that it had, beside its ring file"}},
    {is_kineto, {ForeignFormat::kineto, "a trace of the PyTorch profiler", ""}},
    {[](const Text& t) {
       return is_object(t) &&
              (t.has("\"pg_config\"") || t.has("\"record_id\"") || t.has("\"collective_seq_id\""));
     },
     {ForeignFormat::flight_recorder_json, "a Flight Recorder dump of PyTorch", ""}},
    {[](const Text& t) {
       return is_object(t) && (t.has("\"coll_perf\"") || t.has("\"p2p_perf\""));
     },
     {ForeignFormat::inspector, "a file of NCCL Inspector", ""}},
    {[](const Text& t) {
       return is_object(t) && t.has("\"communicators_count\"") && t.has("\"communicators\"");
     },
     {ForeignFormat::ras_json, "a report of ncclras", ""}},
    {[](const Text& t) {
       return t.first == '[' && t.has("\"frames\"") &&
              (t.has("\"owns_gil\"") || t.has("\"os_thread_id\""));
     },
     {ForeignFormat::py_spy, "stacks of py-spy", ""}},
    {[](const Text& t) { return t.begins("Process ") && t.has("\nPython v"); },
     {ForeignFormat::py_spy, "stacks of py-spy", ""}},
    {[](const Text& t) { return t.begins(kSqliteMagic); },
     {ForeignFormat::sqlite, "a database of SQLite", ""}},
    {[](const Text& t) { return is_json(t) && t.has("\"PEER_") && t.has("\"details\""); },
     {ForeignFormat::named, "a stream of `ncclras -m`",
      "it tells who left and no calls; `ncclras -f json` tells how far each rank came"}},
    {[](const Text& t) { return is_json(t) && t.has("\"comm_hash\"") && t.has("\"child_dur\""); },
     {ForeignFormat::named, "a file of CoMMA",
      "it leaves small calls out, so no missing call can be told from it; take Flight Recorder "
      "dumps or an NCCL_DEBUG log"}},
    {[](const Text& t) { return is_json(t) && t.has("\"KERNEL_LAUNCH\"") && t.has("\"COLL"); },
     {ForeignFormat::named, "a trace of NCCL's example profiler plugin",
      "its events overwrite each other; take Rollcall as the plugin instead "
      "(NCCL_PROFILER_PLUGIN)"}},
    {[](const Text& t) { return is_json(t) && t.has("\"rollcall\"") && t.has("\"traceEvents\""); },
     {ForeignFormat::named, "a trace that `rollcall trace` made",
      "name the run directory that it was made of"}},
    {[](const Text& t) {
       return is_json(t) && (t.has("\"traceEvents\"") || (t.has("\"ph\"") && t.has("\"ts\"")));
     },
     {ForeignFormat::named, "a Chrome trace without calls of NCCL",
      "traces of the PyTorch profiler are read where they hold record_param_comms"}},
    {[](const Text& t) { return is_object(t) && t.has("GetUniqueId : [") && t.has("context : ["); },
     {ForeignFormat::named, "a recording of RCCL (RCCL_REPLAY_FILE)",
      "an RCCL log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL is read"}},
    {[](const Text& t) { return t.begins("V|1|base_timestamp="); },
     {ForeignFormat::named, "a clog of torchcomms",
      "Flight Recorder dumps of the same job are read"}},
    {[](const Text& t) { return t.begins("nccl_bus_bandwidth_gbs{") || t.begins("nccl_p2p_"); },
     {ForeignFormat::named, "metrics of NCCL Inspector for Prometheus",
      "they are sums without ranks; the Inspector's JSON lines are read"}},
    {[](const Text& t) { return t.first == '<' && t.has("<system version=") && t.has("<cpu "); },
     {ForeignFormat::named, "a topology of NCCL (NCCL_TOPO_DUMP_FILE)", kToReadCalls}},
    {[](const Text& t) { return t.first == '<' && t.has("<graphs version="); },
     {ForeignFormat::named, "the rings and trees of NCCL (NCCL_GRAPH_DUMP_FILE)", kToReadCalls}},
    {[](const Text& t) { return t.first == '<' && (t.has("<html") || t.has("<!DOCTYPE html")); },
     {ForeignFormat::named, "a web page",
      "the server may have answered with a page instead of the file; download it again"}},
    {[](const Text& t) {
       return t.begins(
                  "\x7f"
                  "ELF") &&
              t.head.size() > 16 && t.head[16] == 4;
     },
     {ForeignFormat::named, "a core dump",
      "it holds one process's memory; the stacks in it (gdb, py-spy) say where that one stood"}},
    {[](const Text& t) {
       return t.begins(
           "\x7f"
           "ELF");
     },
     {ForeignFormat::named, "a program or a library", kToReadCalls}},
    {[](const Text& t) {
       return t.begins({"PK\x03\x04", 4});
     },
     {ForeignFormat::named, "a zip archive, or a checkpoint of PyTorch",
      "unpack it, and name the directory that holds what was in it"}},
    {[](const Text& t) { return t.head.size() > 262 && t.head.substr(257, 5) == "ustar"; },
     {ForeignFormat::named, "a tar archive",
      "unpack it, and name the directory that holds what was in it"}},
    {[](const Text& t) { return t.begins("BZh"); },
     {ForeignFormat::named, "packed with bzip2", "unpack it with bunzip2, and name the result"}},
    {[](const Text& t) { return t.begins("\x04\x22\x4d\x18"); },
     {ForeignFormat::named, "packed with lz4", "unpack it with unlz4, and name the result"}},
    {[](const Text& t) {
       return t.begins({"\x1f\x8b\x08", 3}) || t.begins("\x28\xb5\x2f\xfd") ||
              t.begins({"\xfd"
                        "7zXZ\0",
                        6});
     },
     {ForeignFormat::named, "packed twice", "unpack it once, and name the result"}},
    {[](const Text& t) { return t.begins("7z\xbc\xaf\x27\x1c"); },
     {ForeignFormat::named, "a 7-Zip archive",
      "unpack it, and name the directory that holds what was in it"}},
    {is_pickle,
     {ForeignFormat::other_pickle, "a pickle, and no Flight Recorder dump",
      "dumps are files of TORCH_NCCL_DEBUG_INFO_TEMP_FILE or TORCH_FR_DUMP_TEMP_FILE"}},
};

// Text has next to no control characters. NUL bytes are what a log is full of that was cut while it
// was open, or of which a machine that went down had not stored all.
bool is_text(std::string_view head) {
  const auto zeros = std::count(head.begin(), head.end(), '\0');
  const auto odd = std::count_if(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<uint8_t>(c);
    return byte < 0x20 && byte != 0 && byte != '\n' && byte != '\r' && byte != '\t' &&
           byte != 0x1b && byte != '\b' && byte != '\f';
  });
  return odd * 20 <= static_cast<std::ptrdiff_t>(head.size()) - zeros;
}

}  // namespace

FileKind kind_of(std::span<const uint8_t> head) {
  Text text;
  text.head = {reinterpret_cast<const char*>(head.data()), std::min(head.size(), kHeadBytes)};
  const size_t first = text.head.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos) text.first = text.head[first];
  for (const Row& row : kRows) {
    if (row.is(text)) return row.kind;
  }
  if (is_text(text.head)) return {ForeignFormat::text, "a text", ""};
  return {ForeignFormat::unknown, "no text, and nothing else that is known", ""};
}

}  // namespace rollcall::trace
