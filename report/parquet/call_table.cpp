#include "report/parquet/call_table.h"

#include <fmt/format.h>

#include "report/terms.h"
#include "statistics/bandwidth.h"

namespace rollcall::report {
namespace {

using parquet::Column;
using parquet::ColumnKind;

// X(name, kind): in this order in the file.
#define ROLLCALL_CALL_COLUMNS(X) \
  X(rank, number)                \
  X(host, text)                  \
  X(pid, number)                 \
  X(gpu, number)                 \
  X(thread, text)                \
  X(ticket, rising)              \
  X(comm_key, text)              \
  X(comm_name, text)             \
  X(comm_rank, number)           \
  X(comm_size, number)           \
  X(seq, rising)                 \
  X(kind, text)                  \
  X(count, number)               \
  X(dtype, text)                 \
  X(redop, text)                 \
  X(root, number)                \
  X(peer, number)                \
  X(bytes, number)               \
  X(stream, number)              \
  X(group_id, number)            \
  X(graph, number)               \
  X(algorithm, text)             \
  X(protocol, text)              \
  X(kernel, text)                \
  X(state, text)                 \
  X(result, text)                \
  X(line, text)                  \
  X(called_ns, rising)           \
  X(returned_ns, rising)         \
  X(launched_ns, rising)         \
  X(started_ns, rising)          \
  X(finished_ns, rising)         \
  X(clock_bound_ns, number)

namespace column {
enum : size_t {
#define ROLLCALL_X(name, kind) name,
  ROLLCALL_CALL_COLUMNS(ROLLCALL_X)
#undef ROLLCALL_X
};
}  // namespace column

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
#define ROLLCALL_X(name, kind) {#name, ColumnKind::kind},
      ROLLCALL_CALL_COLUMNS(ROLLCALL_X)
#undef ROLLCALL_X
  };
  return all;
}

void add_if(parquet::TableFile& file, size_t column, bool is_known, uint64_t value) {
  if (is_known) {
    file.add_number(column, static_cast<int64_t>(value));
  } else {
    file.add_nothing(column);
  }
}

void add_if(parquet::TableFile& file, size_t column, std::string_view text) {
  if (text.empty()) {
    file.add_nothing(column);
  } else {
    file.add_text(column, text);
  }
}

void add_positive(parquet::TableFile& file, size_t column, int64_t value) {
  add_if(file, column, value > 0, static_cast<uint64_t>(value));
}

// -1: unknown.
void add_rank(parquet::TableFile& file, size_t column, int32_t rank) {
  add_if(file, column, rank >= 0, static_cast<uint64_t>(rank));
}

std::string_view line_of(const trace::Process& process, const trace::Op& op) {
  if (op.frames == 0) return {};
  const auto found = process.meta.find(fmt::format("frame.{}", op.frames));
  return found == process.meta.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace

CallTable::CallTable(parquet::TableFile::Sink sink) : file_(columns(), std::move(sink)) {}

void CallTable::name_comms(std::map<std::pair<uint64_t, uint64_t>, std::string> names) {
  comm_names_ = std::move(names);
}

void CallTable::add(const trace::Process& process, int32_t rank) {
  rank_ = rank;
  for (const trace::Op& op : process.ops) add_call(process, op);
}

void CallTable::add_call(const trace::Process& process, const trace::Op& op) {
  file_.add_number(column::rank, rank_);
  add_if(file_, column::host, process.host);
  file_.add_number(column::pid, process.pid);
  add_rank(file_, column::gpu, process.gpu);
  add_if(file_, column::thread,
         op.thread < process.threads.size() ? process.threads[op.thread].name : std::string());
  file_.add_number(column::ticket, static_cast<int64_t>(op.ticket));
  add_place(process, op);
  add_data(process, op);
  add_times(process, op);
  file_.end_row();
}

// Where in the job's order it is.
void CallTable::add_place(const trace::Process& process, const trace::Op& op) {
  const trace::Comm unknown;
  const bool has_comm = op.comm < process.comms.size();
  const trace::Comm& comm = has_comm ? process.comms[op.comm] : unknown;
  add_if(file_, column::comm_key, comm.key.is_null() ? std::string() : key_hex(comm.key));
  const auto known = comm_names_.find({comm.key.high, comm.key.low});
  const bool is_named = !comm.name.empty() || known == comm_names_.end();
  add_if(file_, column::comm_name, is_named ? comm.name : known->second);
  add_rank(file_, column::comm_rank, comm.rank);
  add_rank(file_, column::comm_size, comm.nranks);
  const bool is_counted = is_collective(op.kind) || is_p2p(op.kind);
  add_if(file_, column::seq, is_counted && (op.flags & kOpSeqUnknown) == 0, op.seq);
}

// What it is about.
void CallTable::add_data(const trace::Process& process, const trace::Op& op) {
  const OpTraits& traits = traits_of(op.kind);
  const bool moves = !is_mark(op.kind);
  const bool has_peer = traits.family == OpFamily::p2p || traits.family == OpFamily::rma;
  file_.add_text(column::kind, name_of(op.kind));
  add_if(file_, column::count, moves && op.count != trace::kCountUnknown, op.count);
  add_if(file_, column::dtype, moves ? datatype_name(op.datatype) : std::string());
  add_if(file_, column::redop, traits.reduces ? reduction_name(op.reduction) : std::string());
  add_rank(file_, column::root, traits.rooted ? op.root_or_peer : -1);
  add_rank(file_, column::peer, has_peer ? op.root_or_peer : -1);
  const int32_t nranks = op.comm < process.comms.size() ? process.comms[op.comm].nranks : -1;
  const uint64_t bytes = moves ? statistics::operation_bytes(op, nranks) : 0;
  add_if(file_, column::bytes, bytes != 0, bytes);
  file_.add_number(column::stream, static_cast<int64_t>(op.stream));
  add_if(file_, column::group_id, op.group != 0, op.group);
  add_if(file_, column::graph, op.graph != 0, op.graph);
  add_if(file_, column::algorithm, name_of_algorithm(op.method));
  add_if(file_, column::protocol, name_of_protocol(op.method));
  add_if(file_, column::kernel, kernel_name(process, op));
}

// What became of it, and when.
void CallTable::add_times(const trace::Process& process, const trace::Op& op) {
  file_.add_text(column::state, trace::name_of(op.state));
  add_if(file_, column::result,
         op.result == kResultUnknown ? std::string() : std::string(name_of_result(op.result)));
  add_if(file_, column::line, line_of(process, op));
  add_positive(file_, column::called_ns, op.called_ns);
  add_positive(file_, column::returned_ns, op.returned_ns);
  add_positive(file_, column::launched_ns, op.launched_ns);
  add_positive(file_, column::started_ns, op.started_ns);
  add_positive(file_, column::finished_ns, op.finished_ns);
  add_positive(file_, column::clock_bound_ns, process.clock_doubt_ns);
}

}  // namespace rollcall::report
