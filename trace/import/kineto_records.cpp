#include "trace/import/kineto_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "trace/import/file_kind.h"
#include "trace/import/json_events.h"
#include "trace/model.h"
#include "trace/regular_file.h"
#include "trace/saturated.h"

namespace rollcall::trace {
namespace {

class TraceReader final : public JsonHandler {
 public:
  explicit TraceReader(size_t records_max) : records_max_(records_max) {}

  void scalar(const std::vector<std::string>& path, const JsonScalar& value) override {
    if (path.empty()) return;
    const std::string& name = path.back();
    if (path.size() == 1 && name == "baseTimeNanoseconds") {
      trace.base_ns = std::clamp<int64_t>(value.integer, 0, kTimeMaxNs);
    }
    if (path.size() == 1 && name == "host_name") trace.host = value.text;
    if (path.size() == 2 && path[0] == "distributedInfo") {
      if (name == "rank") trace.rank = static_cast<int32_t>(value.integer);
      if (name == "nccl_version") trace.nccl_version = value.text;
    }
    if (path[0] != "traceEvents") return;
    if (path.size() == 3) take_field(name, value);
    if (path.size() == 4 && path[2] == "args") take_argument(name, value);
  }

  void ended(const std::vector<std::string>& path) override {
    if (path.size() != 2 || path[0] != "traceEvents") return;
    if (is_gpu_) add_kernel();
    const bool is_described = !now_.collective.empty();
    // Lines of it, or the end of it and the begin of another, are lost.
    const bool is_whole = names_ == 1 && times_ == 1 && is_described;
    const bool is_bare = now_.is_call && names_ == 1 && times_ == 1 && !has_arguments_;
    const bool is_call = now_.is_call || (names_ == 0 && is_described);
    if (is_bare) {
      if (bare_++ == 0) before_bare_us_ = trace.whole_us;
    } else if (is_call && !is_whole) {
      ++trace.torn;
    } else if (is_call) {
      if (trace.torn == 0) trace.whole_us = std::max(trace.whole_us, now_.ts_us);
      keep(trace.calls);
    } else if (now_.is_kernel && (is_described || now_.external >= 0 || now_.correlation >= 0)) {
      keep(trace.kernels);
    } else if (is_of_cuda_ && is_launch_ && now_.correlation >= 0) {
      keep_launch();
    }
    is_of_cuda_ = is_launch_ = is_gpu_ = is_nccl_ = false;
    now_ = {};
    names_ = times_ = durations_ = 0;
    device_ = -1;
    has_arguments_ = false;
  }

  // PyTorch's older versions describe none of the calls. In a trace that describes some, those
  // without a description have lost it.
  void judge_bare_calls() {
    if (bare_ == 0 || trace.calls.empty()) return;
    trace.torn += bare_;
    trace.whole_us = std::min(trace.whole_us, before_bare_us_);
  }

  KinetoTrace trace;
  bool is_cut() const { return is_cut_; }

 private:
  void keep(std::vector<KinetoRecord>& records) {
    is_cut_ = is_cut_ || records.size() >= records_max_;
    if (!is_cut_) records.push_back(now_);
  }

  // Whatever it is of. Both times of a span are rounded as at_ns() rounds them.
  void add_kernel() {
    if (names_ != 1 || times_ != 1 || durations_ != 1) return trace.busy.lose();
    trace.busy.add(is_nccl_, device_ >= 0 ? device_ : now_.pid, ns_of_us(now_.ts_us),
                   ns_of_us(now_.ts_us + now_.duration_us));
  }

  // Without some of them batches of transfers have no times, and nothing else is lost.
  void keep_launch() {
    constexpr size_t kLaunchesOfEach = 4;
    if (trace.launches.size() / kLaunchesOfEach >= records_max_) return;
    trace.launches.push_back({now_.ts_us, now_.tid, now_.correlation});
  }

  void take_field(const std::string& name, const JsonScalar& value) {
    if (name == "name") {
      ++names_;
      now_.is_call = value.text == "record_param_comms";
      is_nccl_ = value.text.starts_with("nccl");
      is_launch_ = value.text.find("LaunchKernel") != std::string::npos ||
                   value.text.find("LaunchCooperativeKernel") != std::string::npos;
    } else if (name == "cat") {
      is_gpu_ = value.text == "kernel";
      is_of_cuda_ = value.text == "cuda_runtime" || value.text == "cuda_driver";
    } else if (name == "ts") {
      ++times_;
      now_.ts_us = value.number;
    } else if (name == "dur") {
      ++durations_;
      now_.duration_us = value.number;
    } else if (name == "pid") {
      now_.pid = value.integer;
    } else if (name == "tid") {
      now_.tid = value.integer;
    }
    now_.is_kernel = is_gpu_ && is_nccl_;
  }

