#include "core/capture/op_block.h"

#include <cstring>
#include <new>

#include "core/base/crc32c.h"
#include "core/format/record_check.h"

namespace rollcall::capture {

void seal_block(std::span<uint8_t> block, BlockType type, uint32_t records, uint64_t first_ticket,
                uint64_t last_ticket) noexcept {
  const auto body_bytes = static_cast<uint32_t>(block.size() - sizeof(BlockHeader));
  BlockHeader header{};
  header.magic = kBlockMagic;
  header.type = type;
  header.codec = BlockCodec::plain;
  header.body_bytes = body_bytes;
  header.raw_bytes = body_bytes;
  header.record_count = records;
  header.body_crc = crc32c(block.data() + sizeof(BlockHeader), body_bytes);
  header.first_ticket = first_ticket;
  header.last_ticket = last_ticket;
  header.header_crc = crc32c(&header, offsetof(BlockHeader, header_crc));
  std::memcpy(block.data(), &header, sizeof(header));
}

void OpBlock::begin(uint32_t time_shift) noexcept {
  encoder_ = new (encoder_storage_) OpEncoder(codec_, time_shift);
  clear();
}

void OpBlock::clear() noexcept {
  records_ = 0;
  bytes_ = sizeof(BlockHeader);
  encoder_->begin_block();
}

bool OpBlock::add(const OpRecord& record) noexcept {
  // What no recorder writes does not reach history.
  if (records_ == kBlockRecordsMax || !record_is_valid(record, RecordBounds{})) return false;
  const size_t bytes = encoder_->encode(record, std::span(block_).subspan(bytes_));
  if (bytes == 0) return false;
  if (records_ == 0) first_ticket_ = ticket_of(record.publish);
  last_ticket_ = ticket_of(record.publish);
  bytes_ += bytes;
  ++records_;
  return true;
}

std::span<const uint8_t> OpBlock::seal(BlockType type) noexcept {
  if (records_ == 0) return {};
  const std::span<uint8_t> block = std::span(block_).first(bytes_);
  seal_block(block, type, records_, first_ticket_, last_ticket_);
  return block;
}

}  // namespace rollcall::capture
