// Packed files as the bytes they unpack to.
//
// Each library is driven by one small class with the same two questions: how many bytes came of how
// many, and did it fail. What they share (the buffer, several packed files one behind the other,
// the bound) is written once, in UnpackedStream.
#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "trace/import/byte_stream.h"

namespace rollcall::trace {
namespace {

// What lies between the packed bytes and the unpacked ones.
struct Window {
  const uint8_t* in = nullptr;
  size_t in_bytes = 0;
  uint8_t* out = nullptr;
  size_t out_bytes = 0;
};

enum class Step : uint8_t {
  going_on,
  member_ended,  // another may follow
  damaged
};

class Unpacker {
 public:
  virtual ~Unpacker() = default;
  // Moves the window on.
  virtual Step step(Window& window) = 0;
  // Begins with the next packed file of several.
  virtual bool restart() = 0;
  virtual const char* name() const = 0;
};

class GzipUnpacker final : public Unpacker {
 public:
  GzipUnpacker() { is_open_ = ::inflateInit2(&state_, kGzip) == Z_OK; }
  ~GzipUnpacker() override {
    if (is_open_) ::inflateEnd(&state_);
  }
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  Step step(Window& window) override {
    if (!is_open_) return Step::damaged;
    state_.next_in = const_cast<Bytef*>(window.in);
    state_.avail_in = static_cast<uInt>(std::min<size_t>(window.in_bytes, UINT32_MAX));
    state_.next_out = window.out;
    state_.avail_out = static_cast<uInt>(std::min<size_t>(window.out_bytes, UINT32_MAX));
    const int result = ::inflate(&state_, Z_NO_FLUSH);
    window.in_bytes -= static_cast<size_t>(state_.next_in - window.in);
    window.out_bytes -= static_cast<size_t>(state_.next_out - window.out);
    window.in = state_.next_in;
    window.out = state_.next_out;
    if (result == Z_STREAM_END) return Step::member_ended;
    return result == Z_OK || result == Z_BUF_ERROR ? Step::going_on : Step::damaged;
  }
  bool restart() override { return ::inflateReset2(&state_, kGzip) == Z_OK; }
  const char* name() const override { return "gzip"; }

 private:
  static constexpr int kGzip = MAX_WBITS + 16;  // a header of gzip, and no other
  z_stream state_{};
  bool is_open_ = false;
};

class ZstdUnpacker final : public Unpacker {
 public:
  ZstdUnpacker() : state_(::ZSTD_createDStream()) {
    // Beyond that a header alone would make us take gibibytes; zstd itself refuses them likewise.
    constexpr int kWindowLogMax = 27;
    if (state_ != nullptr) ::ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, kWindowLogMax);
  }
  ~ZstdUnpacker() override { ::ZSTD_freeDStream(state_); }
  ZstdUnpacker(const ZstdUnpacker&) = delete;
  ZstdUnpacker& operator=(const ZstdUnpacker&) = delete;

  Step step(Window& window) override {
    if (state_ == nullptr) return Step::damaged;
    ZSTD_inBuffer in{window.in, window.in_bytes, 0};
    ZSTD_outBuffer out{window.out, window.out_bytes, 0};
    const size_t result = ::ZSTD_decompressStream(state_, &out, &in);
    window.in += in.pos;
    window.in_bytes -= in.pos;
    window.out += out.pos;
    window.out_bytes -= out.pos;
    if (::ZSTD_isError(result) != 0) return Step::damaged;
    return result == 0 ? Step::member_ended : Step::going_on;
  }
  bool restart() override { return ::ZSTD_isError(::ZSTD_initDStream(state_)) == 0; }
  const char* name() const override { return "zstd"; }

 private:
  ZSTD_DStream* state_;
};

class XzUnpacker final : public Unpacker {
 public:
  XzUnpacker() { is_open_ = open(); }
  ~XzUnpacker() override { ::lzma_end(&state_); }
  XzUnpacker(const XzUnpacker&) = delete;
  XzUnpacker& operator=(const XzUnpacker&) = delete;

  Step step(Window& window) override {
    if (!is_open_) return Step::damaged;
    state_.next_in = window.in;
    state_.avail_in = window.in_bytes;
    state_.next_out = window.out;
    state_.avail_out = window.out_bytes;
    const lzma_ret result = ::lzma_code(&state_, LZMA_RUN);
    window.in = state_.next_in;
    window.in_bytes = state_.avail_in;
    window.out = state_.next_out;
    window.out_bytes = state_.avail_out;
    if (result == LZMA_STREAM_END) return Step::member_ended;
    return result == LZMA_OK || result == LZMA_BUF_ERROR ? Step::going_on : Step::damaged;
  }
  bool restart() override { return is_open_ = open(); }
  const char* name() const override { return "xz"; }

