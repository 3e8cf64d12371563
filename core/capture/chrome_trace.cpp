#include "core/capture/chrome_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "core/base/atomic_word.h"
#include "core/base/open_file.h"
#include "core/format/file_name.h"
#include "core/ring/ring_file.h"

namespace rollcall::capture {

namespace {

constexpr size_t kLineBytesMax = 2048;

// A thread that ends the process may have little stack. One pass at a time is made.
constinit char path_room[ring::kPathBytes]{};

void write_hex_text(TextWriter& out, std::string_view key, uint64_t value) noexcept {
  out.text(",\"").text(key).text("\":\"0x").hex(value).character('"');
}
void write_number(TextWriter& out, std::string_view key, uint64_t value) noexcept {
  out.text(",\"").text(key).text("\":").number(value);
}
void write_name(TextWriter& out, std::string_view key, std::string_view name,
                uint8_t number) noexcept {
  out.text(",\"").text(key).text("\":");
  if (number == kUnknown8) {
    out.text("null");
  } else if (name.empty()) {
    out.number(number);
  } else {
    out.character('"').json(name).character('"');
  }
}

}  // namespace

bool ChromeTrace::begin(const Options& options) noexcept {
  options_ = options;
  used_ = 0;
  is_made_ = is_begun_ = false;
  write_head();
  TextWriter path{std::span<char>(path_room)};
  path.text(options_.directory).character('/').text(options_.stem).text(kTraceEnding);
  path.c_str();
  failed_ = path.cut_bytes() != 0;
  return !failed_;
}

void ChromeTrace::set_clock(const TickConversion& clock) noexcept { clock_ = clock; }

void ChromeTrace::write_head() noexcept {
  TextWriter out{std::span<char>(head_)};
  out.text("[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":").number(options_.pid);
  out.text(",\"args\":{\"name\":\"");
  if (options_.job_rank >= 0) out.text("rank ").signed_number(options_.job_rank).text(", ");
  out.json(options_.stem).text("\"}},\n");
  head_bytes_ = out.bytes();
}

void ChromeTrace::write_microseconds(TextWriter& out, int64_t ns) const noexcept {
  const auto value = static_cast<uint64_t>(ns < 0 ? 0 : ns);
  out.number(value / 1000).character('.').padded(value % 1000, 3);
}

void ChromeTrace::write_arguments(TextWriter& out, const OpRecord& op) const noexcept {
  out.text("\"ticket\":").number(ticket_of(op.publish));
  write_number(out, "seq", op.seq);
  write_number(out, "count", op.count);
  write_name(out, "dtype", name_of_datatype(op.datatype), op.datatype);
  write_name(out, "redop", name_of_reduction(op.reduction), op.reduction);
  const bool has_peer = is_p2p(op.kind);
  out.text(has_peer ? ",\"peer\":" : ",\"root\":");
  if (op.root_or_peer < 0 && !has_peer && !traits_of(op.kind).rooted) {
    out.text("null");
  } else {
    out.signed_number(op.root_or_peer);
  }
  if (op.comm_index < kCommsMax) {
    const CommEntry& comm = options_.comms[op.comm_index];
    out.text(",\"comm\":\"").hex(comm.key.high, 16).hex(comm.key.low, 16).character('"');
    out.text(",\"comm_rank\":").signed_number(load_relaxed(comm.rank));
    out.text(",\"nranks\":").signed_number(load_relaxed(comm.nranks));
  }
  write_hex_text(out, "send", op.send_address);
  write_hex_text(out, "recv", op.recv_address);
  write_hex_text(out, "stream", op.stream);
  write_hex_text(out, "caller", op.caller);
  write_number(out, "group", op.group);
  write_number(out, "graph", op.graph);
  write_number(out, "frames", op.frames);
  write_number(out, "flags", op.flags);
  out.text(",\"result\":").signed_number(op.result);
  const auto time = [&](std::string_view key, uint64_t ticks) {
    if (ticks == 0) return;
    out.text(",\"").text(key).text("\":").signed_number(clock_.realtime_ns(ticks));
  };
  time("launched_ns", op.launched_ticks);
  time("started_ns", op.started_ticks);
  time("finished_ns", op.finished_ticks);
}

void ChromeTrace::observe(const OpRecord& op) noexcept {
  if (failed_) return;
  if (sizeof(buffer_) - used_ < kLineBytesMax) flush();
  if (sizeof(buffer_) - used_ < kLineBytesMax) return;
  TextWriter out{std::span<char>(buffer_).subspan(used_, kLineBytesMax)};
  const int64_t called_ns = clock_.realtime_ns(op.called_ticks);
  out.text("{\"ph\":\"X\",\"cat\":\"nccl\",\"name\":\"").text(name_of(op.kind));
  out.text("\",\"pid\":").number(options_.pid).text(",\"tid\":");
  out.number(op.thread_index < kThreadsMax ? load_relaxed(options_.threads[op.thread_index].tid)
                                           : 0);
  out.text(",\"ts\":");
  write_microseconds(out, called_ns);
  out.text(",\"dur\":");
  write_microseconds(out, clock_.realtime_ns(op.returned_ticks) - called_ns);
  out.text(",\"args\":{");
  write_arguments(out, op);
  out.text("}},\n");
  if (out.cut_bytes() == 0) used_ += out.bytes();
}

// Ours, or a fresh one where somebody has removed it. What else has the name is left alone: a pipe
// would hold the caller, and a file is somebody's.
int ChromeTrace::open_trace() noexcept {
  TextWriter path{std::span<char>(path_room)};
  path.text(options_.directory).character('/').text(options_.stem).text(kTraceEnding);
  constexpr int kFlags = O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK;
  if (is_made_) {
    const int descriptor = open_file(path.c_str(), kFlags);
    if (descriptor < 0 && errno != ENOENT) return -1;
    char found[sizeof(head_)];
    const ssize_t bytes = descriptor >= 0 ? pread(descriptor, found, head_bytes_, 0) : 0;
    const bool is_ours = bytes == 0 || (bytes == static_cast<ssize_t>(head_bytes_) &&
                                        memcmp(found, head_, head_bytes_) == 0);
    if (descriptor >= 0 && is_ours) return descriptor;
    if (descriptor >= 0) {
      close(descriptor);
      return -1;
    }
  }
  const int descriptor = open_file(path.c_str(), kFlags | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  is_made_ = descriptor >= 0;
  return descriptor;
}

void ChromeTrace::flush() noexcept {
  if (failed_ || (used_ == 0 && is_begun_)) return;
  const int descriptor = open_trace();
  // Also where what came first could not be written, or somebody has removed the file.
  const bool is_empty = descriptor >= 0 && lseek(descriptor, 0, SEEK_END) == 0;
  const iovec parts[] = {{head_, is_empty ? head_bytes_ : 0}, {buffer_, used_}};
  const size_t wanted = parts[0].iov_len + parts[1].iov_len;
  const bool may_write =
      descriptor >= 0 && ring::leaves_room(descriptor, wanted, kDiskKeptBesideHistory);
  const ssize_t written = may_write ? writev(descriptor, parts, 2) : -1;
  if (written == static_cast<ssize_t>(wanted)) {
    is_begun_ = true;
  } else {
    // A cut line would make the file unreadable: take it back, or write no more.
    add_relaxed(options_.stats->history_errors, uint64_t{1});
    if (written > 0) {
      const off_t end = lseek(descriptor, 0, SEEK_END);
      failed_ = ftruncate(descriptor, end - written) != 0;
    }
  }
  if (descriptor >= 0) close(descriptor);
  used_ = 0;
}

}  // namespace rollcall::capture
