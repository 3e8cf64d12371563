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
// made of the parent's key, childCount and colour. Before 2.16 no line carries one: the key is made
// of the size and the number of communicators of that size that the process has made before. What
// such keys cannot tell apart is forgotten in trace/shared_identifiers. The pointer names a
// communicator within its process only, and may come back after a destroy: an Init START line
// begins a new one.
//
// Positions: opCount stays 0 on one node from 2.27 on; calls are then counted here, per
// communicator. Where it moves it is the position, so a log that has lost its head, or a line, is
// still aligned.
//
// Torn lines: several processes that write into one stream cut each other's lines. A call whose
// writer is lost is given to the only process that knows its communicator's pointer; where there is
// none, nothing that may have come behind it is compared, unless opCount says where it belongs.
//
// What it lacks: times, returns, completion and groups; and nobody knows whether its end is whole.
//
// Several ranks may share one stream; lines are told apart by host:pid, and whatever a launcher
// or grep puts in front of a line ("[rank0]: ", "job.log:12:") is passed over.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <optional>

#include "trace/import/call_line.h"
#include "trace/import/call_numbering.h"
#include "trace/import/importer.h"
#include "trace/import/line_parser.h"
#include "trace/import/mark_finder.h"

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

constexpr std::string_view kMark = " NCCL INFO ";
constexpr std::string_view kCall = ": opCount ";

struct Prefix {
  std::string_view host;
  uint32_t pid = 0;
  uint32_t tid = 0;
};

// "... host:pid:tid [dev]", which is what stands in front of a mark. A host has no colon: what
// stands in front of one is of a launcher, or of grep.
bool parse_prefix(std::string_view head, Prefix& prefix) {
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
  prefix.host = word.substr(0, middle);
  const size_t colon = prefix.host.find_last_of(':');
  if (colon != std::string_view::npos) prefix.host.remove_prefix(colon + 1);
  return !prefix.host.empty() &&
         parse_number(word.substr(middle + 1, last - middle - 1), prefix.pid) &&
         parse_number(word.substr(last + 1), prefix.tid);
}

// "Broadc", "AllReduce: opCo": what is left of a call where the rest of its line is lost.
bool begins_call(std::string_view message) {
  if (message.size() < 3) return false;
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    const std::string_view name = kOpTraits[kind].name;
    if (name[0] != message[0]) continue;
    const size_t in_name = std::min(name.size(), message.size());
    const std::string_view rest = message.substr(in_name);
    if (message.substr(0, in_name) == name.substr(0, in_name) &&
        kCall.substr(0, rest.size()) == rest) {
      return true;
    }
  }
  return false;
}

bool is_end_of_other_name(OpKind kind) {
  const std::string_view name = kOpTraits[static_cast<size_t>(kind)].name;
  return std::any_of(std::begin(kOpTraits), std::end(kOpTraits), [&](const auto& traits) {
    const std::string_view other = traits.name;
    return other.size() > name.size() && other.ends_with(name);
  });
}

// "471 [0] NCC", behind "host:pid:": of a line that ends there.
bool ends_in_prefix(std::string_view rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of("0123456789"), rest.size()));
  if (rest.starts_with(" [")) rest.remove_prefix(std::min(rest.find(']'), rest.size() - 1) + 1);
  return kMark.starts_with(rest);
}

// Words that stand in lines of calls only.
constexpr std::string_view kPieces[] = {"sendbuff 0x", "recvbuff 0x", " stream 0x", " [nranks="};

bool is_piece_of_call(std::string_view line) {
  static const MarkFinder pieces({std::begin(kPieces), std::end(kPieces)});
  return pieces.find(line, 0) != std::string_view::npos;
}

constexpr std::string_view kStarted = "- Init START";
constexpr std::string_view kCompleted = "- Init COMPLETE";

// What NCCL prints between these two once all ranks of a communicator have come to its creation:
// behind the ring of its bootstrap, and behind the connections that it makes then.
constexpr std::string_view kBootstrapped = "Bootstrap timings total";
constexpr std::string_view kConnected = "Connected all ";

// Of such a line so much is kept, as the meta value "met.<index of the communicator>".
constexpr size_t kMetMax = 100;

bool tells_of_meeting(std::string_view message) {
  return message.starts_with(kBootstrapped) || message.starts_with(kConnected);
}