 private:
  // `xz -9` needs 65 MiB.
  static constexpr uint64_t kMemoryMax = 128 << 20;
  bool open() { return ::lzma_stream_decoder(&state_, kMemoryMax, 0) == LZMA_OK; }
  lzma_stream state_ = LZMA_STREAM_INIT;
  bool is_open_ = false;
};

bool begins_with(std::span<const uint8_t> head, std::string_view magic) {
  return head.size() >= magic.size() && std::memcmp(head.data(), magic.data(), magic.size()) == 0;
}

std::unique_ptr<Unpacker> unpacker_of(std::span<const uint8_t> head) {
  // The third byte of gzip is its only method.
  if (begins_with(head, {"\x1f\x8b\x08", 3})) return std::make_unique<GzipUnpacker>();
  if (begins_with(head, "\x28\xb5\x2f\xfd")) return std::make_unique<ZstdUnpacker>();
  if (begins_with(head, {"\xfd"
                         "7zXZ\0",
                         6}))
    return std::make_unique<XzUnpacker>();
  return nullptr;
}

class UnpackedStream final : public ByteStream {
 public:
  UnpackedStream(std::unique_ptr<ByteStream> inner, std::unique_ptr<Unpacker> unpacker)
      : inner_(std::move(inner)), unpacker_(std::move(unpacker)), packed_(kBufferBytes) {}

  size_t read(void* to, size_t bytes) override {
    window_.out = static_cast<uint8_t*>(to);
    window_.out_bytes = bytes;
    while (window_.out_bytes != 0 && !has_ended_) advance();
    const size_t got = bytes - window_.out_bytes;
    unpacked_bytes_ += got;
    if (unpacked_bytes_ > kUnpackedBytesSure &&
        unpacked_bytes_ / kUnpackedRatioMax > std::max<uint64_t>(packed_bytes_, 1)) {
      is_refused_ = has_ended_ = true;
    }
    return is_refused_ ? 0 : got;
  }

  bool is_refused() const override { return is_refused_; }
  std::string complaint() const override {
    if (is_refused_) {
      return fmt::format(
          "is packed with {}, and {} bytes of it unpack to more than {} MiB, which "
          "no log does; it was not read. If it is one, unpack it and name the result",
          unpacker_->name(), packed_bytes_, unpacked_bytes_ >> 20);
    }
    if (!trouble_.empty()) return trouble_;
    return inner_->complaint();
  }

 private:
  static constexpr size_t kBufferBytes = 1 << 18;

  void advance() {
    if (window_.in_bytes == 0 && !source_ended_) refill();
    if (is_between_ && window_.in_bytes == 0) {
      has_ended_ = true;
      return;
    }
    if (is_between_ && !begin_next()) return;
    const size_t in_before = window_.in_bytes;
    const size_t out_before = window_.out_bytes;
    const Step step = unpacker_->step(window_);
    if (step == Step::member_ended) {
      is_between_ = true;
    } else if (step == Step::damaged) {
      end("is damaged");
    } else if (source_ended_ && in_before == window_.in_bytes && out_before == window_.out_bytes) {
      end("ends in the middle, as when a copy broke off or the writer was killed");
    }
  }

  // False: what stands behind a packed file is not another one.
  bool begin_next() {
    is_between_ = false;
    // Files are padded with zeros on tapes.
    while (window_.in_bytes != 0 && *window_.in == 0) {
      ++window_.in;
      --window_.in_bytes;
    }
    if (window_.in_bytes == 0) {
      is_between_ = true;
      return false;
    }
    if (unpacker_->restart()) return true;
    end("is followed by something else");
    return false;
  }

  void refill() {
    const size_t got = inner_->read(packed_.data(), packed_.size());
    source_ended_ = got < packed_.size();
    packed_bytes_ += got;
    window_.in = packed_.data();
    window_.in_bytes = got;
  }

  void end(const char* trouble) {
    has_ended_ = true;
    trouble_ = fmt::format("is packed with {} and {}; what comes before that was read",
                           unpacker_->name(), trouble);
  }

  std::unique_ptr<ByteStream> inner_;
  std::unique_ptr<Unpacker> unpacker_;
  std::vector<uint8_t> packed_;
  Window window_;
  std::string trouble_;
  uint64_t packed_bytes_ = 0;
  uint64_t unpacked_bytes_ = 0;
  bool source_ended_ = false;
  bool is_between_ = false;  // two packed files
  bool has_ended_ = false;
  bool is_refused_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> unpacked(std::unique_ptr<ByteStream> inner) {
  constexpr size_t kMagicBytes = 6;
  auto stream = std::make_unique<PeekStream>(std::move(inner));
  std::unique_ptr<Unpacker> unpacker = unpacker_of(stream->peek(kMagicBytes));
  if (unpacker == nullptr) return stream;
  return std::make_unique<UnpackedStream>(std::move(stream), std::move(unpacker));
}

}  // namespace rollcall::trace
