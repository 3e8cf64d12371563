// PyTorch's Flight Recorder, versions 2.0 to 2.10, as pickle or JSON, from its former and its
// present NCCL backend (nccl-legacy, nccl2).
//
// What becomes what
//   * a process group (name and ranks) is a communicator; its key is a hash of both, so groups of
//     one name and other ranks stay apart. The local pg_id is never used.
//   * a collective is an operation with seq = collective_seq_id. Coalesced collectives share one
//     id: they become one operation with the sum of their elements.
//   * a send or receive gets its p2p seq by counting per peer and direction; where the ring has
//     lost its head that count means nothing, so sends and receives are then left out.
//   * pg_status has the last call that was made in each group, also where no entry is left of it
//     (dumps of what is active only, as Megatron's and NVRx's are).
//   * members of a batch never leave the state `scheduled`; the batch's closing entry tells theirs.
//
// What it lacks: reduction, root, stream, which calls were grouped (the present backend), and
// whether a `scheduled` operation was ever launched.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/format/call_site.h"
#include "trace/import/importer.h"
#include "trace/import/pickle.h"
#include "trace/import/plain_json.h"
#include "trace/import/torch_names.h"

namespace rollcall::trace {
namespace {

std::string_view operation_name(std::string_view profiling_name) {
  const size_t colon = profiling_name.find(':');
  return colon == std::string_view::npos ? profiling_name : profiling_name.substr(colon + 1);
}

// Elements of all tensors of a list of sizes; 0 for an empty list.
uint64_t elements_of(const PlainValue* sizes) {
  const PlainList* tensors = sizes == nullptr ? nullptr : sizes->list();
  if (tensors == nullptr) return 0;
  uint64_t total = 0;
  for (const PlainPointer& tensor : *tensors) {
    const PlainList* dimensions = tensor->list();
    if (dimensions == nullptr) continue;
    uint64_t product = 1;
    for (const PlainPointer& dimension : *dimensions) {
      product *= static_cast<uint64_t>(std::max<int64_t>(0, dimension->integer_or(0)));
    }
    total += product;
  }
  return total;
}

uint8_t dtype_of(const PlainValue& entry) {
  for (const std::string_view key : {"input_dtypes", "output_dtypes"}) {
    const PlainValue* list = entry.find(key);
    if (list == nullptr || list->list() == nullptr || list->list()->empty()) continue;
    const std::string* name = list->list()->front()->text();
    if (name == nullptr) continue;
    const uint8_t datatype = torch_datatype_of(*name);
    if (datatype != kUnknown8) return datatype;
  }
  return kUnknown8;
}

bool has_sizes(const PlainValue& entry) {
  for (const std::string_view key : {"input_sizes", "output_sizes"}) {
    const PlainValue* sizes = entry.find(key);
    if (sizes != nullptr && sizes->list() != nullptr && !sizes->list()->empty()) return true;
  }
  return false;
}

// The count as the NCCL call has it. Unknown for a barrier of the present backend, which has no
// tensor, and for an all-to-all, whose sizes may legitimately differ by rank.
uint64_t count_of(OpKind kind, const PlainValue& entry) {
  if (!has_sizes(entry)) return kCountUnknown;
  const uint64_t in = elements_of(entry.find("input_sizes"));
  const uint64_t out = elements_of(entry.find("output_sizes"));
  switch (kind) {
    case OpKind::AlltoAll:
      return kCountUnknown;
    case OpKind::ReduceScatter:
      return out != 0 ? out : in;
    // The root lists every rank's tensor on one side, and the two backends disagree on which.
    case OpKind::Gather:
    case OpKind::Scatter:
      return in == 0 || out == 0 ? in + out : std::min(in, out);
    case OpKind::Recv:
      return out != 0 ? out : in;
    default:
      return in != 0 ? in : out;
  }
}

OpState state_of(const PlainValue& entry) {
  const std::string state = entry.text_of("state");
  if (state == "completed") return OpState::finished;
  if (state == "started") return OpState::started;
  // `scheduled`: the call was made; without timing it stays so while the operation runs.
  return OpState::returned;
}

// "send 0->1": (0, 1); "recv 0<-3": (0, 3). -1 where the name has no peer (the torchcomms hook).
int32_t peer_of(std::string_view name) {
  const size_t arrow = std::min(name.find("->"), name.find("<-"));
  if (arrow == std::string_view::npos) return -1;
  int32_t peer = -1;
  for (const char character : name.substr(arrow + 2)) {
    if (character < '0' || character > '9' || peer > (1 << 20)) break;
    peer = (peer < 0 ? 0 : peer) * 10 + (character - '0');
  }
  return peer;
}

// The ranks that are in every group of a dump, of which one wrote it: it knows no other groups.
// Empty where it names no ranks.
std::vector<int32_t> possible_ranks(const PlainDict& config) {
  std::optional<std::vector<int32_t>> common;
  for (const auto& [name, group] : config) {
    std::vector<int32_t> ranks = numbers_in(group->text_of("ranks"));
    if (ranks.empty()) continue;
    std::sort(ranks.begin(), ranks.end());
    if (!common) {
      common = std::move(ranks);
      continue;
    }
    std::erase_if(*common, [&](int32_t rank) {
      return !std::binary_search(ranks.begin(), ranks.end(), rank);
    });
  }
  return common.value_or(std::vector<int32_t>());
}

// What the name says, unless the groups say that it cannot be.
int32_t rank_of_dump(const std::string& path, const PlainDict* config, std::vector<Issue>& issues) {
  const int32_t named = rank_in_file_name(path);
  const std::vector<int32_t> possible =
      config == nullptr ? std::vector<int32_t>() : possible_ranks(*config);
  if (possible.empty()) return named;
  if (std::binary_search(possible.begin(), possible.end(), named)) return named;
  const int32_t rank = possible.size() == 1 ? possible.front() : -1;
  issues.push_back(
      {path,
       rank >= 0 ? fmt::format("is the dump of rank {}: the groups in it have no other rank in "
                               "common, whatever its name says",
                               rank)
                 : std::string("does not tell its rank: that of its name is in none of its groups; "
                               "give it a name that ends in \"rank_\" and the number"),
       0, false});
  return rank;
}

class Builder {
 public:
  Builder(Process& process, const PlainDict* config) : process_(process), config_(config) {}
  void add_entries(const PlainList& entries);
  bool global_counter() const { return global_counter_; }
  size_t left_out() const { return left_out_; }
  // What the dump says of groups beside their entries: the last call that was made in each. True
  // where it could be used.
  bool add_positions(const PlainDict* positions);

