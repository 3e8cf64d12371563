// Segment files: the history that no longer fits the ring, DIR/<stem>.<index>.segment, <stem> as
// the ring's, index from 000000.
//
// Written by the flusher with write(2), append only, a block at a time; a dying process loses at
// most the block being written, which the reader finds by its length and checksum. A segment refers
// to the communicator and thread tables of the ring file beside it and is of little use without it.
//
//     SegmentHeader, then blocks: BlockHeader, body_bytes bytes, BlockHeader, ...
//
// Block types
//   ops      record_count operations in ticket order, coded (core/format/op_codec.h); every block
//            decodes by itself, so blocks can be skipped
//   late_ops the same, for operations that were in flight when their turn came; tickets are older
//            than those of the blocks before it
//   digests  DigestRecord[record_count]
//
// What went into CUDA graphs is written once more, to DIR/<stem>.<index>.captured, files of the
// same layout with blocks of ops only: it outlives the segments beside it.
//
// Flushing is by need, not by time: the ring always holds the newest records, so a block is written
// when it is full (kBlockRecordsMax, or a quarter of a small ring), and at an orderly exit.
//
// A digest is a running 64-bit hash over (kind, count, datatype, reduction, root) of a
// communicator's collectives, taken when seq is a multiple of kDigestPeriod: ranks whose digests
// agree at a position called the same sequence up to it (2^-64), so a reader need not decode what
// lies before. It covers calls seen by the recorder; `gap` says that some were lost before, and
// then it proves nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/base/limits.h"

namespace rollcall {

inline constexpr uint64_t kSegmentMagic = 0x4d474553434c4c52;  // "RLLCSEGM"
inline constexpr uint32_t kSegmentVersion = 1;
inline constexpr uint32_t kSegmentVersionOldest = 1;
inline constexpr uint32_t kBlockMagic = 0x4b4c4252;  // "RBLK"

struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t endian_mark;
  uint32_t pid;
  uint32_t index;
  uint64_t start_time_ticks;  // of the process, as in the ring's header
  uint64_t run_id;
  uint32_t time_shift;  // coded times are ticks >> time_shift
  uint32_t reserved0;
  uint64_t reserved[2];
};
static_assert(sizeof(SegmentHeader) == 64);
static_assert(std::has_unique_object_representations_v<SegmentHeader>);

enum class BlockType : uint8_t { ops = 1, late_ops = 2, digests = 3 };
// `zstd` is written by `rollcall pack` only: the recorder carries no compression library into the
// job.
enum class BlockCodec : uint8_t { plain = 0, zstd = 1 };

struct BlockHeader {
  uint32_t magic;
  BlockType type;
  BlockCodec codec;
  uint16_t reserved0;
  uint32_t body_bytes;  // as stored
  uint32_t raw_bytes;   // after undoing the codec; = body_bytes for plain
  uint32_t record_count;
  uint32_t body_crc;  // CRC-32C of the stored body
  uint64_t first_ticket;
  uint64_t last_ticket;
  uint32_t header_crc;  // CRC-32C of the fields above
  uint32_t reserved1;
};
static_assert(sizeof(BlockHeader) == 48);
static_assert(offsetof(BlockHeader, header_crc) == 40);
static_assert(std::has_unique_object_representations_v<BlockHeader>);

struct DigestRecord {
  uint32_t comm_index;
  uint32_t gap;  // 1: calls before this position were lost
  uint64_t seq;  // a multiple of kDigestPeriod: the digest covers seq 0 .. seq-1
  uint64_t digest;
  uint64_t ticket;  // of the collective with this seq
};
static_assert(sizeof(DigestRecord) == 32);

// Coded bytes per operation are bounded, so buffers are sized at compile time.
inline constexpr uint32_t kOpCodedBytesMax = 160;

}  // namespace rollcall
