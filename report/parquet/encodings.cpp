#include "report/parquet/encodings.h"

#include <algorithm>
#include <bit>

#include "report/parquet/thrift.h"

namespace rollcall::report::parquet {
namespace {

constexpr size_t kBlock = 128;
constexpr size_t kMiniblocks = 4;
constexpr size_t kMiniblock = kBlock / kMiniblocks;
constexpr size_t kGroup = 8;  // values that bit-packing takes together

// Values of up to 64 bits, the lowest bit of the first value first.
class BitPacker {
 public:
  explicit BitPacker(std::string& bytes) : bytes_(bytes) {}
  void add(uint64_t value, unsigned width) {
    for (unsigned done = 0; done < width;) {
      const unsigned taken = std::min(8 - filled_, width - done);
      const uint64_t part = (value >> done) & ((1u << taken) - 1);
      byte_ |= static_cast<unsigned>(part << filled_);
      filled_ += taken;
      done += taken;
      if (filled_ == 8) flush();
    }
  }
  void flush() {
    if (filled_ == 0) return;
    bytes_.push_back(static_cast<char>(byte_));
    byte_ = filled_ = 0;
  }

 private:
  std::string& bytes_;
  unsigned byte_ = 0;
  unsigned filled_ = 0;
};

size_t run_at(const std::vector<uint32_t>& values, size_t at) {
  size_t end = at + 1;
  while (end < values.size() && values[end] == values[at]) ++end;
  return end - at;
}

void append_run(std::string& bytes, uint32_t value, size_t count, unsigned width) {
  append_varint(bytes, count << 1);
  for (unsigned shift = 0; shift < width; shift += 8) {
    bytes.push_back(static_cast<char>(value >> shift));
  }
}

// The last group is filled up with zeros, which readers know by the number of values.
void append_groups(std::string& bytes, const std::vector<uint32_t>& values, size_t begin,
                   size_t end, unsigned width) {
  const size_t groups = (end - begin + kGroup - 1) / kGroup;
  append_varint(bytes, groups << 1 | 1);
  BitPacker packer(bytes);
  for (size_t at = begin; at < begin + groups * kGroup; ++at) {
    packer.add(at < end ? values[at] : 0, width);
  }
  packer.flush();
}

void append_block(std::string& bytes, const std::vector<uint64_t>& deltas) {
  // As signed numbers, which is what wraps around least.
  int64_t smallest = INT64_MAX;
  for (const uint64_t delta : deltas) smallest = std::min(smallest, static_cast<int64_t>(delta));
  append_zigzag(bytes, smallest);
  unsigned widths[kMiniblocks] = {};
  for (size_t at = 0; at < deltas.size(); ++at) {
    unsigned& width = widths[at / kMiniblock];
    width = std::max(width, bits_for(deltas[at] - static_cast<uint64_t>(smallest)));
  }
  for (const unsigned width : widths) bytes.push_back(static_cast<char>(width));
  for (size_t first = 0; first < deltas.size(); first += kMiniblock) {
    BitPacker packer(bytes);
    for (size_t at = first; at < first + kMiniblock; ++at) {
      const uint64_t value = at < deltas.size() ? deltas[at] - static_cast<uint64_t>(smallest) : 0;
      packer.add(value, widths[first / kMiniblock]);
    }
    packer.flush();
  }
}

}  // namespace

unsigned bits_for(uint64_t largest) { return static_cast<unsigned>(std::bit_width(largest)); }

std::string hybrid_coded(const std::vector<uint32_t>& values, unsigned width) {
  std::string bytes;
  size_t packed_from = 0;
  for (size_t at = 0; at < values.size();) {
    size_t count = run_at(values, at);
    // A run begins where a group ends.
    const size_t behind = (at - packed_from) % kGroup;
    const size_t lent = behind == 0 ? 0 : std::min(kGroup - behind, count);
    if (count - lent < kGroup) {
      at += count;
      continue;
    }
    at += lent;
    count -= lent;
    if (at > packed_from) append_groups(bytes, values, packed_from, at, width);
    append_run(bytes, values[at], count, width);
    at += count;
    packed_from = at;
  }
  if (packed_from < values.size()) {
    append_groups(bytes, values, packed_from, values.size(), width);
  }
  return bytes;
}

std::string delta_coded(const std::vector<int64_t>& values) {
  std::string bytes;
  append_varint(bytes, kBlock);
  append_varint(bytes, kMiniblocks);
  append_varint(bytes, values.size());
  append_zigzag(bytes, values.empty() ? 0 : values.front());
  for (size_t first = 1; first < values.size(); first += kBlock) {
    std::vector<uint64_t> deltas;
    for (size_t at = first; at < std::min(first + kBlock, values.size()); ++at) {
      deltas.push_back(static_cast<uint64_t>(values[at]) - static_cast<uint64_t>(values[at - 1]));
    }
    append_block(bytes, deltas);
  }
  return bytes;
}

}  // namespace rollcall::report::parquet
