// Where a reader's bytes come from: a file, or memory (tests, fuzzers, archives).
//
// A read copies; nothing is ever judged in place, because the writer may be alive. Reading beyond
// the end gives fewer bytes, never an error: truncation is the reader's ordinary case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rollcall::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Bytes copied; fewer than asked at the end, or where the disk fails.
  virtual size_t read(uint64_t offset, void* to, size_t bytes) const = 0;
  virtual uint64_t size() const = 0;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t read(uint64_t offset, void* to, size_t bytes) const override;
  uint64_t size() const override { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

// Owns the descriptor. `error()` is the errno of a failed open, 0 when open.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  size_t read(uint64_t offset, void* to, size_t bytes) const override;
  uint64_t size() const override { return size_; }
  int error() const { return error_; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  int error_ = 0;
  uint64_t size_ = 0;
};

}  // namespace rollcall::trace
