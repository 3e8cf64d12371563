#include "trace/segment_reader.h"

#include <fmt/format.h>
#include <zstd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "core/base/crc32c.h"
#include "core/format/header_check.h"
#include "core/format/op_codec.h"

namespace rollcall::trace {
namespace {

struct CodecStorage {
  alignas(64) std::byte bytes[kOpCodecStateBytes];
};

// One per thread, and never cleared: a run has thousands of segments, and every block begins with
// an empty state anyway.
std::span<std::byte> codec_storage() {
  static thread_local const std::unique_ptr<CodecStorage> storage(new CodecStorage);
  return storage->bytes;
}

void report(std::vector<Issue>& issues, const std::string& path, std::string text,
            uint64_t lost = 0) {
  issues.push_back({.file = path, .text = std::move(text), .lost = lost});
}

class BlockReader {
 public:
  BlockReader(const SegmentHeader& header, const SegmentSink& sink)
      : decoder_(codec_storage(), header.time_shift), sink_(sink) {}

  // Records delivered.
  uint64_t deliver(const BlockHeader& block, std::span<const uint8_t> stored) {
    std::span<const uint8_t> body = stored;
    if (block.codec == BlockCodec::zstd) {
      raw_.resize(block.raw_bytes);
      const size_t got = ZSTD_decompress(raw_.data(), raw_.size(), stored.data(), stored.size());
      if (ZSTD_isError(got) || got != block.raw_bytes) return 0;
      body = raw_;
    } else if (block.codec != BlockCodec::plain) {
      return 0;
    }
    return block.type == BlockType::digests ? deliver_digests(block, body)
                                            : deliver_ops(block, body);
  }

 private:
  uint64_t deliver_ops(const BlockHeader& block, std::span<const uint8_t> body) {
    decoder_.begin_block();
    uint64_t delivered = 0;
    OpRecord op{};
    for (; delivered < block.record_count; ++delivered) {
      const size_t taken =
          sink_.with_times ? decoder_.decode(body, op) : decoder_.decode_timeless(body, op);
      if (taken == 0 || taken > body.size()) break;
      body = body.subspan(taken);
      if (static_cast<size_t>(op.kind) >= kOpKinds) break;
      sink_.op(op);
    }
    return delivered;
  }

  uint64_t deliver_digests(const BlockHeader& block, std::span<const uint8_t> body) {
    uint64_t delivered = 0;
    for (; delivered < block.record_count; ++delivered) {
      DigestRecord digest{};
      if (body.size() < sizeof digest) break;
      std::memcpy(&digest, body.data(), sizeof digest);
      body = body.subspan(sizeof digest);
      if (sink_.digest) sink_.digest(digest);
    }
    return delivered;
  }

  OpDecoder decoder_;
  const SegmentSink& sink_;
  std::vector<uint8_t> raw_;
};

bool is_wanted(const BlockHeader& block, const SegmentSink& sink) {
  switch (block.type) {
    case BlockType::ops:
    case BlockType::late_ops:
      return sink.op && block.last_ticket >= sink.first_ticket_wanted;
    case BlockType::digests:
      return static_cast<bool>(sink.digest);
  }
  return false;
}

}  // namespace

bool read_segment(const ByteSource& file, const std::string& path,
                  const std::function<bool(const SegmentHeader&)>& accept, const SegmentSink& sink,
                  std::vector<Issue>& issues) {
  static thread_local std::vector<std::byte> read_ahead;
  const ReadAheadSource source(file, read_ahead);
  std::array<std::byte, sizeof(SegmentHeader)> bytes{};
  const size_t header_bytes = source.read(0, bytes.data(), bytes.size());
  SegmentHeader header{};
  const HeaderVerdict verdict =
      judge_segment_header(std::span<const std::byte>(bytes).first(header_bytes), header);
  if (verdict != HeaderVerdict::fine) {
    issues.push_back({.file = path,
                      .text = fmt::format("{}; the history in it is lost", sentence_of(verdict)),
                      .lost = 0,
                      .unusable = true});
    return false;
  }
  if (accept && !accept(header)) return false;

  BlockReader reader(header, sink);
  std::vector<uint8_t> body;
  uint64_t offset = sizeof header;
  while (offset < source.size()) {
    BlockHeader block{};
    const size_t got = source.read(offset, &block, sizeof block);
    if (got != sizeof block || !block_header_is_valid(block, source.size() - offset)) {
      report(issues, path,
             fmt::format("the block at byte {} is cut off or damaged; the {} bytes from there on "
                         "are lost",
                         offset, source.size() - offset));
      break;
    }
    offset += sizeof block;
    const uint64_t end = offset + block.body_bytes;
    if (is_wanted(block, sink)) {
      const bool is_known = block.codec == BlockCodec::plain || block.codec == BlockCodec::zstd;
      // Of an unknown codec the body may be as large as it likes.
      body.resize(is_known ? block.body_bytes : 0);
      const bool sound = is_known && source.read(offset, body.data(), body.size()) == body.size() &&
                         crc32c(body.data(), body.size()) == block.body_crc;
      const uint64_t delivered = sound ? reader.deliver(block, body) : 0;
      if (delivered != block.record_count) {
        report(
            issues, path,
            fmt::format("the block at byte {} is damaged; {} of its {} records are lost",
                        offset - sizeof block, block.record_count - delivered, block.record_count),
            block.record_count - delivered);
      }
    }
    offset = end;
  }
  return true;
}

}  // namespace rollcall::trace
