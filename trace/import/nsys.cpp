// Exports of Nsight Systems (`nsys export --type sqlite`): NCCL's own ranges of NVTX, which tell of
// each call its communicator, bytes and time, and the kernels that were launched inside of them.
//
//     NVTX_EVENTS                   start, end, eventType, text or textId, globalTid, binaryData
//     NVTX_PAYLOAD_SCHEMA_ENTRIES   which bytes of binaryData are what, by name
//     CUPTI_ACTIVITY_KIND_RUNTIME   a launch: its start, thread and correlationId
//     CUPTI_ACTIVITY_KIND_KERNEL    the kernel of that correlationId: start, end, deviceId and its
//                                   name, shortName, which is in StringIds
//     CUPTI_ACTIVITY_KIND_GRAPH_TRACE  graphs that were traced as a whole, without their kernels
//
// A table that nothing was written to is not there, and columns differ by release: both are asked
// for by name.
//
// What becomes what
//   * A range of the domain NCCL is a call, in the order of their begins. One export may hold
//     several processes: bits 24 to 47 of globalTid.
//   * "NCCL communicator ID" (NCCL 2.26 and later) is equal on all ranks; rank and number of ranks
//     are in the range that created the communicator. Calls are counted from there.
//   * A kernel belongs to the call in whose range it was launched; of a group, that of its
//     ncclGroupEnd.
//
//   * All kernels of a process tell for how long its GPU computed and communicated
//     (busy_kernels.h), NCCL's by their names.
//
// What it lacks: datatypes, so sizes are in bytes; calls outside of the capture; and numbers, so a
// range that Nsight Systems lost leaves no trace.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "trace/import/busy_kernels.h"
#include "trace/import/importer.h"
#include "trace/import/plain_json.h"
#include "trace/import/sqlite_file.h"
#include "trace/import/torch_names.h"
#include "trace/saturated.h"

namespace rollcall::trace {
namespace {

constexpr size_t kRangesMax = 1u << 22;
constexpr size_t kProcessesMax = 4096;
constexpr int64_t kPushPopRange = 59;
constexpr int64_t kStartEndRange = 60;

// What stands in a range's payload, as far as it concerns us; -1: it does not.
struct Payload {
  uint64_t comm = 0;
  uint64_t parent = 0;
  int64_t bytes = -1;
  int64_t root = -1;
  int64_t peer = -1;
  int64_t rank = -1;
  int64_t nranks = -1;
  int64_t device = -1;
  int64_t reduction = -1;
};

// What is known of a payload, by its name.
struct PayloadField {
  std::string_view name;
  uint64_t Payload::*word = nullptr;
  int64_t Payload::*bytes = nullptr;
  int64_t Payload::*number = nullptr;  // of four bytes, and with a sign

