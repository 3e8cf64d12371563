#include "core/gpu/words.h"

#include <sys/mman.h>

#include <algorithm>

#include "core/base/atomic_word.h"
#include "core/base/text.h"
#include "core/gpu/marks.h"

namespace rollcall::gpu {

bool Words::device_can() const noexcept {
  int device = 0;
  int can = 0;
  return driver_->context_get_device(&device) == kSuccess &&
         driver_->device_get_attribute(&can, kCanWrite64, device) == kSuccess && can != 0;
}

bool Words::register_memory(void* memory) noexcept {
  const unsigned flags = kRegisterPortable | kRegisterMapped;
  refusal_ = driver_->host_register(memory, bytes_, flags);
  if (refusal_ != kSuccess) return false;
  refusal_ = driver_->host_device_pointer(&device_address_, memory, 0);
  if (refusal_ != kSuccess) driver_->host_unregister(memory);
  return refusal_ == kSuccess;
}

bool Words::register_shadow() noexcept {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  // A forked child must not share what the GPU writes to.
  madvise(memory, bytes_, MADV_DONTFORK);
  if (!register_memory(memory)) {
    munmap(memory, bytes_);
    return false;
  }
  shadow_ = static_cast<char*>(memory);
  return true;
}

// On a stream of our own: what it can do, a capture of the job's can.
bool Words::survives_capture() noexcept {
  Stream stream = nullptr;
  refusal_ = driver_->stream_create(&stream, kNonBlockingStream);
  if (refusal_ != kSuccess) return false;
  refusal_ = driver_->begin_capture(stream, kCaptureRelaxed);
  bool works = refusal_ == kSuccess;
  if (works) {
    Node newest = nullptr;
    refusal_ = put_mark(*driver_, stream, 0, device_address_, 0, newest);
    Graph graph = nullptr;
    const int ended = driver_->end_capture(stream, &graph);
    if (refusal_ == kSuccess) refusal_ = ended;
    works = refusal_ == kSuccess && graph != nullptr;
    if (graph != nullptr) driver_->graph_destroy(graph);
  }
  driver_->stream_destroy(stream);
  return works;
}

bool Words::give_up(const char* reason) noexcept {
  TextWriter text{std::span<char>(reason_)};
  text.text("none (").text(reason);
  if (refusal_ != kSuccess) text.text(", error ").number(static_cast<unsigned>(refusal_));
  text_ = text.text(")").c_str();
  return false;
}

bool Words::prepare() noexcept {
  if (memory_ == nullptr) return give_up("no room in the file");
  if (!driver_->has_words) return give_up("the driver is too old");
  if (!device_can()) return give_up("the device cannot write words from a stream");
  if (!(may_register_ && register_memory(memory_)) && !register_shadow()) {
    return give_up("the driver registers no memory");
  }
  if (!survives_capture()) return give_up("a capture does not allow the writes");
  text_ = is_direct() ? "gpu" : "copied";
  return true;
}

void Words::copy(GraphEntry* entries, uint32_t count) const noexcept {
  if (shadow_ == nullptr) return;
  for (uint32_t i = 0; i < count; ++i) {
    const auto offset = reinterpret_cast<const char*>(entries + i) - memory_;
    const auto* written = reinterpret_cast<const GraphEntry*>(shadow_ + offset);
    for (uint32_t lane = 0; lane < std::min(load_acquire(entries[i].lanes), kGraphLanesMax);
         ++lane) {
      store_relaxed(entries[i].position[lane], load_relaxed(written->position[lane]));
    }
  }
}

}  // namespace rollcall::gpu
