// NCCL Inspector's JSON lines: one object per finished operation, one file per process.
//
//     {"header":{"id":"0xeb12cbad92308f","comm_name":"world","rank":0,"n_ranks":4,...},
//      "metadata":{...,"hostname":"node0","pid":22493},
//      "coll_perf":{"coll":"AllReduce","coll_sn":0,"coll_msg_size_bytes":65536,...}}
//
// What becomes what
//   * coll_sn counts per communicator *and function*: each function of a communicator becomes a
//     communicator of its own here, because the order between functions is not on file.
//   * the size is in bytes and the datatype unknown.
//
// What it lacks: operations that never finished, order between functions, datatype, reduction,
// root, times; and it loses lines: operations without GPU timing, small ones, what a poll came too
// late for, and the tail. So an operation that is not on file proves nothing; only sizes that
// differ do, and a shift of them. Sends and receives are counted on one side only and cannot be
// paired: they are left out.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "trace/import/importer.h"
#include "trace/import/lines.h"
#include "trace/import/plain_json.h"

namespace rollcall::trace {
namespace {

std::optional<OpKind> kind_of(std::string_view name) {
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    const bool is_it = kOpTraits[kind].name == name && is_collective(static_cast<OpKind>(kind));
    if (is_it) return static_cast<OpKind>(kind);
  }
  return std::nullopt;
}

class InspectorReader {
 public:
  explicit InspectorReader(const std::string& path) {
    process_.file = path;
    process_.recorder = "inspector";
    process_.knowledge = {.groups = false,
                          .calls_in_order = false,
                          .head = false,
                          .tail = false,
                          .small_calls = false,
                          .returns = false};
  }

  void read_line(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const PlainPointer object = read_plain_json(line);
    const PlainValue* header = object ? object->find("header") : nullptr;
    if (header == nullptr) {
      ++damaged_;
      return;
    }
    take_process(*object, *header);
    const PlainValue* collective = object->find("coll_perf");
    if (collective == nullptr) {
      transfers_ += object->find("p2p_perf") != nullptr;
      return;
    }
    const std::optional<OpKind> kind = kind_of(collective->text_of("coll"));
    const int64_t position = collective->integer_of("coll_sn", -1);
    if (!kind || position < 0) {
      ++damaged_;
      return;
    }
    Op op;
    op.kind = *kind;
    op.seq = static_cast<uint64_t>(position);
    const int64_t bytes = collective->integer_of("coll_msg_size_bytes", -1);
    op.count = bytes < 0 ? kCountUnknown : static_cast<uint64_t>(bytes);
    op.comm = comm_of(*header, *kind);
    op.state = OpState::finished;
    op.result = kResultSuccess;
    process_.ops.push_back(op);
  }

  void finish(std::vector<Process>& processes, std::vector<Issue>& issues) {
    // Lines come in the order in which operations were polled.
    std::sort(process_.ops.begin(), process_.ops.end(), [](const Op& a, const Op& b) {
      return std::tie(a.comm, a.seq) < std::tie(b.comm, b.seq);
    });
    for (size_t i = 0; i < process_.ops.size(); ++i) {
      Op& op = process_.ops[i];
      op.ticket = i + 1;
      process_.comms[op.comm].collectives = op.seq + 1;
    }
    process_.next_ticket = process_.ops.size() + 1;
    std::string text =
        "is a file of NCCL Inspector: it has finished operations, their sizes in bytes, and no "
        "order between different functions; lines may be lost, so a call that it lacks may have "
        "been made";
    if (transfers_ != 0)
      text += fmt::format("; {} sends and receives are not compared", transfers_);
    if (damaged_ != 0) text += fmt::format("; {} lines could not be read", damaged_);
    issues.push_back({process_.file, text, damaged_, false});
    processes.push_back(std::move(process_));
  }

 private:
  void take_process(const PlainValue& object, const PlainValue& header) {
    const int64_t nranks = header.integer_of("n_ranks", -1);
    if (nranks > widest_) {
      widest_ = nranks;
      process_.job_rank = static_cast<int32_t>(header.integer_of("rank", -1));
    }
    const PlainValue* metadata = object.find("metadata");
    if (metadata == nullptr || process_.pid != 0) return;
    process_.host = metadata->text_of("hostname");
    process_.pid = static_cast<uint32_t>(metadata->integer_of("pid", 0));
  }

  uint32_t comm_of(const PlainValue& header, OpKind kind) {
    const std::string id = header.text_of("id");
    const int64_t rank = header.integer_of("rank", -1);
    const auto [known, is_new] = comms_.try_emplace(std::make_tuple(id, rank, kind),
                                                    static_cast<uint32_t>(process_.comms.size()));
    if (!is_new) return known->second;
    Comm comm;
    comm.state = CommState::ready;
    comm.nranks = static_cast<int32_t>(header.integer_of("n_ranks", -1));
    comm.rank = static_cast<int32_t>(rank);
    comm.key = key_from_text(fmt::format("inspector {} {} {}", id, comm.nranks, name_of(kind)));
    const std::string name = header.text_of("comm_name");
    comm.name =
        fmt::format("{} ({})", name.empty() || name == "unknown" ? id : name, name_of(kind));
    process_.comms.push_back(std::move(comm));
    return known->second;
  }

  Process process_;
  std::map<std::tuple<std::string, int64_t, OpKind>, uint32_t> comms_;
  int64_t widest_ = -1;
  uint64_t damaged_ = 0;
  uint64_t transfers_ = 0;
};

}  // namespace

void import_inspector(const std::string& path, std::span<const uint8_t> bytes,
                      std::vector<Process>& processes, std::vector<Issue>& issues) {
  InspectorReader reader(path);
  for_each_line(bytes, [&](std::string_view line) { reader.read_line(line); });
  reader.finish(processes, issues);
}

}  // namespace rollcall::trace