  void take(uint64_t value, Payload& payload) const {
    if (word != nullptr) payload.*word = value;
    if (bytes != nullptr) payload.*bytes = static_cast<int64_t>(value);
    if (number != nullptr) payload.*number = static_cast<int32_t>(value);
  }
};

constexpr PayloadField kPayloadFields[] = {
    {"NCCL communicator ID", &Payload::comm, nullptr, nullptr},
    {"Parent NCCL communicator ID", &Payload::parent, nullptr, nullptr},
    {"Message size [bytes]", nullptr, &Payload::bytes, nullptr},
    {"Root", nullptr, nullptr, &Payload::root},
    {"Peer rank", nullptr, nullptr, &Payload::peer},
    {"Rank", nullptr, nullptr, &Payload::rank},
    {"No. of ranks", nullptr, nullptr, &Payload::nranks},
    {"CUDA device", nullptr, nullptr, &Payload::device},
    {"Reduction operation", nullptr, nullptr, &Payload::reduction},
};

// nullptr: it does not concern us.
const PayloadField* field_of(std::string_view name) {
  for (const PayloadField& field : kPayloadFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

// One range of NVTX.
struct Range {
  int64_t start = 0;  // nanoseconds since the capture began
  int64_t end = 0;    // 0: it had not ended
  int64_t thread = 0;
  std::string_view name;
  Payload payload;
};

struct Launch {
  int64_t thread = 0;
  int64_t start = 0;
  int64_t correlation = 0;
};

struct KernelTime {
  int64_t start = 0;
  int64_t end = 0;
  int64_t stream = 0;
};

// The names of NCCL's ranges that tell something.
const std::map<std::string_view, std::optional<OpKind>>& known_ranges() {
  static const std::map<std::string_view, std::optional<OpKind>> known = {
      {"ncclAllReduce", OpKind::AllReduce},
      {"ncclBroadcast", OpKind::Broadcast},
      {"ncclReduce", OpKind::Reduce},
      {"ncclAllGather", OpKind::AllGather},
      {"ncclReduceScatter", OpKind::ReduceScatter},
      {"ncclAlltoAll", OpKind::AlltoAll},
      {"ncclGather", OpKind::Gather},
      {"ncclScatter", OpKind::Scatter},
      {"ncclSend", OpKind::Send},
      {"ncclRecv", OpKind::Recv},
      {"ncclGroupStart", std::nullopt},
      {"ncclGroupEnd", std::nullopt},
      {"ncclCommInitRank", std::nullopt},
      {"ncclCommInitRankConfig", std::nullopt},
      {"ncclCommInitRankScalable", std::nullopt},
      {"ncclCommSplit", std::nullopt},
      {"ncclCommShrink", std::nullopt},
      {"ncclCommGrow", std::nullopt},
  };
  return known;
}

int64_t process_of(int64_t global_tid) { return global_tid >> 24; }

// What the tables hold, before it is put in order.
class NsysReader {
 public:
  NsysReader(SqliteFile& file) : file_(file) {}

  void read() {
    read_names();
    read_schemas();
    read_ranges();
    if (ranges.empty()) return;
    read_launches();
    launches_left = kOverlapMax * launches.size();
    file_.for_each_row("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, [&](const SqliteRow& row) {
      base_ns = std::clamp<int64_t>(row.integer(0), 0, kTimeMaxNs);
      return false;
    });
    file_.for_each_row("TARGET_INFO_SYSTEM_ENV", {"name", "value"}, [&](const SqliteRow& row) {
      constexpr size_t kHostBytesMax = 256;
      if (row.text(0) != "Hostname") return true;
      host = row.text(1).substr(0, kHostBytesMax);
      return false;
    });
    is_cut = is_cut || !file_.complaint().empty();
  }

  std::vector<Range> ranges;                                  // by thread and begin
  std::vector<Launch> launches;                               // by thread and begin
  std::map<std::pair<int64_t, int64_t>, KernelTime> kernels;  // by process and correlation
  std::map<int64_t, BusyKernels> busy;                        // by process, of those with ranges
  bool has_whole_graphs = false;
  bool has_more_names = false;  // of NCCL's kernels than are kept
  int64_t base_ns = 0;
  std::string host;
  bool is_cut = false;         // ranges are missing that the export may have
  uint64_t launches_left = 0;  // may be looked at for ranges

 private:
  // A launch lies in the range of its call, in that of a group, and in few others.
  static constexpr uint64_t kOverlapMax = 16;

  struct Entry {
    const PayloadField* field = nullptr;
    uint64_t offset = 0;
    size_t bytes = 0;
  };

  void read_names() {
    file_.for_each_row("StringIds", {"id", "value"}, [&](const SqliteRow& row) {
      const auto known = known_ranges().find(row.text(1));
      if (known != known_ranges().end()) names_[row.integer(0)] = known->first;
      const bool is_of_nccl = row.text(1).starts_with("nccl");
      has_more_names = has_more_names || (is_of_nccl && kernel_names_.size() >= kNamesMax);
      if (is_of_nccl && !has_more_names) kernel_names_.insert(row.integer(0));
      return true;
    });
  }

  void read_schemas() {
    file_.for_each_row(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES", {"domainId", "schemaId", "name", "offset", "type"},
        [&](const SqliteRow& row) {
          constexpr size_t kSchemasMax = 1u << 16;
          // Of NVTX: 17 and 18 are integers of 64 bits, 21 to 23 those of the size of a pointer.
          const int64_t type = row.integer(4);
          const bool is_wide = type == 17 || type == 18 || (type >= 21 && type <= 23);
          const PayloadField* field = field_of(row.text(2));
          if (field == nullptr) return true;
          auto& entries = schemas_[{row.integer(0), row.integer(1)}];
          if (entries.size() < std::size(kPayloadFields)) {
            entries.push_back({field, static_cast<uint64_t>(row.integer(3)),
                               is_wide ? sizeof(uint64_t) : sizeof(uint32_t)});
          }
          is_cut = schemas_.size() >= kSchemasMax;
          return !is_cut;
        });
  }

  // A head of 32 bytes: domain, -, schema, - (four bytes each), size of the payload, size of all.
  Payload payload_of(std::span<const uint8_t> bytes) const {
    constexpr size_t kHead = 32;
    Payload payload;
    if (bytes.size() < kHead) return payload;
    uint32_t domain = 0;
    uint32_t schema = 0;
    std::memcpy(&domain, bytes.data(), sizeof domain);
    std::memcpy(&schema, bytes.data() + 8, sizeof schema);
    const auto entries = schemas_.find({domain, schema});
    if (entries == schemas_.end()) return payload;
    for (const Entry& entry : entries->second) {
      const size_t left = bytes.size() - kHead;
      if (entry.offset > left || entry.bytes > left - entry.offset) continue;
      uint64_t value = 0;
      std::memcpy(&value, bytes.data() + kHead + entry.offset, entry.bytes);
      entry.field->take(value, payload);
    }
    return payload;
  }

  // As older exports have it.
  static Payload payload_of(std::string_view json) {
    Payload payload;
    const PlainPointer object = read_plain_json(json);
    const PlainDict* fields = object ? object->dict() : nullptr;
    if (fields == nullptr) return payload;
    for (const auto& [name, value] : *fields) {
      const int64_t number = value->integer_or(INT64_MIN);
      const PayloadField* field = number == INT64_MIN ? nullptr : field_of(name);
      if (field != nullptr) field->take(static_cast<uint64_t>(number), payload);
    }
    return payload;
  }

  void read_ranges() {
    file_.for_each_row(
        "NVTX_EVENTS",
        {"start", "end", "eventType", "text", "textId", "globalTid", "binaryData", "jsonText"},
        [&](const SqliteRow& row) {
          const int64_t type = row.integer(2);
          if (type != kPushPopRange && type != kStartEndRange) return true;
          std::string_view name;
          if (const auto known = known_ranges().find(row.text(3)); known != known_ranges().end()) {
            name = known->first;
          } else if (const auto id = names_.find(row.integer(4)); id != names_.end()) {
            name = id->second;
          } else {
            return true;
          }
          is_cut = is_cut || ranges.size() >= kRangesMax;
          if (is_cut) return false;
          const std::span<const uint8_t> bytes = row.bytes(6);
          ranges.push_back({row.integer(0), row.integer(1), row.integer(5), name,
                            bytes.empty() ? payload_of(row.text(7)) : payload_of(bytes)});
          return true;
        });
    std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
      return std::tie(a.thread, a.start) < std::tie(b.thread, b.start);
    });
  }