// Most of what NCCL says is of neither calls nor communicators.
bool may_be_read(std::string_view message) {
  static const MarkFinder words = [] {
    std::vector<std::string> all(std::begin(kPieces), std::end(kPieces));
    for (const std::string_view word : {kCall, kStarted, kCompleted, kBootstrapped, kConnected}) {
      all.emplace_back(word);
    }
    return MarkFinder(std::move(all));
  }();
  return words.find(message, 0) != std::string_view::npos || begins_call(message);
}

// Where the last mark of a line begins. Looked for by its letters, for lines are full of blanks.
size_t last_mark(std::string_view line) {
  constexpr std::string_view kLetters = kMark.substr(1);
  size_t last = std::string_view::npos;
  for (size_t at = 0; (at = line.find(kLetters, at)) != std::string_view::npos; ++at) {
    if (at != 0 && line[at - 1] == ' ') last = at - 1;
  }
  return last;
}

constexpr uint32_t kNoThread = UINT32_MAX;

struct Writer {
  Process process;
  LoggedCalls calls;
  std::vector<std::string> said;       // of each communicator: the last call, as it is printed
  std::map<uint64_t, uint32_t> comms;  // pointer -> index of the communicator it names now
  std::map<std::string, uint64_t> pointers;  // as they are printed
  std::map<uint32_t, uint32_t> children;     // parent index -> children seen
  std::map<int32_t, uint32_t> made;          // size -> communicators without an id
  std::map<uint32_t, uint32_t> threads;
  std::map<uint32_t, uint32_t> making;  // thread -> the communicator that it makes
  bool lost_early = false;              // something, before any communicator was known

  // What the last call named: that of the next one is mostly the same.
  uint64_t last_pointer = 0;
  uint32_t last_comm = 0;
  uint32_t last_tid = 0;
  uint32_t last_thread = kNoThread;

  void lose_call() {
    if (comms.empty()) {
      lost_early = true;
    } else {
      calls.hole = std::min(calls.hole, calls.packed.size());
    }
  }
};

// The pointer a line names. Where another process wrote over the end of the line ("comm
// 0x7readThresh"), the only known communicator that begins so; 0 when there is none or more than
// one.
uint64_t whole_pointer(const Writer& writer, std::string_view text, bool is_cut) {
  uint64_t pointer = 0;
  if (text.substr(0, 2) != "0x") return 0;
  text.remove_prefix(2);
  const size_t digits = std::min(text.find_first_not_of("0123456789abcdef"), text.size());
  if (digits == 0 || !parse_number(text.substr(0, digits), pointer, 16)) return 0;
  if (digits == text.size() && !is_cut) return pointer;
  const std::string begin = fmt::format("{:x}", pointer);
  const auto found = writer.pointers.lower_bound(begin);
  if (found == writer.pointers.end() || !found->first.starts_with(begin)) return 0;
  const auto next = std::next(found);
  const bool is_only = next == writer.pointers.end() || !next->first.starts_with(begin);
  return is_only ? found->second : 0;
}

class LogReader final : public LineParser {
 public:
  explicit LogReader(const std::string& path) : path_(path) {}
  std::span<const std::string_view> marks() const override { return kMarks; }
  void read_line(const TextLine& line) override;
  size_t read_plain_line(std::string_view text) override;
  bool has_plain_lines() const override { return true; }
  std::string_view noisy_mark() const override { return kMark; }
  bool passes_over(std::string_view line, size_t mark) override;
  bool wants_next() const override { return wants_next_; }
  bool is_unfinished(std::string_view text) const override;
  void finish(std::vector<Process>& processes, std::vector<JobLog>& logs,
              std::vector<Issue>& issues) override;

 private:
  Writer& writer_of(const Prefix& prefix);
  Writer& find_writer(const Prefix& prefix);
  void read_message(Writer& writer, uint32_t tid, std::string_view message);
  void read_unsigned(std::string_view line);
  void read_init(Writer& writer, uint32_t tid, std::string_view message);
  bool read_call(Writer& writer, uint32_t tid, std::string_view message, OpKind kind);
  void take_call(Writer& writer, const CallLine& call);
  uint32_t comm_of(Writer& writer, uint64_t pointer, int32_t nranks);
  void name_comm(Writer& writer, uint64_t pointer, uint32_t index);
  void lose_call_of_anyone();
  void complain(std::vector<Issue>& issues) const;

  void read_text(std::string_view line);

  // Pieces of calls that lost their prefix, too.
  static constexpr std::string_view kMarks[] = {
      kMark,       kCall,    "sendbuff 0x", "recvbuff 0x", " stream 0x",
      " [nranks=", kStarted, kCompleted,    kBootstrapped, kConnected};

