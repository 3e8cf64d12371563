// Bytes that come one after the other: of a file, a pipe, memory, or of what any of these unpacks
// to.
//
// Unlike trace/bytes.h, which reads where it is asked to, this goes forward only and need not know
// its size, so a text of 10 GiB or the standard input costs a buffer. A stream never throws: it
// ends early, and says why in `complaint()`.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rollcall::trace {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Bytes copied; fewer than asked at the end only.
  virtual size_t read(void* to, size_t bytes) = 0;
  // Empty: all of it came, as far as can be told. Else what is the matter, as an Issue says it.
  virtual std::string complaint() const { return ""; }
  // What came is not to be used at all: see complaint().
  virtual bool is_refused() const { return false; }
};

// Told after each piece how many bytes came with it, as they are on the disk. May be empty.
using OnBytes = std::function<void(uint64_t)>;

// Somebody's descriptor, such as standard input; holes of files (trace/bytes.h) are passed over.
class DescriptorStream final : public ByteStream {
 public:
  // `owned`: it is closed with the object.
  DescriptorStream(int descriptor, bool owned, OnBytes on_bytes = {});
  ~DescriptorStream() override;
  DescriptorStream(const DescriptorStream&) = delete;
  DescriptorStream& operator=(const DescriptorStream&) = delete;
  size_t read(void* to, size_t bytes) override;
  std::string complaint() const override;

 private:
  void pass_hole();

  int descriptor_;
  bool owned_;
  OnBytes on_bytes_;
  bool has_holes_ = false;
  uint64_t offset_ = 0;
  int error_ = 0;
};

// The bytes must outlive it.
class MemoryStream final : public ByteStream {
 public:
  explicit MemoryStream(std::span<const uint8_t> bytes) : rest_(bytes) {}
  size_t read(void* to, size_t bytes) override;

 private:
  std::span<const uint8_t> rest_;
};

// Another stream whose beginning can be looked at first.
class PeekStream final : public ByteStream {
 public:
  explicit PeekStream(std::unique_ptr<ByteStream> inner) : inner_(std::move(inner)) {}
  // The next bytes, as many as there are up to `bytes`; they are still to be read.
  std::span<const uint8_t> peek(size_t bytes);
  size_t read(void* to, size_t bytes) override;
  std::string complaint() const override { return inner_->complaint(); }
  bool is_refused() const override { return inner_->is_refused(); }

 private:
  std::unique_ptr<ByteStream> inner_;
  std::vector<uint8_t> ahead_;
  size_t taken_ = 0;  // of `ahead_`
};

// Unpacks gzip, zstd and xz by their first bytes, and hands on everything else as it is. Files that
// were put together of several packed ones are read through. What ends in the middle gives what
// comes before, and a complaint.
std::unique_ptr<ByteStream> unpacked(std::unique_ptr<ByteStream> inner);

// A few kilobytes can unpack to terabytes. What unpacks to more than this and to more than
// kUnpackedRatioMax times its size is refused; gzip comes to 1032 times at most, and logs to 10 to
// 60 times.
inline constexpr uint64_t kUnpackedBytesSure = 1ull << 28;
inline constexpr uint64_t kUnpackedRatioMax = 500;

// UTF-16 of either order, with or without its mark, as UTF-8; a mark of UTF-8 is taken off. Other
// bytes as they are. PowerShell's ">" writes UTF-16.
std::unique_ptr<ByteStream> as_utf8(std::unique_ptr<ByteStream> inner);

}  // namespace rollcall::trace
