#include "trace/import/byte_stream.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rollcall::trace {
namespace {

constexpr uint64_t kStatBlockBytes = 512;        // of st_blocks, whatever the file system's are
constexpr uint64_t kHolesWorthAsking = 1 << 20;  // below that reading zeros is as fast

}  // namespace

DescriptorStream::DescriptorStream(int descriptor, bool owned, OnBytes on_bytes)
    : descriptor_(descriptor), owned_(owned), on_bytes_(std::move(on_bytes)) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) return;
  const auto stored = static_cast<uint64_t>(status.st_blocks) * kStatBlockBytes;
  has_holes_ = static_cast<uint64_t>(status.st_size) > stored + kHolesWorthAsking;
  // Standard input may stand anywhere in a file.
  const off_t at = ::lseek(descriptor_, 0, SEEK_CUR);
  offset_ = at > 0 ? static_cast<uint64_t>(at) : 0;
}

DescriptorStream::~DescriptorStream() {
  if (owned_) ::close(descriptor_);
}

// A log that logrotate cut while it was open begins with a hole as long as what was cut.
void DescriptorStream::pass_hole() {
  const off_t data = ::lseek(descriptor_, static_cast<off_t>(offset_), SEEK_DATA);
  if (data >= 0) {
    offset_ = static_cast<uint64_t>(data);
  } else if (errno == ENXIO) {
    offset_ = static_cast<uint64_t>(std::max<off_t>(::lseek(descriptor_, 0, SEEK_END), 0));
  }
  if (::lseek(descriptor_, static_cast<off_t>(offset_), SEEK_SET) < 0) has_holes_ = false;
}

size_t DescriptorStream::read(void* to, size_t bytes) {
  if (has_holes_) pass_hole();
  size_t done = 0;
  while (done < bytes && error_ == 0) {
    const ssize_t got = ::read(descriptor_, static_cast<char*>(to) + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error_ = errno;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  offset_ += done;
  if (on_bytes_) on_bytes_(done);
  return done;
}

std::string DescriptorStream::complaint() const {
  if (error_ == 0) return "";
  return fmt::format("could not be read beyond its first {} bytes: {}", offset_,
                     std::strerror(error_));
}

size_t MemoryStream::read(void* to, size_t bytes) {
  const size_t taken = std::min(bytes, rest_.size());
  if (taken != 0) std::memcpy(to, rest_.data(), taken);
  rest_ = rest_.subspan(taken);
  return taken;
}

std::span<const uint8_t> PeekStream::peek(size_t bytes) {
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(taken_));
  taken_ = 0;
  const size_t held = ahead_.size();
  if (held < bytes) {
    ahead_.resize(bytes);
    ahead_.resize(held + inner_->read(ahead_.data() + held, bytes - held));
  }
  return std::span<const uint8_t>(ahead_).first(std::min(bytes, ahead_.size()));
}

size_t PeekStream::read(void* to, size_t bytes) {
  const size_t held = std::min(bytes, ahead_.size() - taken_);
  if (held != 0) std::memcpy(to, ahead_.data() + taken_, held);
  taken_ += held;
  if (held == bytes) return held;
  return held + inner_->read(static_cast<uint8_t*>(to) + held, bytes - held);
}

}  // namespace rollcall::trace