  std::string path_;
  std::map<std::pair<std::string, uint32_t>, Writer> writers_;
  std::multimap<uint32_t, Writer*> by_pid_;
  std::map<std::string, Writer*, std::less<>> by_label_;  // "host:pid:"
  std::map<uint64_t, Writer*> owners_;                    // of a pointer; null: of several
  std::vector<Writer*> intact_;        // of which a call that anyone made was not lost yet
  std::array<Writer*, 256> recent_{};  // by the low bits of their pids
  bool lost_calls_ = false;            // of nobody knows whom
  uint64_t torn_heads_ = 0;            // calls whose lines end in something else
  uint64_t damaged_ = 0;
  uint64_t unannounced_ = 0;
  size_t calls_ = 0;         // that were read
  bool is_damaged_ = false;  // the line that is being read
  bool wants_next_ = false;
};

Writer& LogReader::writer_of(const Prefix& prefix) {
  Writer*& recent = recent_[prefix.pid % recent_.size()];
  const bool is_it = recent != nullptr && recent->process.pid == prefix.pid &&
                     std::string_view(recent->process.host) == prefix.host;
  if (!is_it) recent = &find_writer(prefix);
  return *recent;
}

Writer& LogReader::find_writer(const Prefix& prefix) {
  const auto known = writers_.find({std::string(prefix.host), prefix.pid});
  if (known != writers_.end()) return known->second;
  // "NCnode0:471", "de0:471": what a torn line makes of a host.
  const auto [begin, end] = by_pid_.equal_range(prefix.pid);
  for (auto at = begin; at != end; ++at) {
    const std::string_view host = at->second->process.host;
    if (host.ends_with(prefix.host) || prefix.host.ends_with(host)) return *at->second;
  }
  Writer& writer = writers_[{std::string(prefix.host), prefix.pid}];
  by_pid_.emplace(prefix.pid, &writer);
  writer.process.file = path_;
  writer.process.recorder = "nccl_log";
  writer.process.host = prefix.host;
  writer.process.pid = prefix.pid;
  writer.process.knowledge.groups = false;
  writer.process.knowledge.returns = false;
  by_label_.emplace(fmt::format("{}:{}:", prefix.host, prefix.pid), &writer);
  intact_.push_back(&writer);
  return writer;
}

void LogReader::read_init(Writer& writer, uint32_t tid, std::string_view message) {
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
  } else if (comm.nranks == 1) {
    // Shared with nobody.
    comm.key = key_from_text(fmt::format("alone {} {} {}", writer.process.host, writer.process.pid,
                                         writer.process.comms.size()));
  } else if (comm.origin == CommOrigin::split) {
    comm.key = key_from_text(fmt::format("child {:x} {:x} {} {}", comm.parent_key.high,
                                         comm.parent_key.low, child, comm.colour));
  } else {
    comm.key = key_from_text(fmt::format("made {} {}", comm.nranks, writer.made[comm.nranks]++));
  }
  writer.process.comms.push_back(comm);
  const auto index = static_cast<uint32_t>(writer.process.comms.size() - 1);
  if (starts) writer.making[tid] = index;
  name_comm(writer, pointer, index);
}

void LogReader::name_comm(Writer& writer, uint64_t pointer, uint32_t index) {
  if (writer.comms.empty()) intact_.push_back(&writer);
  writer.last_pointer = 0;
  writer.said.resize(writer.process.comms.size());
  writer.comms[pointer] = index;
  writer.pointers.emplace(fmt::format("{:x}", pointer), pointer);
  const auto [owner, is_new] = owners_.try_emplace(pointer, &writer);
  if (!is_new && owner->second != &writer) owner->second = nullptr;
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
  name_comm(writer, pointer, index);
  // What was lost before may have been calls of this process on this very communicator.
  if (lost_calls_ || writer.lost_early) writer.lose_call();
  return index;
}

// False where the line does not tell all of the call.
bool LogReader::read_call(Writer& writer, uint32_t tid, std::string_view message, OpKind kind) {
  CallLine call;
  call.kind = kind;
  call.tid = tid;
  call.datatype = number_field(message, "datatype", -1);
  call.reduction = number_field(message, "op", -1);
  call.root = number_field(message, "root", -1);
  const std::string_view printed = field(message, "comm");
  const bool is_cut = field(message, "stream").empty();
  call.comm = whole_pointer(writer, printed, is_cut);
  if (!parse_number(field(message, "count"), call.count) || call.datatype < 0 ||
      call.reduction < 0 || call.root < 0 || call.comm == 0 || is_damaged_ ||
      !parse_number(field(message, "opCount"), call.op_count, 16)) {
    return false;
  }
  torn_heads_ += is_cut ? 1 : 0;
  call.stream = hex_field(message, "stream");
  call.nranks = static_cast<int32_t>(number_field(message, "nranks", -1));
  call.said = message.substr(0, message.find(" [nranks="));
  take_call(writer, call);
  return true;
}

