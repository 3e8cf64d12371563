// Logs that NCCL writes with NCCL_DEBUG=INFO and COLL among NCCL_DEBUG_SUBSYS: one line per call,
// at the call, so the order of a process's lines is its call order.
//
//     host:pid:tid [dev] NCCL INFO AllReduce: opCount 0 sendbuff 0x.. recvbuff 0x.. count 16384
//         datatype 7 op 0 root 0 comm 0x7f2e [nranks=4] stream 0x55bd                      (one
//         line)
//     host:pid:tid [dev] NCCL INFO ncclCommInitRankConfig comm 0x7f2e rank 0 nranks 4 ...
//         commId 0x6df2cfb9c8c0eeeb - Init START
//
// Identity: commId is the communicator's key. Split lines before 2.31 carry none: the key is then
// made of the parent's key, childCount and colour. The pointer names a communicator within its
// process only, and may come back after a destroy: an Init START line begins a new one.
//
// What it lacks: times, returns, completion and groups. opCount is no sequence number (it stays 0
// on one node before 2.31), so calls are counted here, per communicator.
//
// Several ranks may share one stream; lines are told apart by host:pid, and whatever a launcher
// puts in front of a line ("[rank0]: ") is passed over.
#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <map>

#include "trace/import/importer.h"
#include "trace/import/line_parser.h"

namespace rollcall::trace {
namespace {

// The text behind `key ` up to the next blank; empty when the line does not have it.
std::string_view field(std::string_view line, std::string_view key) {
  size_t at = 0;
  while ((at = line.find(key, at)) != std::string_view::npos) {
    const size_t value = at + key.size();
    const bool starts_word = at == 0 || line[at - 1] == ' ' || line[at - 1] == '[';
    if (starts_word && value < line.size() && (line[value] == ' ' || line[value] == '=')) {
      const size_t end = line.find_first_of(" ]", value + 1);
      return line.substr(value + 1, end == std::string_view::npos ? end : end - value - 1);
    }
    at = value;
  }
  return {};
}

template <typename Number>
bool parse_number(std::string_view text, Number& number, int base = 10) {
  if (base == 16 && text.substr(0, 2) == "0x") text.remove_prefix(2);
  if (text.empty()) return false;
  return std::from_chars(text.data(), text.data() + text.size(), number, base).ec == std::errc();
}

int64_t number_field(std::string_view line, std::string_view key, int64_t fallback) {
  int64_t number = 0;
  return parse_number(field(line, key), number) ? number : fallback;
}

uint64_t hex_field(std::string_view line, std::string_view key) {
  uint64_t number = 0;
  return parse_number(field(line, key), number, 16) ? number : 0;
}

struct Prefix {
  std::string host;
  uint32_t pid = 0;
  uint32_t tid = 0;
  std::string_view message;
};

// "... host:pid:tid [dev] NCCL INFO message": the word before " [dev]" or before " NCCL".
bool parse_prefix(std::string_view line, Prefix& prefix) {
  constexpr std::string_view kMark = " NCCL INFO ";
  const size_t mark = line.find(kMark);
  if (mark == std::string_view::npos) return false;
  prefix.message = line.substr(mark + kMark.size());
  std::string_view head = line.substr(0, mark);
  if (head.ends_with("]")) {
    const size_t bracket = head.find_last_of('[');
    if (bracket == std::string_view::npos) return false;
    head = head.substr(0, bracket);
  }
  while (head.ends_with(" ")) head.remove_suffix(1);
  const size_t blank = head.find_last_of(' ');
  std::string_view word = blank == std::string_view::npos ? head : head.substr(blank + 1);
  const size_t last = word.find_last_of(':');
  if (last == std::string_view::npos || last == 0) return false;
  const size_t middle = word.find_last_of(':', last - 1);
  if (middle == std::string_view::npos) return false;
  prefix.host = std::string(word.substr(0, middle));
  return parse_number(word.substr(middle + 1, last - middle - 1), prefix.pid) &&
         parse_number(word.substr(last + 1), prefix.tid);
}

struct Writer {
  Process process;
  std::map<uint64_t, uint32_t> comms;     // pointer -> index of the communicator it names now
  std::map<uint32_t, uint32_t> children;  // parent index -> children seen
  std::map<std::tuple<uint32_t, int32_t, bool>, uint64_t> p2p_counts;
  std::map<uint32_t, uint32_t> threads;
};

// The pointer a line names. Where another process wrote over the end of the line ("comm
// 0x7readThresh"), the only known communicator that begins so; 0 when there is none or more than
// one.
uint64_t whole_pointer(const Writer& writer, std::string_view text) {
  uint64_t pointer = 0;
  if (text.substr(0, 2) != "0x") return 0;
  text.remove_prefix(2);
  const size_t digits = std::min(text.find_first_not_of("0123456789abcdef"), text.size());
  if (digits == 0 || !parse_number(text.substr(0, digits), pointer, 16)) return 0;
  if (digits == text.size()) return pointer;
  uint64_t found = 0;
  for (const auto& [known, index] : writer.comms) {
    if (!fmt::format("{:x}", known).starts_with(text.substr(0, digits))) continue;
    if (found != 0) return 0;
    found = known;
  }
  return found;
}

class LogReader final : public LineParser {
 public:
  explicit LogReader(const std::string& path) : path_(path) {}
  std::span<const std::string_view> marks() const override { return kMarks; }
  void read_line(const TextLine& line) override;
  bool is_unfinished(std::string_view text) const override;
  void finish(std::vector<Process>& processes, std::vector<Issue>& issues) override;