  void take_argument(const std::string& name, const JsonScalar& value) {
    struct Argument {
      std::string_view name;
      std::string KinetoRecord::*text;
      int64_t KinetoRecord::*number;
    };
    static constexpr Argument kArguments[] = {
        {"External id", nullptr, &KinetoRecord::external},
        {"external id", nullptr, &KinetoRecord::external},
        {"correlation", nullptr, &KinetoRecord::correlation},
        {"Collective name", &KinetoRecord::collective, nullptr},
        {"dtype", &KinetoRecord::dtype, nullptr},
        {"Process Group Name", &KinetoRecord::group, nullptr},
        {"Process Group Description", &KinetoRecord::group_name, nullptr},
        {"Process Group Ranks", &KinetoRecord::ranks, nullptr},
        {"In msg nelems", nullptr, &KinetoRecord::in_elements},
        {"Out msg nelems", nullptr, &KinetoRecord::out_elements},
        {"Group size", nullptr, &KinetoRecord::group_size},
        {"Rank", nullptr, &KinetoRecord::rank},
        {"Seq", nullptr, &KinetoRecord::seq},
        {"stream", nullptr, &KinetoRecord::stream},
    };
    if (name == "device") device_ = value.integer;
    for (const Argument& argument : kArguments) {
      if (argument.name != name) continue;
      if (argument.text != nullptr) now_.*argument.text = value.text;
      if (argument.number != nullptr) now_.*argument.number = value.integer;
      const bool is_of_all = argument.number == &KinetoRecord::external ||
                             argument.number == &KinetoRecord::correlation;
      has_arguments_ = has_arguments_ || !is_of_all;
    }
  }

  const size_t records_max_;
  bool is_cut_ = false;
  KinetoRecord now_;
  uint32_t names_ = 0;  // that it was given
  uint32_t times_ = 0;
  uint32_t durations_ = 0;
  int64_t device_ = -1;         // of a kernel
  bool has_arguments_ = false;  // of a collective
  uint64_t bare_ = 0;           // calls without any
  double before_bare_us_ = 0;   // KinetoTrace::whole_us in front of the first of them
  bool is_nccl_ = false;
  bool is_gpu_ = false;
  bool is_of_cuda_ = false;  // what the host asks of it
  bool is_launch_ = false;
};

}  // namespace

int64_t KinetoTrace::at_ns(double us) const {
  const int64_t relative_ns = us > 0 ? ns_of_us(us) : -1;
  return relative_ns < 0 ? 0 : base_ns + relative_ns;
}

int64_t ns_of_us(double us) {
  constexpr double kBeyondUs = static_cast<double>(kTimeMaxNs) / 1000;
  if (!(us >= 0) || us > kBeyondUs) return -1;
  // A time since the epoch has whole microseconds in a double, but not whole nanoseconds.
  const double whole_us = std::floor(us);
  return static_cast<int64_t>(whole_us) * 1000 + std::llround((us - whole_us) * 1000);
}

KinetoTrace read_kineto(ByteStream& stream, size_t records_max) {
  TraceReader reader(records_max);
  reader.trace.trouble = read_json_events(stream, reader);
  reader.judge_bare_calls();
  if (reader.is_cut() && reader.trace.trouble.empty()) {
    reader.trace.trouble = fmt::format("holds more than {} collectives", records_max);
  }
  for (std::vector<KinetoRecord>* records : {&reader.trace.calls, &reader.trace.kernels}) {
    std::stable_sort(
        records->begin(), records->end(),
        [](const KinetoRecord& a, const KinetoRecord& b) { return a.ts_us < b.ts_us; });
  }
  std::stable_sort(reader.trace.launches.begin(), reader.trace.launches.end(),
                   [](const KinetoLaunch& a, const KinetoLaunch& b) { return a.ts_us < b.ts_us; });
  return std::move(reader.trace);
}

std::optional<KinetoTrace> read_kineto_file(const std::string& path) {
  const int descriptor = open_regular(path);
  if (descriptor < 0) return std::nullopt;
  PeekStream stream(as_utf8(unpacked(std::make_unique<DescriptorStream>(descriptor, true))));
  if (kind_of(stream.peek(kHeadBytes)).format != ForeignFormat::kineto) return std::nullopt;
  KinetoTrace trace = read_kineto(stream);
  trace.kernels = {};
  trace.launches = {};
  trace.busy = BusyKernels();
  if (trace.host.empty() && !trace.calls.empty()) {
    trace.host = host_from_name(path, trace.calls.front().pid);
  }
  return trace;
}

uint64_t count_of(OpKind kind, const KinetoRecord& record) {
  const int64_t in = std::max<int64_t>(record.in_elements, 0);
  const int64_t out = std::max<int64_t>(record.out_elements, 0);
  if (record.in_elements < 0 && record.out_elements < 0) return kCountUnknown;
  if (record.collective.starts_with("barrier") || kind == OpKind::AlltoAll) return kCountUnknown;
  int64_t count = in != 0 ? in : out;
  if (kind == OpKind::ReduceScatter || kind == OpKind::Recv) count = out != 0 ? out : in;
  // The root has every rank's part on one side.
  const bool is_one_sided = kind == OpKind::Gather || kind == OpKind::Scatter;
  if (is_one_sided && in != 0 && out != 0) count = std::min(in, out);
  return static_cast<uint64_t>(count);
}

std::string host_from_name(const std::string& path, int64_t pid) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const size_t at = name.find(fmt::format("_{}.", pid));
  return at == std::string::npos ? "" : name.substr(0, at);
}

}  // namespace rollcall::trace