  bool has_range_at(int64_t thread, int64_t start) const {
    auto range = std::upper_bound(ranges.begin(), ranges.end(), std::make_pair(thread, start),
                                  [](const std::pair<int64_t, int64_t>& at, const Range& one) {
                                    return at < std::make_pair(one.thread, one.start);
                                  });
    if (range == ranges.begin()) return false;
    --range;
    return range->thread == thread && (range->end == 0 || start <= range->end);
  }

  void read_launches() {
    std::map<std::pair<int64_t, int64_t>, bool> wanted;
    file_.for_each_row("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "globalTid", "correlationId"},
                       [&](const SqliteRow& row) {
                         const Launch launch{row.integer(1), row.integer(0), row.integer(2)};
                         if (has_range_at(launch.thread, launch.start)) launches.push_back(launch);
                         return launches.size() < kRangesMax;
                       });
    for (const Launch& launch : launches) {
      wanted[{process_of(launch.thread), launch.correlation}] = true;
    }
    read_kernels(wanted);
    std::stable_sort(launches.begin(), launches.end(), [](const Launch& a, const Launch& b) {
      return std::tie(a.thread, a.start) < std::tie(b.thread, b.start);
    });
  }

  void prepare_busy() {
    std::set<int64_t> processes;
    for (const Range& range : ranges) processes.insert(process_of(range.thread));
    const size_t spans_max = BusyKernels::kSpansMax / std::max<size_t>(processes.size(), 1);
    for (const int64_t process : processes) busy.emplace(process, spans_max);
    file_.for_each_row("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {"start"}, [&](const SqliteRow&) {
      has_whole_graphs = true;
      return false;
    });
  }

