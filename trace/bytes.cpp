#include "trace/bytes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "trace/regular_file.h"

namespace rollcall::trace {

size_t MemorySource::read(uint64_t offset, void* to, size_t bytes) const {
  if (bytes == 0 || offset >= bytes_.size()) return 0;
  const size_t taken = std::min<uint64_t>(bytes, bytes_.size() - offset);
  std::memcpy(to, bytes_.data() + offset, taken);
  return taken;
}

FileSource::FileSource(const std::string& path) : FileSource(OpenedFile{open_regular(path)}) {}

FileSource::FileSource(OpenedFile file) : descriptor_(file.descriptor) {
  if (descriptor_ < 0) {
    error_ = -descriptor_;
    return;
  }
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    error_ = errno;
  } else {
    constexpr uint64_t kBlockBytes = 512;  // of st_blocks, whatever the file system's are
    size_ = static_cast<uint64_t>(status.st_size);
    stored_bytes_ = std::min(size_, static_cast<uint64_t>(status.st_blocks) * kBlockBytes);
  }
}

uint64_t FileSource::data_from(uint64_t offset) const {
  constexpr uint64_t kHolesWorthAsking = 64 << 20;
  if (size_ - stored_bytes_ < kHolesWorthAsking) return offset;
  const off_t data = ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_DATA);
  if (data >= 0) return static_cast<uint64_t>(data);
  return errno == ENXIO ? std::max(offset, size_) : offset;
}

FileSource::~FileSource() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t FileSource::read(uint64_t offset, void* to, size_t bytes) const {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(descriptor_, static_cast<char*>(to) + done, bytes - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

size_t ReadAheadSource::read(uint64_t offset, void* to, size_t bytes) const {
  if (bytes == 0 || offset >= size()) return 0;
  if (bytes >= kPieceBytes) return source_.read(offset, to, bytes);
  if (offset < begin_ || offset + bytes > begin_ + buffer_.size()) {
    begin_ = offset;
    buffer_.resize(std::min<uint64_t>(kPieceBytes, size() - offset));
    buffer_.resize(source_.read(offset, buffer_.data(), buffer_.size()));
  }
  const size_t taken = std::min<size_t>(bytes, buffer_.size() - (offset - begin_));
  if (taken != 0) std::memcpy(to, buffer_.data() + (offset - begin_), taken);
  return taken;
}

}  // namespace rollcall::trace