void LogReader::take_call(Writer& writer, const CallLine& call) {
  if (call.comm != writer.last_pointer) {
    writer.last_comm = comm_of(writer, call.comm, call.nranks);
    writer.last_pointer = call.comm;
  }
  if (call.tid != writer.last_tid || writer.last_thread == kNoThread) {
    const auto [thread, fresh] =
        writer.threads.try_emplace(call.tid, static_cast<uint32_t>(writer.threads.size()));
    if (fresh) writer.process.threads.push_back({call.tid, ""});
    writer.last_tid = call.tid;
    writer.last_thread = thread->second;
  }
  CallShape shape;
  shape.stream = call.stream;
  shape.comm = shape.track = writer.last_comm;
  shape.thread = writer.last_thread;
  shape.kind = call.kind;
  shape.datatype = call.datatype < kDatatypeCount ? static_cast<uint8_t>(call.datatype) : kUnknown8;
  if (traits_of(call.kind).reduces) {
    shape.reduction =
        call.reduction < kReductionCustom ? static_cast<uint8_t>(call.reduction) : kReductionCustom;
  }
  if (traits_of(call.kind).rooted || is_p2p(call.kind)) {
    shape.root_or_peer = static_cast<int32_t>(call.root);
  }
  ++calls_;
  std::string& before = writer.said[writer.last_comm];
  const bool is_repeated = before == call.said;
  if (!is_repeated) before = call.said;
  writer.calls.packed.add(shape, call.count, call.op_count, is_repeated);
}

void LogReader::lose_call_of_anyone() {
  ++damaged_;
  lost_calls_ = true;
  // Of one from which something was lost before, nothing changes.
  for (Writer* const writer : intact_) writer->lose_call();
  intact_.clear();
}

void LogReader::read_message(Writer& writer, uint32_t tid, std::string_view message) {
  if (!may_be_read(message)) return;
  if (message.find(kStarted) != std::string_view::npos ||
      message.find(kCompleted) != std::string_view::npos) {
    return read_init(writer, tid, message);
  }
  if (tells_of_meeting(message)) {
    // Of which communicator it is only the thread tells.
    const auto making = writer.making.find(tid);
    if (making != writer.making.end()) {
      writer.process.meta[fmt::format("met.{}", making->second)] = message.substr(0, kMetMax);
    }
    return;
  }
  const size_t colon = message.find(kCall);
  const std::optional<OpKind> kind =
      colon == std::string_view::npos ? std::nullopt : kind_named(message.substr(0, colon));
  if (kind && read_call(writer, tid, message, *kind)) return;
  const bool was_call =
      colon != std::string_view::npos || begins_call(message) || is_piece_of_call(message);
  if (!was_call) return;
  // A hole in this process's sequence: what it did not call can no longer be told from it.
  ++damaged_;
  ++torn_heads_;
  writer.lose_call();
}

// A line that names no process: where it is a call, of whoever knows its communicator.
void LogReader::read_unsigned(std::string_view line) {
  const size_t colon = line.find(kCall);
  if (colon != std::string_view::npos) {
    const size_t blank = line.find_last_of(' ', colon);
    const size_t begin = blank == std::string_view::npos ? 0 : blank + 1;
    const std::optional<OpKind> kind = kind_named(line.substr(begin, colon - begin));
    const auto owner = owners_.find(hex_field(line, "comm"));
    const bool is_owned = owner != owners_.end() && owner->second != nullptr;
    const std::string_view message = line.substr(begin);
    // "Reduce" at the beginning may be what is left of "AllReduce".
    const bool is_whole_name = begin != 0 || (kind && !is_end_of_other_name(*kind));
    if (kind && is_owned && is_whole_name && read_call(*owner->second, 0, message, *kind)) return;
    if (!is_owned) return lose_call_of_anyone();
    ++damaged_;
    owner->second->lose_call();
    return;
  }
  if (is_piece_of_call(line)) {
    // The end of a call whose beginning stood elsewhere is not lost twice.
    if (torn_heads_ == 0) return lose_call_of_anyone();
    --torn_heads_;
    return;
  }
  // "node0:471": the beginning of a line whose rest is lost.
  if (line.empty() || line.size() > 512 || line.find(':') == std::string_view::npos) return;
  // A label ends with its second colon, so a line begins with one at most.
  const auto label = by_label_.find(line.substr(0, line.find(':', line.find(':') + 1) + 1));
  if (label != by_label_.end() && ends_in_prefix(line.substr(label->first.size()))) {
    return label->second->lose_call();
  }
  const auto longer = by_label_.lower_bound(line);
  if (longer != by_label_.end() && longer->first.starts_with(line)) lose_call_of_anyone();
}