  void read_kernels(const std::map<std::pair<int64_t, int64_t>, bool>& wanted) {
    prepare_busy();
    file_.for_each_row(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        {"start", "end", "correlationId", "globalPid", "streamId", "deviceId", "shortName"},
        [&](const SqliteRow& row) {
          const auto of_process = busy.find(process_of(row.integer(3)));
          if (of_process != busy.end()) add_busy(row, of_process->second);
          const std::pair<int64_t, int64_t> key{process_of(row.integer(3)), row.integer(2)};
          if (wanted.contains(key)) {
            kernels[key] = {row.integer(0), row.integer(1), row.integer(4)};
          }
          return true;
        });
  }

  // Of a kernel without a name nobody knows whose it is.
  void add_busy(const SqliteRow& row, BusyKernels& kernels_of_process) const {
    if (row.is_null(6)) return kernels_of_process.lose();
    kernels_of_process.add(kernel_names_.contains(row.integer(6)), row.integer(5), row.integer(0),
                           row.integer(1));
  }

  SqliteFile& file_;
  static constexpr size_t kNamesMax = 1u << 16;
  std::unordered_map<int64_t, std::string_view> names_;
  std::unordered_set<int64_t> kernel_names_;  // of NCCL
  std::map<std::pair<int64_t, int64_t>, std::vector<Entry>> schemas_;
};

// One process of an export.
class ProcessWriter {
 public:
  ProcessWriter(const std::string& path, NsysReader& reader) : reader_(reader) {
    process_.file = path;
    process_.recorder = "nsys";
    process_.host = reader.host;
    process_.knowledge.tail = false;
    process_.knowledge.reductions = false;
    process_.knowledge.losses_show = false;
    process_.knowledge.kernel_times = true;
    // Where ranges may be missing before any other, a call's number is a guess.
    process_.knowledge.head = !reader.is_cut;
  }

  void add(const Range& range) {
    process_.pid = static_cast<uint32_t>(process_of(range.thread) & 0xffffff);
    const std::optional<OpKind> kind = known_ranges().at(range.name);
    if (kind) return add_call(range, *kind);
    if (range.name == "ncclGroupStart") {
      open_group(range.thread).depth += 1;
    } else if (range.name == "ncclGroupEnd") {
      close_group(range);
    } else {
      create(range);
    }
  }

