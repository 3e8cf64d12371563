#include "core/gpu/marks.h"

#include <string.h>

#include <optional>

#include "core/gpu/in_context.h"

namespace rollcall::gpu {

namespace {

// The nodes that what is captured next on the stream will wait for.
class Dependencies {
 public:
  Dependencies(const Driver& driver, Stream stream) noexcept : driver_(driver), stream_(stream) {}

  // Refused where an edge is more than a node (the stream waits for an event of a programmatic
  // launch): it could not be put back.
  int read(uint64_t wanted) noexcept {
    int status = 0;
    uint64_t capture = 0;
    Graph graph = nullptr;
    const Node* nodes = nullptr;
    const int result = driver_.stream_graph(stream_, &status, &capture, &graph, &nodes, &count_);
    if (result == kLossyQuery) return kMarkRefused;
    if (result != kSuccess) return result;
    const bool is_another = wanted != 0 && capture != wanted;
    if (status != kCaptureActive || is_another || count_ > kMarkDependenciesMax) {
      return kMarkRefused;
    }
    if (count_ != 0) memcpy(nodes_, nodes, count_ * sizeof(Node));
    return kSuccess;
  }
  // The stream waits for them again, and no more.
  int put_back() noexcept { return set(count_); }
  // The same, and for the node as well.
  int put_with(Node node) noexcept {
    nodes_[count_] = node;
    return set(count_ + 1);
  }
  int put_none() noexcept { return set(0); }
  // Of a stream that has just captured a node.
  Node only() const noexcept { return count_ == 1 ? nodes_[0] : nullptr; }

 private:
  int set(uint64_t count) noexcept {
    return driver_.stream_set_dependencies(stream_, count != 0 ? nodes_ : nullptr, count,
                                           kSetDependencies);
  }

  const Driver& driver_;
  Stream stream_;
  Node nodes_[kMarkDependenciesMax + 1];
  uint64_t count_ = 0;
};

// Captures the write of one word; `node` is it.
int capture_write(const Driver& driver, Stream stream, uint64_t address, uint32_t value,
                  Node& node) noexcept {
  if (const int result = driver.stream_fill(address, value, 1, stream); result != kSuccess) {
    return result;
  }
  Dependencies now(driver, stream);
  if (const int result = now.read(0); result != kSuccess) return result;
  node = now.only();
  return node != nullptr ? kSuccess : kMarkRefused;
}

// A thread that drives several GPUs may be in another one's context: a memset belongs to the
// current one.
class InContextOf {
 public:
  InContextOf(const Driver& driver, Stream stream) noexcept {
    ContextHandle own = nullptr;
    ContextHandle current = nullptr;
    const bool are_known = driver.stream_get_context(stream, &own) == kSuccess &&
                           driver.context_get_current(&current) == kSuccess;
    if (are_known && own != nullptr && own != current) inside_.emplace(driver, own);
  }

 private:
  std::optional<InContext> inside_;
};

}  // namespace

int put_mark(const Driver& driver, Stream stream, uint64_t capture, uint64_t address,
             uint32_t value, Node& newest) noexcept {
  const InContextOf inside(driver, stream);
  Dependencies before(driver, stream);
  int result = before.read(capture);
  if (result != kSuccess) return result;
  Node node = newest;
  if (node == nullptr) {
    result = before.put_none();
    if (result == kSuccess) result = capture_write(driver, stream, address, 0, node);
  }
  if (result == kSuccess) result = before.put_with(node);
  if (result == kSuccess) result = capture_write(driver, stream, address, value, node);
  const int put_back = before.put_back();
  if (result == kSuccess) result = put_back;
  if (result == kSuccess) newest = node;
  return result;
}

}  // namespace rollcall::gpu
