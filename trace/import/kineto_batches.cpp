#include "trace/import/kineto_batches.h"

#include <map>
#include <unordered_map>
#include <unordered_set>

#include "trace/import/torch_names.h"

namespace rollcall::trace {
namespace {

constexpr size_t kNone = SIZE_MAX;

class BatchFinder {
 public:
  explicit BatchFinder(const KinetoTrace& trace) : trace_(trace) {
    for (const KinetoRecord& call : trace.calls) calls_.insert(call.external);
    for (size_t k = 0; k < trace.kernels.size(); ++k) {
      const KinetoRecord& kernel = trace.kernels[k];
      const bool is_of_call = kernel.external >= 0 && calls_.contains(kernel.external);
      if (is_of_call) {
        with_kernel_.insert(kernel.external);
      } else if (kernel.correlation >= 0) {
        kernels_of_nobody_.emplace(kernel.correlation, k);
      }
    }
  }

  std::vector<KinetoBatch> find() {
    if (kernels_of_nobody_.empty()) return {};
    size_t next = 0;
    for (const KinetoLaunch& launch : trace_.launches) {
      const auto kernel = kernels_of_nobody_.find(launch.correlation);
      if (kernel == kernels_of_nobody_.end()) continue;
      for (; next < trace_.calls.size() && trace_.calls[next].ts_us <= launch.ts_us; ++next) {
        add_call(next);
      }
      add_launch(launch.tid, kernel->second);
    }
    return std::move(batches_);
  }

 private:
  // What a thread has called since its last kernel.
  struct Thread {
    std::vector<size_t> calls;
    size_t batch = kNone;  // of that kernel, where nothing was called since
  };

  void add_call(size_t number) {
    const KinetoRecord& call = trace_.calls[number];
    if (!torch_kind_of(call.collective)) return;  // "wait" and the like
    Thread& thread = threads_[call.tid];
    thread.batch = kNone;
    if (call.external >= 0 && with_kernel_.contains(call.external)) {
      thread.calls.clear();
    } else {
      thread.calls.push_back(number);
    }
  }

  void add_launch(int64_t tid, size_t kernel) {
    Thread& thread = threads_[tid];
    if (!thread.calls.empty()) {
      thread.batch = batches_.size();
      batches_.push_back({std::move(thread.calls), {}});
      thread.calls.clear();
    }
    if (thread.batch != kNone) batches_[thread.batch].kernels.push_back(kernel);
  }

  const KinetoTrace& trace_;
  std::unordered_set<int64_t> calls_;                      // External ids
  std::unordered_set<int64_t> with_kernel_;                // of them
  std::unordered_map<int64_t, size_t> kernels_of_nobody_;  // by correlation
  std::map<int64_t, Thread> threads_;
  std::vector<KinetoBatch> batches_;
};

}  // namespace

std::vector<KinetoBatch> batches_of(const KinetoTrace& trace) { return BatchFinder(trace).find(); }

}  // namespace rollcall::trace