  // Calls of several threads in one order.
  void finish() {
    std::stable_sort(process_.ops.begin(), process_.ops.end(),
                     [](const Op& a, const Op& b) { return a.called_ns < b.called_ns; });
    std::erase_if(process_.ops, [&](const Op& op) { return is_shared_[op.comm]; });
    std::map<std::tuple<uint32_t, int32_t, bool>, uint64_t> transfers;
    for (size_t i = 0; i < process_.ops.size(); ++i) {
      Op& op = process_.ops[i];
      Comm& comm = process_.comms[op.comm];
      op.ticket = i + 1;
      if (is_p2p(op.kind)) {
        op.seq = transfers[{op.comm, op.root_or_peer, op.kind == OpKind::Send}]++;
        ++(op.kind == OpKind::Send ? comm.sends : comm.recvs);
      } else {
        op.seq = comm.collectives++;
      }
      process_.knowledge.head = process_.knowledge.head && comm.rank >= 0;
      if (reader_.base_ns == 0) forget_times(op);
    }
    process_.next_ticket = process_.ops.size() + 1;
    int32_t widest = -1;
    for (const Comm& comm : process_.comms) {
      if (comm.rank < 0 || comm.nranks <= widest) continue;
      widest = comm.nranks;
      process_.job_rank = comm.rank;
    }
  }

  // Behind finish(). `busy`: of this process.
  void add_busy_times(BusyKernels& busy) {
    if (reader_.is_cut) {
      process_.busy_why_not = "the export was not read to its end";
    } else if (reader_.has_whole_graphs) {
      process_.busy_why_not = "graphs were traced as a whole: capture with --cuda-graph-trace=node";
    } else if (reader_.has_more_names) {
      process_.busy_why_not = "there are too many names that begin with nccl";
    } else {
      process_.busy_why_not = busy.why_not();
    }
    if (!process_.busy_why_not.empty()) return;
    std::vector<BusyKernels::End> ends;
    for (const Op& op : process_.ops) {
      if (op.finished_ns != 0) ends.push_back({op.ticket, op.finished_ns - reader_.base_ns});
    }
    process_.busy = busy.at(ends);
  }

  Process& process() { return process_; }
  uint32_t pid() const { return process_.pid; }
  uint64_t calls() const { return calls_; }
  uint64_t unnamed() const { return unnamed_; }
  bool has_shared() const {
    return std::find(is_shared_.begin(), is_shared_.end(), true) != is_shared_.end();
  }

 private:
  struct Group {
    uint32_t depth = 0;
    std::vector<size_t> calls;  // indices of Process::ops
  };

  Group& open_group(int64_t thread) { return groups_[thread]; }

  int64_t at_ns(int64_t since_capture) const {
    return saturated_sum(reader_.base_ns, since_capture);
  }

  static void forget_times(Op& op) {
    op.called_ns = op.returned_ns = op.started_ns = op.finished_ns = 0;
  }

  uint32_t comm_of(uint64_t id) {
    const auto [known, fresh] =
        comms_.try_emplace(id, static_cast<uint32_t>(process_.comms.size()));
    if (!fresh) return known->second;
    Comm comm;
    comm.state = CommState::ready;
    comm.nccl_hash = id;
    comm.key = key_from_text(fmt::format("nsys {:x}", id));
    comm.name = fmt::format("{:x}", id);
    process_.comms.push_back(std::move(comm));
    is_shared_.push_back(false);
    return known->second;
  }

  void create(const Range& range) {
    const Payload& payload = range.payload;
    if (payload.comm == 0 || payload.nranks <= 0 || payload.rank < 0) return;
    const uint32_t index = comm_of(payload.comm);
    Comm& comm = process_.comms[index];
    // One process that drives several GPUs: whose a call is its range does not tell.
    if (comm.rank >= 0 && comm.rank != payload.rank) is_shared_[index] = true;
    comm.nranks = static_cast<int32_t>(payload.nranks);
    comm.rank = static_cast<int32_t>(payload.rank);
    comm.device = static_cast<int32_t>(payload.device);
    comm.created_ns = reader_.base_ns == 0 ? 0 : at_ns(range.start);
    comm.ready_ns = reader_.base_ns == 0 || range.end == 0 ? 0 : at_ns(range.end);
    if (payload.parent == 0) return;
    const uint32_t parent = comm_of(payload.parent);
    process_.comms[index].parent = parent;
    process_.comms[index].parent_key = process_.comms[parent].key;
  }