 private:
  Writer& writer_of(const Prefix& prefix);
  void read_init(Writer& writer, std::string_view message);
  void read_call(Writer& writer, const Prefix& prefix, OpKind kind);
  uint32_t comm_of(Writer& writer, uint64_t pointer, int32_t nranks);

  static constexpr std::string_view kMarks[] = {" NCCL INFO "};

  std::string path_;
  std::map<std::pair<std::string, uint32_t>, Writer> writers_;
  uint64_t damaged_ = 0;
  uint64_t unannounced_ = 0;
};

Writer& LogReader::writer_of(const Prefix& prefix) {
  Writer& writer = writers_[{prefix.host, prefix.pid}];
  if (writer.process.pid == 0) {
    writer.process.file = path_;
    writer.process.recorder = "nccl_log";
    writer.process.host = prefix.host;
    writer.process.pid = prefix.pid;
    writer.process.knowledge.groups = false;
    writer.process.knowledge.returns = false;
  }
  return writer;
}

void LogReader::read_init(Writer& writer, std::string_view message) {
  const uint64_t pointer = hex_field(message, "comm");
  if (pointer == 0) return;
  const bool starts = message.find("Init START") != std::string_view::npos;
  if (!starts) {
    const auto known = writer.comms.find(pointer);
    if (known != writer.comms.end()) {
      writer.process.comms[known->second].state = CommState::ready;
      return;
    }
  }
  Comm comm;
  comm.state = starts ? CommState::initialising : CommState::ready;
  comm.rank = static_cast<int32_t>(number_field(message, "rank", -1));
  comm.nranks = static_cast<int32_t>(number_field(message, "nranks", -1));
  comm.device = static_cast<int32_t>(number_field(message, "cudaDev", -1));
  comm.nccl_hash = hex_field(message, "commId");
  comm.origin = CommOrigin::init;
  const uint64_t parent_pointer = hex_field(message, "parent");
  if (parent_pointer != 0) {
    comm.origin = CommOrigin::split;
    const auto parent = writer.comms.find(parent_pointer);
    if (parent != writer.comms.end()) {
      comm.parent = parent->second;
      comm.parent_key = writer.process.comms[parent->second].key;
      comm.child_number = writer.children[parent->second]++;
    }
    comm.colour = static_cast<int32_t>(number_field(message, "color", 0));
  }
  const int64_t child =
      std::max(number_field(message, "childCount", -1), number_field(message, "splitCount", -1));
  if (comm.nccl_hash != 0) {
    comm.key = key_from_text(fmt::format("commId {:x}", comm.nccl_hash));
  } else {
    comm.key = key_from_text(fmt::format("child {:x} {:x} {} {}", comm.parent_key.high,
                                         comm.parent_key.low, child, comm.colour));
  }
  writer.process.comms.push_back(comm);
  writer.comms[pointer] = static_cast<uint32_t>(writer.process.comms.size() - 1);
}

uint32_t LogReader::comm_of(Writer& writer, uint64_t pointer, int32_t nranks) {
  const auto known = writer.comms.find(pointer);
  if (known != writer.comms.end()) return known->second;
  // No INIT lines: only the size and the order of first use are left to tell communicators apart.
  ++unannounced_;
  Comm comm;
  comm.state = CommState::ready;
  comm.nranks = nranks;
  comm.key = key_from_text(fmt::format("unannounced {} {}", nranks, writer.process.comms.size()));
  writer.process.comms.push_back(comm);
  const auto index = static_cast<uint32_t>(writer.process.comms.size() - 1);
  writer.comms.emplace(pointer, index);
  return index;
}

void LogReader::read_call(Writer& writer, const Prefix& prefix, OpKind kind) {
  const std::string_view message = prefix.message;
  Op op;
  uint64_t count = 0;
  const int64_t datatype = number_field(message, "datatype", -1);
  const int64_t reduction = number_field(message, "op", -1);
  const int64_t root = number_field(message, "root", -1);
  const uint64_t pointer = whole_pointer(writer, field(message, "comm"));
  if (!parse_number(field(message, "count"), count) || datatype < 0 || reduction < 0 || root < 0 ||
      pointer == 0) {
    // A hole in this process's sequence: what it did not call can no longer be told from it.
    ++damaged_;
    writer.process.knowledge.small_calls = false;
    return;
  }
  op.kind = kind;
  op.count = count;
  op.datatype = datatype < kDatatypeCount ? static_cast<uint8_t>(datatype) : kUnknown8;
  if (traits_of(kind).reduces) {
    op.reduction =
        reduction < kReductionCustom ? static_cast<uint8_t>(reduction) : kReductionCustom;
  }
  if (traits_of(kind).rooted || is_p2p(kind)) op.root_or_peer = static_cast<int32_t>(root);
  op.stream = hex_field(message, "stream");
  op.comm = comm_of(writer, pointer, static_cast<int32_t>(number_field(message, "nranks", -1)));
  const auto [thread, fresh] =
      writer.threads.try_emplace(prefix.tid, static_cast<uint32_t>(writer.threads.size()));
  if (fresh) writer.process.threads.push_back({prefix.tid, ""});
  op.thread = thread->second;
  op.state = OpState::called;
  op.ticket = writer.process.ops.size() + 1;
  Comm& comm = writer.process.comms[op.comm];
  if (is_collective(kind)) {
    op.seq = comm.collectives++;
  } else if (is_p2p(kind)) {
    op.seq = writer.p2p_counts[{op.comm, op.root_or_peer, kind == OpKind::Send}]++;
    ++(kind == OpKind::Send ? comm.sends : comm.recvs);
  }
  writer.process.ops.push_back(op);
}

bool LogReader::is_unfinished(std::string_view text) const {
  const auto has = [&](std::string_view words) { return text.find(words) != text.npos; };
  if (!has(" NCCL INFO ")) return false;
  if (has(": opCount ")) return !has(" stream 0x") && !has(" stream (nil)");
  return has(" comm 0x") && !has(" Init START") && !has(" Init COMPLETE");
}

void LogReader::read_line(const TextLine& line) {
  Prefix prefix;
  if (!parse_prefix(line.text, prefix)) return;
  const std::string_view message = prefix.message;
  if (message.find("- Init START") != std::string_view::npos ||
      message.find("- Init COMPLETE") != std::string_view::npos) {
    return read_init(writer_of(prefix), message);
  }
  const size_t colon = message.find(": opCount ");
  if (colon == std::string_view::npos) return;
  const std::string_view name = message.substr(0, colon);
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    if (kOpTraits[kind].name != name) continue;
    return read_call(writer_of(prefix), prefix, static_cast<OpKind>(kind));
  }
  ++damaged_;
}

void LogReader::finish(std::vector<Process>& processes, std::vector<Issue>& issues) {
  if (writers_.empty()) return;
  if (damaged_ > 0) {
    issues.push_back(
        {path_,
         fmt::format("has {} call lines that could not be read, as when processes write over "
                     "each other; set NCCL_DEBUG_FILE to a name with %h and %p to get a file for "
                     "each process",
                     damaged_),
         damaged_, false});
  }
  if (unannounced_ > 0) {
    issues.push_back({path_,
                      "has calls on communicators without Init lines; they are matched by size and "
                      "order of first use. Add INIT to NCCL_DEBUG_SUBSYS to be sure",
                      0, false});
  }
  issues.push_back({path_,
                    "is a log of NCCL: it has the calls in their order, and not when they were "
                    "made, nor whether they returned or finished, nor which were grouped",
                    0, false});
  for (auto& [name, writer] : writers_) {
    // A rank of the first communicator that spans the job stands for the job rank: the log has
    // none.
    for (const Comm& comm : writer.process.comms) {
      if (comm.origin == CommOrigin::init && comm.rank >= 0) {
        writer.process.job_rank = comm.rank;
        break;
      }
    }
    writer.process.next_ticket = writer.process.ops.size() + 1;
    processes.push_back(std::move(writer.process));
  }
}

}  // namespace

std::unique_ptr<LineParser> nccl_log_parser(const std::string& path) {
  return std::make_unique<LogReader>(path);
}

}  // namespace rollcall::trace
