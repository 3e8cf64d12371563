// How Parquet codes values, by its specification (github.com/apache/parquet-format, Encodings.md).
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::report::parquet {

// RLE / bit-packing hybrid (RLE = 3, and what is behind the width of RLE_DICTIONARY = 8): runs of
// equal values, and groups of eight that are packed into `width` bits each, the lowest bit first.
// Every value fits into `width` bits; `width` is 0 to 32.
std::string hybrid_coded(const std::vector<uint32_t>& values, unsigned width);

// DELTA_BINARY_PACKED (5): the first value, then differences in blocks of 128, less the smallest
// one of the block, in four miniblocks of as many bits as their largest one needs.
std::string delta_coded(const std::vector<int64_t>& values);

// Bits that hold 0 to `largest`.
unsigned bits_for(uint64_t largest);

}  // namespace rollcall::report::parquet