  void add_call(const Range& range, OpKind kind) {
    ++calls_;
    const Payload& payload = range.payload;
    if (payload.comm == 0) {
      ++unnamed_;
      return;
    }
    Op op;
    op.kind = kind;
    op.comm = comm_of(payload.comm);
    op.count = payload.bytes < 0 ? kCountUnknown : static_cast<uint64_t>(payload.bytes);
    if (is_p2p(kind)) op.root_or_peer = static_cast<int32_t>(payload.peer);
    if (traits_of(kind).rooted) op.root_or_peer = static_cast<int32_t>(payload.root);
    if (traits_of(kind).reduces && payload.reduction >= 0) {
      op.reduction = static_cast<uint8_t>(std::min<int64_t>(payload.reduction, kReductionCustom));
      process_.knowledge.reductions = true;
    }
    op.thread = thread_of(range.thread);
    op.called_ns = at_ns(range.start);
    op.state = OpState::called;
    if (range.end != 0) {
      op.returned_ns = at_ns(range.end);
      op.state = OpState::returned;
      op.result = kResultSuccess;
    }
    process_.ops.push_back(op);
    Group& group = open_group(range.thread);
    if (group.depth != 0) {
      group.calls.push_back(process_.ops.size() - 1);
    } else {
      take_kernels(range, {process_.ops.size() - 1});
    }
  }

  void close_group(const Range& range) {
    Group& group = open_group(range.thread);
    if (group.depth != 0) --group.depth;
    if (group.depth != 0) return;
    // One alone needs no number.
    if (group.calls.size() > 1) {
      ++last_group_;
      for (const size_t call : group.calls) process_.ops[call].group = last_group_;
    }
    take_kernels(range, group.calls);
    group.calls.clear();
  }

  // Of what was launched while the range was open.
  void take_kernels(const Range& range, const std::vector<size_t>& calls) {
    KernelTime all;
    for (auto launch = std::lower_bound(reader_.launches.begin(), reader_.launches.end(),
                                        std::make_pair(range.thread, range.start),
                                        [](const Launch&one, const std::pair<int64_t, int64_t>&at) {
                                          return std::make_pair(one.thread, one.start) < at;
                                        });
         launch != reader_.launches.end() && launch->thread == range.thread &&
         launch->start <= range.end && reader_.launches_left != 0;
         ++launch) {
      --reader_.launches_left;
      const auto kernel = reader_.kernels.find({process_of(launch->thread), launch->correlation});
      if (kernel == reader_.kernels.end()) continue;
      const KernelTime& time = kernel->second;
      if (all.end == 0 || time.start < all.start) all.start = time.start;
      all.end = std::max(all.end, time.end);
      all.stream = time.stream;
    }
    if (all.end == 0) return;
    for (const size_t call : calls) {
      Op& op = process_.ops[call];
      op.started_ns = at_ns(all.start);
      op.finished_ns = at_ns(all.end);
      op.stream = static_cast<uint64_t>(all.stream);
      op.state = OpState::finished;
    }
  }

  uint32_t thread_of(int64_t global_tid) {
    const auto [known, fresh] =
        threads_.try_emplace(global_tid, static_cast<uint32_t>(process_.threads.size()));
    if (fresh) process_.threads.push_back({static_cast<uint32_t>(global_tid & 0xffffff), ""});
    return known->second;
  }

  NsysReader& reader_;
  Process process_;
  std::map<uint64_t, uint32_t> comms_;
  std::vector<bool> is_shared_;  // by communicator
  std::map<int64_t, uint32_t> threads_;
  std::map<int64_t, Group> groups_;
  uint32_t last_group_ = 0;
  uint64_t calls_ = 0;
  uint64_t unnamed_ = 0;
};