 private:
  uint32_t comm_for(const PlainValue& entry);
  uint32_t comm_named(const std::string& name, const std::string& description);
  bool agrees_with_entries(const std::map<int64_t, std::string>& names) const;
  void add_collective(const PlainValue& entry, uint32_t comm, OpKind kind, bool closing);
  void add_p2p(const PlainValue& entry, uint32_t comm, OpKind kind);
  Op op_from(const PlainValue& entry, uint32_t comm, OpKind kind);
  uint16_t site_of(const PlainValue& entry);
  void close_batch(const PlainValue& entry, uint32_t comm);

  Process& process_;
  const PlainDict* config_;
  std::map<std::string, uint32_t> comms_;
  std::multimap<int64_t, std::string> local_names_;  // of entries, by the process's own number
  std::map<std::string, uint16_t> sites_;
  std::map<std::pair<uint32_t, uint64_t>, size_t> collectives_;  // (comm, id) -> index of its op
  std::map<std::tuple<uint32_t, int32_t, bool>, uint64_t> p2p_counts_;
  std::map<std::pair<uint32_t, int64_t>, std::vector<size_t>> batches_;
  bool head_lost_ = false;
  bool global_counter_ = false;
  size_t left_out_ = 0;
};

uint32_t Builder::comm_for(const PlainValue& entry) {
  std::string name, description;
  const PlainValue* group = entry.find("process_group");
  if (group != nullptr && group->list() != nullptr && group->list()->size() == 2) {
    const std::string* first = (*group->list())[0]->text();
    const std::string* second = (*group->list())[1]->text();
    if (first != nullptr) name = *first;
    if (second != nullptr) description = *second;
  }
  const int64_t local = entry.integer_of("pg_id", -1);
  if (local >= 0) local_names_.emplace(local, name);
  return comm_named(name, description);
}

uint32_t Builder::comm_named(const std::string& name, const std::string& description) {
  const auto known = comms_.find(name);
  if (known != comms_.end()) return known->second;
  std::vector<int32_t> ranks;
  if (config_ != nullptr) {
    const auto found = config_->find(name);
    if (found != config_->end()) ranks = numbers_in(found->second->text_of("ranks"));
  }
  Comm comm;
  comm.origin = CommOrigin::unknown;
  comm.state = CommState::ready;
  comm.nranks = ranks.empty() ? -1 : static_cast<int32_t>(ranks.size());
  const auto mine = std::find(ranks.begin(), ranks.end(), process_.job_rank);
  comm.rank = mine == ranks.end() ? -1 : static_cast<int32_t>(mine - ranks.begin());
  std::string identity = name;
  for (const int32_t rank : ranks) identity += fmt::format(",{}", rank);
  comm.key = key_from_text(identity);
  comm.name = description.empty() || description == "undefined" ? name : description;
  process_.comms.push_back(comm);
  const auto index = static_cast<uint32_t>(process_.comms.size() - 1);
  comms_.emplace(name, index);
  return index;
}

Op Builder::op_from(const PlainValue& entry, uint32_t comm, OpKind kind) {
  Op op;
  op.kind = kind;
  op.comm = comm;
  op.called_ns = entry.integer_of("time_created_ns", 0);
  op.datatype = dtype_of(entry);
  op.count = count_of(kind, entry);
  op.state = state_of(entry);
  op.result = kResultSuccess;
  // Discovery is by a watchdog and always late, but it is what there is.
  if (op.state == OpState::finished) {
    op.finished_ns = entry.integer_of("time_discovered_completed_ns", 0);
  }
  op.ticket = process_.ops.size() + 1;
  op.frames = site_of(entry);
  return op;
}

// The innermost first, as in core/format/call_site.h.
std::string site_text_of(const PlainList& frames, bool only_user_code) {
  std::string text;
  uint32_t named = 0;
  for (const PlainPointer& frame : frames) {
    const std::string file = frame->text_of("filename");
    if (file.empty() || named == kFramesNamedMax || (only_user_code && !is_user_code(file)))
      continue;
    if (named++ != 0) text += kCallerSeparator;
    text += fmt::format("{}:{} {}", file, frame->integer_of("line", 0), frame->text_of("name"));
  }
  if (text.size() > kFrameTextBytes) text.resize(kFrameTextBytes);
  return text;
}

uint16_t Builder::site_of(const PlainValue& entry) {
  const PlainValue* frames = entry.find("frames");
  if (frames == nullptr || frames->list() == nullptr) return 0;
  std::string text = site_text_of(*frames->list(), true);
  if (text.empty()) text = site_text_of(*frames->list(), false);
  if (text.empty() || sites_.size() == UINT16_MAX) return 0;
  const auto next = static_cast<uint16_t>(sites_.size() + 1);
  const auto [site, is_new] = sites_.try_emplace(std::move(text), next);
  if (is_new) process_.meta[fmt::format("frame.{}", next)] = site->first;
  return site->second;
}

void Builder::add_collective(const PlainValue& entry, uint32_t comm, OpKind kind, bool closing) {
  const int64_t number = entry.integer_of("collective_seq_id", 0);
  if (number < 0) {
    ++left_out_;
    return;
  }
  const auto id = static_cast<uint64_t>(number);
  const auto [known, fresh] = collectives_.try_emplace({comm, id}, process_.ops.size());
  if (!fresh) {
    // A coalesced group: one operation; the closing entry has no sizes but the true state.
    Op& op = process_.ops[known->second];
    if (closing) {
      op.state = state_of(entry);
      op.kind = kind;
    } else if (op.count != kCountUnknown && has_sizes(entry)) {
      op.count += count_of(kind, entry);
    }
    return;
  }
  Op op = op_from(entry, comm, kind);
  op.seq = id;
  process_.ops.push_back(op);
  process_.comms[comm].collectives = std::max(process_.comms[comm].collectives, id + 1);
}

void Builder::add_p2p(const PlainValue& entry, uint32_t comm, OpKind kind) {
  // Each rank counts its own transfers: the number of its last call is no position.
  process_.comms[comm].is_counted_only = true;
  const int32_t peer = peer_of(operation_name(entry.text_of("profiling_name")));
  if (head_lost_ || peer < 0) {
    ++left_out_;
    return;
  }
  Op op = op_from(entry, comm, kind);
  op.root_or_peer = peer;
  op.seq = p2p_counts_[{comm, peer, kind == OpKind::Send}]++;
  batches_[{comm, entry.integer_of("p2p_seq_id", 0)}].push_back(process_.ops.size());
  process_.ops.push_back(op);
  uint64_t& counter =
      kind == OpKind::Send ? process_.comms[comm].sends : process_.comms[comm].recvs;
  ++counter;
}

void Builder::close_batch(const PlainValue& entry, uint32_t comm) {
  const int64_t id = entry.integer_of("p2p_seq_id", 0);
  for (const size_t index : batches_[{comm, id}]) {
    process_.ops[index].state = state_of(entry);
    process_.ops[index].group = static_cast<uint32_t>(id) + (comm << 20) + 1;
  }
  batches_.erase({comm, id});
}

void Builder::add_entries(const PlainList& entries) {
  if (!entries.empty()) head_lost_ = entries.front()->integer_of("record_id", 0) != 0;
  // The torchcomms hook numbers all calls of a process with one counter from 0: nothing to match
  // by. PyTorch's own numbers begin at 1, per group.
  const bool names_no_peer =
      std::any_of(entries.begin(), entries.end(), [](const PlainPointer& entry) {
        const std::string name = entry->text_of("profiling_name");
        const std::string_view operation = operation_name(name);
        return operation == "send" || operation == "recv";
      });
  const bool counts_records =
      !entries.empty() &&
      std::all_of(entries.begin(), entries.end(), [](const PlainPointer& entry) {
        const int64_t record = entry->integer_of("record_id", -1);
        return entry->integer_of("collective_seq_id", -2) == record &&
               entry->integer_of("op_id", -2) == record;
      });
  // Behind a lost head it takes many entries to tell the one counter from coincidence.
  constexpr size_t kTellingEntries = 16;
  global_counter_ =
      names_no_peer || (counts_records && (!head_lost_ || entries.size() >= kTellingEntries));
  for (const PlainPointer& entry : entries) {
    const std::string profiling_name = entry->text_of("profiling_name");
    const std::string_view name = operation_name(profiling_name);
    const uint32_t comm = comm_for(*entry);
    // Of PyTorch 2.15's former backend, this entry says itself that it is no transfer.
    if (name == "coalesced") {
      close_batch(*entry, comm);
      continue;
    }
    const std::optional<OpKind> kind = torch_kind_of(name);
    if (!kind) {
      ++left_out_;
    } else if (is_p2p(*kind)) {
      add_p2p(*entry, comm, *kind);
    } else {
      add_collective(*entry, comm, *kind, name.ends_with("_coalesced"));
    }
  }
  process_.first_complete_ticket = 1;
  process_.next_ticket = process_.ops.size() + 1;
  process_.knowledge.head = !head_lost_;
}

// The keys of a dictionary as numbers, rising; empty where one is none.
std::vector<int64_t> numbers_of(const PlainDict& dict) {
  std::vector<int64_t> numbers;
  for (const auto& [key, value] : dict) {
    uint64_t number = 0;
    if (!parse_decimal(key, number) || number > INT32_MAX) return {};
    numbers.push_back(static_cast<int64_t>(number));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool Builder::agrees_with_entries(const std::map<int64_t, std::string>& names) const {
  return std::all_of(local_names_.begin(), local_names_.end(), [&](const auto& known) {
    const auto found = names.find(known.first);
    return found != names.end() && found->second == known.second;
  });
}

// Positions go by the numbers that the process gave its groups, names by the names. Both were given
// in the order in which the groups were made, and the names of groups are numbers, too.
bool Builder::add_positions(const PlainDict* positions) {
  if (positions == nullptr || config_ == nullptr || positions->size() != config_->size()) {
    return false;
  }
  const std::vector<int64_t> locals = numbers_of(*positions);
  const std::vector<int64_t> names = numbers_of(*config_);
  if (locals.size() != positions->size() || names.size() != locals.size()) return false;
  std::map<int64_t, std::string> by_local;
  for (size_t i = 0; i < locals.size(); ++i) by_local[locals[i]] = fmt::format("{}", names[i]);
  if (!agrees_with_entries(by_local)) return false;
  for (const auto& [local, name] : by_local) {
    const int64_t last =
        positions->at(fmt::format("{}", local))->integer_of("last_enqueued_collective", -2);
    const std::string description = config_->at(name)->text_of("desc");
    if (last < -1) continue;
    Comm& comm = process_.comms[comm_named(name, description)];
    // Stages of a pipeline count what they send each other.
    const bool is_pipeline = description.find("PIPELINE") != std::string::npos ||
                             description.find("pipeline") != std::string::npos;
    comm.is_counted_only = comm.is_counted_only || is_pipeline;
    comm.is_told_only = true;
    comm.collectives = std::max(comm.collectives, static_cast<uint64_t>(last + 1));
  }
  return true;
}

// What can be used of a dump that was cut off: the values that were complete on the reader's stack.
// The dictionary's keys and values alternate there, and `entries` comes last.
PlainPointer salvage(const std::vector<PlainPointer>& values) {
  PlainDict dump;
  PlainList entries;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string* key = values[i]->text();
    if (key != nullptr && i + 1 < values.size() &&
        (*key == "pg_config" || *key == "version" || *key == "comm_lib_version")) {
      dump[*key] = values[i + 1];
    }
    if (values[i]->find("record_id") != nullptr && values[i]->find("state") != nullptr) {
      entries.push_back(values[i]);
    }
  }
  dump["entries"] = std::make_shared<PlainValue>(PlainValue{std::move(entries), 1});
  return std::make_shared<PlainValue>(PlainValue{std::move(dump), 1});
}

PlainPointer parse(const std::string& path, std::span<const uint8_t> bytes, bool json,
                   std::vector<Issue>& issues) {
  if (json) {
    PlainPointer document =
        read_plain_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (document != nullptr) return document;
    issues.push_back({path,
                      "is not complete JSON, as a dump cut off while it was written; dump again", 0,
                      true});
    return nullptr;
  }
  PickleResult pickle = read_pickle(bytes);
  if (pickle.root != nullptr) return pickle.root;
  if (!pickle.truncated) {
    issues.push_back(
        {path,
         fmt::format("is refused: {}. It is no Flight Recorder dump of PyTorch; do not "
                     "load it with Python either",
                     pickle.error),
         0, true});
    return nullptr;
  }
  issues.push_back(
      {path,
       fmt::format("{}; the process died while it dumped. What was complete is used", pickle.error),
       0, false});
  return salvage(pickle.salvaged);
}

}  // namespace

void import_flight_recorder(const std::string& path, std::span<const uint8_t> bytes, bool json,
                            std::vector<Process>& processes, std::vector<Issue>& issues) {
  const size_t issues_before = issues.size();
  const PlainPointer dump = parse(path, bytes, json, issues);
  if (dump == nullptr) return;
  const bool is_cut_off = issues.size() != issues_before;
  const std::string version = dump->text_of("version");
  if (version.empty()) {
    issues.push_back({path, "names no Flight Recorder version: it is no dump of PyTorch", 0, true});
    return;
  }
  if (version[0] == '1') {
    issues.push_back(
        {path,
         fmt::format("has Flight Recorder version \"{}\"; versions 2.0 and later can be "
                     "read",
                     version),
         0, true});
    return;
  }
  Process process;
  process.file = path;
  process.recorder = "flight_recorder";
  process.meta["flight_recorder_version"] = version;
  const std::string library =
      dump->text_of(version.size() > 3 ? "comm_lib_version" : "nccl_version");
  if (!library.empty()) process.meta["nccl_version"] = library;
  process.knowledge.groups = false;
  process.knowledge.returns = false;
  process.knowledge.tail = !is_cut_off;
  const PlainValue* config = dump->find("pg_config");
  const PlainValue* entries = dump->find("entries");
  process.job_rank = rank_of_dump(path, config == nullptr ? nullptr : config->dict(), issues);
  Builder builder(process, config == nullptr ? nullptr : config->dict());
  if (entries != nullptr && entries->list() != nullptr) builder.add_entries(*entries->list());
  const PlainValue* positions = dump->find("pg_status");
  const bool tells_positions =
      !is_cut_off && !builder.global_counter() &&
      builder.add_positions(positions == nullptr ? nullptr : positions->dict());
  // A dump that kept only what was not complete shows no completed entry at all.
  const bool any_finished = std::any_of(process.ops.begin(), process.ops.end(),
                                        [](const Op& op) { return op.state == OpState::finished; });
  if ((!process.ops.empty() || tells_positions) && !any_finished) {
    process.knowledge.head = false;
    process.knowledge.tail = false;
  }
  if (builder.global_counter()) {
    process.knowledge.calls_in_order = false;
    issues.push_back({path,
                      "was written by a hook that numbers all groups with one counter; its calls "
                      "cannot be matched between ranks and are not compared",
                      0, false});
    process.ops.clear();
    for (Comm& comm : process.comms) comm.collectives = comm.sends = comm.recvs = 0;
    process.next_ticket = 1;
  }
  issues.push_back({path,
                    "is a dump of PyTorch's Flight Recorder: it has no reductions, roots and "
                    "streams, and nothing older than its buffer",
                    0, false});
  processes.push_back(std::move(process));
}

}  // namespace rollcall::trace