bool LogReader::is_unfinished(std::string_view text) const {
  const auto has = [&](std::string_view words) { return text.find(words) != text.npos; };
  if (!has(" NCCL INFO ")) return false;
  if (has(": opCount ")) return !has(" stream 0x") && !has(" stream (nil)");
  return has(" comm 0x") && !has(" Init START") && !has(" Init COMPLETE");
}

size_t LogReader::read_plain_line(std::string_view text) {
  const std::optional<CallLine> call = read_call_line(text);
  if (!call) return 0;
  take_call(writer_of({call->host, call->pid, call->tid}), *call);
  wants_next_ = true;
  return call->bytes;
}

// What a process says that is known already, of neither calls nor communicators. No launcher's
// prefix hides there, for it would have made another host of this one.
bool LogReader::passes_over(std::string_view line, size_t mark) {
  Prefix prefix;
  if (!parse_prefix(line.substr(0, mark), prefix)) return false;
  const Writer* const writer = recent_[prefix.pid % recent_.size()];
  const bool is_known = writer != nullptr && writer->process.pid == prefix.pid &&
                        std::string_view(writer->process.host) == prefix.host;
  // What else makes a message worth reading is among the marks.
  return is_known && !begins_call(line.substr(mark + kMark.size()));
}

void LogReader::read_line(const TextLine& given) {
  is_damaged_ = given.is_damaged;
  const uint64_t lost_before = damaged_;
  const size_t calls_before = calls_;
  read_text(given.text);
  // What may follow is a piece of a line that holds no mark.
  wants_next_ = calls_ != calls_before || damaged_ != lost_before;
}

void LogReader::read_text(std::string_view line) {
  // Where one line was written into another, the last mark is the one of what follows it.
  const size_t mark = last_mark(line);
  if (mark == std::string_view::npos) return read_unsigned(line);
  Prefix prefix;
  const std::string_view head = line.substr(0, mark);
  const std::string_view message = line.substr(mark + kMark.size());
  if (!parse_prefix(head, prefix)) {
    if (message.find(kCall) != std::string_view::npos || is_piece_of_call(head)) {
      read_unsigned(message);
    }
    return;
  }
  const size_t first = head.find(kMark);
  if (first != std::string_view::npos) {
    Prefix cut;
    if (parse_prefix(head.substr(0, first), cut)) writer_of(cut).lose_call();
  }
  if (is_piece_of_call(head)) lose_call_of_anyone();
  read_message(writer_of(prefix), prefix.tid, message);
}

void LogReader::complain(std::vector<Issue>& issues) const {
  if (damaged_ > 0) {
    issues.push_back(
        {path_,
         fmt::format("has {} call {} that could not be read, as when processes write over "
                     "each other; set NCCL_DEBUG_FILE to a name with %h and %p to get a file for "
                     "each process",
                     damaged_, damaged_ == 1 ? "line" : "lines"),
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
}

void LogReader::finish(std::vector<Process>& processes, std::vector<JobLog>& /*logs*/,
                       std::vector<Issue>& issues) {
  if (writers_.empty()) return;
  std::erase_if(writers_, [](const auto& entry) { return entry.second.process.comms.empty(); });
  if (writers_.empty()) {
    issues.push_back({path_,
                      "is a log of NCCL without its calls; NCCL_DEBUG=INFO with "
                      "NCCL_DEBUG_SUBSYS=INIT,COLL would have them",
                      0, false});
    return;
  }
  complain(issues);
  for (auto& [name, writer] : writers_) {
    number_calls(std::move(writer.calls), writer.process);
    // A rank of the first communicator that spans the job stands for the job rank: the log has
    // none.
    for (const Comm& comm : writer.process.comms) {
      if (comm.origin == CommOrigin::init && comm.rank >= 0) {
        writer.process.job_rank = comm.rank;
        break;
      }
    }
    processes.push_back(std::move(writer.process));
  }
}

}  // namespace

std::unique_ptr<LineParser> nccl_log_parser(const std::string& path) {
  return std::make_unique<LogReader>(path);
}

}  // namespace rollcall::trace