constexpr std::string_view kToReadCalls =
    "a log with NCCL_DEBUG_SUBSYS=INIT,COLL of the same job tells the calls";

void say_what_it_has(const std::string& path, const ProcessWriter& writer,
                     std::vector<Issue>& issues) {
  std::string text = fmt::format(
      "is an export of Nsight Systems: of pid {} it has {} calls of NCCL inside of the capture, "
      "their sizes in bytes, and no numbers, so a range that was lost is not missed",
      writer.pid(), writer.calls());
  if (writer.unnamed() != 0) {
    text += fmt::format(
        "; the communicator of {} of them is not told, which NCCL's ranges do from 2.26 on, and "
        "these are not compared; {}",
        writer.unnamed(), kToReadCalls);
  }
  if (writer.has_shared()) {
    text +=
        "; one process drives several ranks of a communicator, and ranges do not tell whose a "
        "call is: these are not compared";
  }
  issues.push_back({path, std::move(text), 0, false});
}

void import_database(const std::string& path, SqliteFile& file, std::vector<Process>& processes,
                     std::vector<Issue>& issues) {
  const auto refuse = [&](std::string text) { issues.push_back({path, std::move(text), 0, true}); };
  NsysReader reader(file);
  const bool is_export = file.has_table("NVTX_EVENTS") || file.has_table("StringIds");
  if (is_export) reader.read();
  if (reader.ranges.empty()) {
    if (!file.complaint().empty()) return refuse(file.complaint());
    if (!is_export) return refuse("is a database of SQLite, and no export of Nsight Systems");
    return refuse(fmt::format(
        "is an export of Nsight Systems without ranges of NCCL: capture with `nsys profile "
        "--trace=cuda,nvtx`, and begin before the first call; {}",
        kToReadCalls));
  }
  if (!file.complaint().empty()) {
    issues.push_back({path, file.complaint(), 0, false});
  } else if (reader.is_cut) {
    issues.push_back({path,
                      fmt::format("holds more ranges of NCCL than {}; the first were read, and "
                                  "what differs between ranks is a guess: export a shorter time",
                                  kRangesMax),
                      0, false});
  }
  std::map<int64_t, ProcessWriter> writers;
  for (const Range& range : reader.ranges) {
    const int64_t process = process_of(range.thread);
    writers.try_emplace(process, path, reader).first->second.add(range);
    if (writers.size() > kProcessesMax) {
      return refuse(
          fmt::format("holds ranges of more than {} processes, which no capture has: it is damaged",
                      kProcessesMax));
    }
  }
  if (reader.launches_left == 0 && !reader.launches.empty()) {
    issues.push_back(
        {path,
         "holds ranges that overlap more than those of NCCL do: not all have the times "
         "of their kernels",
         0, false});
  }
  for (auto& [id, writer] : writers) {
    writer.finish();
    const auto busy = reader.busy.find(id);
    if (busy != reader.busy.end()) writer.add_busy_times(busy->second);
    say_what_it_has(path, writer, issues);
    Process& process = writer.process();
    if (process.job_rank < 0 && writers.size() == 1) process.job_rank = rank_in_file_name(path);
    if (!process.ops.empty()) processes.push_back(std::move(process));
  }
}

}  // namespace

void import_nsys(const std::string& path, std::vector<Process>& processes,
                 std::vector<Issue>& issues) {
  SqliteFile file;
  if (file.open(path)) return import_database(path, file, processes, issues);
  issues.push_back({path, file.complaint(), 0, true});
}

void import_nsys(const std::string& path, std::span<const uint8_t> bytes,
                 std::vector<Process>& processes, std::vector<Issue>& issues) {
  SqliteFile file;
  if (file.open(bytes)) return import_database(path, file, processes, issues);
  issues.push_back({path, file.complaint(), 0, true});
}

}  // namespace rollcall::trace
