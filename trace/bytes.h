// Where a reader's bytes come from: a file, or memory (tests, fuzzers, archives).
//
// A read copies; nothing is ever judged in place, because the writer may be alive. Reading beyond
// the end gives fewer bytes, never an error: truncation is the reader's ordinary case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rollcall::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Bytes copied; fewer than asked at the end, or where the disk fails.
  virtual size_t read(uint64_t offset, void* to, size_t bytes) const = 0;
  virtual uint64_t size() const = 0;
  // Where data begins at or behind `offset`, if the source knows: in front of that there are zeros
  // only. `offset` itself where it does not know.
  virtual uint64_t data_from(uint64_t offset) const { return offset; }
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t read(uint64_t offset, void* to, size_t bytes) const override;
  uint64_t size() const override { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

// Reads another source in larger pieces: of a file of many small parts, most in one go. `buffer` is
// the caller's, so that it can be used again.
class ReadAheadSource final : public ByteSource {
 public:
  ReadAheadSource(const ByteSource& source, std::vector<std::byte>& buffer)
      : source_(source), buffer_(buffer) {
    buffer_.clear();
  }
  size_t read(uint64_t offset, void* to, size_t bytes) const override;
  uint64_t size() const override { return source_.size(); }

 private:
  static constexpr size_t kPieceBytes = 1 << 16;

  const ByteSource& source_;
  std::vector<std::byte>& buffer_;
  mutable uint64_t begin_ = 0;  // offset of the first byte in the buffer
};

// What open_regular (trace/regular_file.h) returned.
struct OpenedFile {
  int descriptor;  // or an errno negated
};

// A regular file; nothing else is opened. Owns the descriptor. `error()` is the errno of a failed
// open (trace/regular_file.h), 0 when open.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path);
  explicit FileSource(OpenedFile file);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  size_t read(uint64_t offset, void* to, size_t bytes) const override;
  uint64_t size() const override { return size_; }
  int error() const { return error_; }
  int descriptor() const { return descriptor_; }
  // As the file system says, of a file that has 64 MiB of holes and more. Of others it is not
  // asked: it costs a call, and there have been file systems that were wrong about what was just
  // written.
  uint64_t data_from(uint64_t offset) const override;
  // What it takes on the disk, or its size where that is less.
  uint64_t stored_bytes() const { return stored_bytes_; }

 private:
  int descriptor_ = -1;
  int error_ = 0;
  uint64_t size_ = 0;
  uint64_t stored_bytes_ = 0;
};

}  // namespace rollcall::trace
