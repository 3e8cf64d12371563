// A table as a Parquet file, of columns whose values may be absent: numbers of 64 bits, and texts.
//
// By the specification at github.com/apache/parquet-format (parquet.thrift, release 2.10): row
// groups, of each a chunk per column, of a dictionary page where there is a dictionary and one data
// page of version 1, compressed with zstd; metadata at the end. Numbers that rise, as times and
// positions do, are differences; everything else is a dictionary and indices. Written as rows come:
// memory is one row group.
//
// Why no library: Arrow's C++ adds 15 MB and cannot be built for the wheels' glibc in reasonable
// time; what is needed of the format is this file.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rollcall::report::parquet {

class ThriftStruct;

enum class ColumnKind : uint8_t {
  rising,  // numbers, coded as differences
  number,  // numbers of which many are equal
  text     // UTF-8
};

struct Column {
  std::string_view name;
  ColumnKind kind;
};

class TableFile {
 public:
  // Gets pieces of the file in order; false: it takes no more, and nothing is written from then on.
  using Sink = std::function<bool(const std::string&)>;
  // `columns` outlives the object. At most 120.
  TableFile(const std::vector<Column>& columns, Sink sink, size_t rows_per_group = 1 << 17);

  // The next value of a column; each column gets one per row.
  void add_number(size_t column, int64_t value);
  void add_text(size_t column, std::string_view value);
  void add_nothing(size_t column);
  void end_row();

  // The rest, with what is said of the table as a whole.
  void finish(const std::vector<std::pair<std::string, std::string>>& metadata);
  uint64_t rows() const { return rows_; }

 private:
  struct Values {
    std::vector<uint32_t> defined;  // 1: there is a value
    std::vector<int64_t> rising;
    std::vector<uint32_t> indices;
    std::string dictionary;  // plain
    uint32_t dictionary_size = 0;
    std::map<int64_t, uint32_t> numbers;
    std::map<std::string, uint32_t, std::less<>> texts;
    int64_t smallest = INT64_MAX, largest = INT64_MIN;
  };
  struct Chunk {
    int64_t dictionary_offset = -1;
    int64_t data_offset = 0;
    int64_t compressed = 0, uncompressed = 0;
    int64_t nulls = 0;
    int64_t smallest = 0, largest = 0;
    bool has_bounds = false;
  };
  struct RowGroup {
    int64_t rows = 0;
    std::vector<Chunk> chunks;
  };

  void end_group();
  Chunk write_chunk(const Column& column, const Values& values);
  void write_page(const std::string& bytes, int32_t values, int32_t encoding, bool is_dictionary,
                  Chunk& chunk);
  void put(const std::string& bytes);
  void append_chunk(ThriftStruct& group, size_t column, int64_t rows, const Chunk& chunk) const;
  void append_groups(ThriftStruct& file) const;

  const std::vector<Column>& columns_;
  const Sink sink_;
  const size_t rows_per_group_;
  std::vector<Values> values_;
  std::vector<RowGroup> groups_;
  size_t rows_in_group_ = 0;
  uint64_t rows_ = 0;
  int64_t offset_ = 0;
  bool is_taken_ = true;
};

}  // namespace rollcall::report::parquet
