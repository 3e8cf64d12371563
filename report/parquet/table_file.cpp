#include "report/parquet/table_file.h"

#include <zstd.h>

#include <algorithm>

#include "core/base/check.h"
#include "report/parquet/encodings.h"
#include "report/parquet/thrift.h"
#include "report/terms.h"

namespace rollcall::report::parquet {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr int kZstdLevel = 3;
// Numbers of the format.
constexpr int32_t kInt64 = 2, kByteArray = 6;
constexpr int32_t kPlain = 0, kRle = 3, kDelta = 5, kRleDictionary = 8;
constexpr int32_t kOptional = 1;
constexpr int32_t kUtf8 = 0;
constexpr int32_t kZstd = 6;
constexpr int32_t kDataPage = 0, kDictionaryPage = 2;

void append_fixed(std::string& bytes, uint64_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

std::string fixed64(int64_t value) {
  std::string bytes;
  append_fixed(bytes, static_cast<uint64_t>(value), 8);
  return bytes;
}

std::string compressed(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kZstdLevel);
  ROLLCALL_CHECK(ZSTD_isError(size) == 0);
  packed.resize(size);
  return packed;
}

void append_schema(ThriftStruct& file, const std::vector<Column>& columns) {
  file.list(2, ThriftType::structure, columns.size() + 1);
  {
    ThriftStruct root(file.bytes());
    root.text(4, "calls");
    root.i32(5, static_cast<int32_t>(columns.size()));
  }
  for (const Column& column : columns) {
    const bool is_text = column.kind == ColumnKind::text;
    ThriftStruct element(file.bytes());
    element.i32(1, is_text ? kByteArray : kInt64);
    element.i32(3, kOptional);
    element.text(4, column.name);
    if (!is_text) continue;
    element.i32(6, kUtf8);
    ThriftStruct logical(element, 10);
    const ThriftStruct string(logical, 1);
  }
}

}  // namespace

TableFile::TableFile(const std::vector<Column>& columns, Sink sink, size_t rows_per_group)
    : columns_(columns),
      sink_(std::move(sink)),
      rows_per_group_(rows_per_group),
      values_(columns.size()) {
  put(std::string(kMagic));
}

void TableFile::put(const std::string& bytes) {
  offset_ += static_cast<int64_t>(bytes.size());
  is_taken_ = is_taken_ && sink_(bytes);
}

void TableFile::add_number(size_t column, int64_t value) {
  Values& values = values_[column];
  values.defined.push_back(1);
  values.smallest = std::min(values.smallest, value);
  values.largest = std::max(values.largest, value);
  if (columns_[column].kind == ColumnKind::rising) {
    values.rising.push_back(value);
    return;
  }
  const auto [found, is_new] = values.numbers.emplace(value, values.dictionary_size);
  if (is_new) {
    append_fixed(values.dictionary, static_cast<uint64_t>(value), 8);
    ++values.dictionary_size;
  }
  values.indices.push_back(found->second);
}

void TableFile::add_text(size_t column, std::string_view value) {
  Values& values = values_[column];
  values.defined.push_back(1);
  auto found = values.texts.find(value);
  if (found == values.texts.end()) {
    found = values.texts.emplace(value, values.dictionary_size++).first;
    const std::string text = valid_utf8(value);
    append_fixed(values.dictionary, text.size(), 4);
    values.dictionary += text;
  }
  values.indices.push_back(found->second);
}

void TableFile::add_nothing(size_t column) { values_[column].defined.push_back(0); }

void TableFile::end_row() {
  ++rows_;
  if (++rows_in_group_ >= rows_per_group_) end_group();
}

void TableFile::end_group() {
  if (rows_in_group_ == 0) return;
  RowGroup group;
  group.rows = static_cast<int64_t>(rows_in_group_);
  for (size_t column = 0; column < columns_.size(); ++column) {
    ROLLCALL_CHECK(values_[column].defined.size() == rows_in_group_);
    group.chunks.push_back(write_chunk(columns_[column], values_[column]));
    values_[column] = Values();
  }
  groups_.push_back(std::move(group));
  rows_in_group_ = 0;
}

TableFile::Chunk TableFile::write_chunk(const Column& column, const Values& values) {
  Chunk chunk;
  const bool is_rising = column.kind == ColumnKind::rising;
  if (!is_rising) {
    chunk.dictionary_offset = offset_;
    write_page(values.dictionary, static_cast<int32_t>(values.dictionary_size), kPlain, true,
               chunk);
  }
  chunk.data_offset = offset_;
  const std::string levels = hybrid_coded(values.defined, 1);
  std::string page;
  append_fixed(page, levels.size(), 4);
  page += levels;
  if (is_rising) {
    page += delta_coded(values.rising);
  } else {
    const unsigned width = values.dictionary_size == 0 ? 0 : bits_for(values.dictionary_size - 1);
    page.push_back(static_cast<char>(width));
    page += hybrid_coded(values.indices, width);
  }
  write_page(page, static_cast<int32_t>(values.defined.size()), is_rising ? kDelta : kRleDictionary,
             false, chunk);
  chunk.nulls = std::count(values.defined.begin(), values.defined.end(), 0u);
  chunk.has_bounds = values.smallest <= values.largest;
  chunk.smallest = values.smallest;
  chunk.largest = values.largest;
  return chunk;
}

void TableFile::write_page(const std::string& bytes, int32_t values, int32_t encoding,
                           bool is_dictionary, Chunk& chunk) {
  const std::string packed = compressed(bytes);
  std::string head;
  {
    ThriftStruct page(head);
    page.i32(1, is_dictionary ? kDictionaryPage : kDataPage);
    page.i32(2, static_cast<int32_t>(bytes.size()));
    page.i32(3, static_cast<int32_t>(packed.size()));
    ThriftStruct kind(page, is_dictionary ? 7 : 5);
    kind.i32(1, values);
    kind.i32(2, encoding);
    if (!is_dictionary) {
      kind.i32(3, kRle);
      kind.i32(4, kRle);
    }
  }
  chunk.uncompressed += static_cast<int64_t>(head.size() + bytes.size());
  chunk.compressed += static_cast<int64_t>(head.size() + packed.size());
  put(head);
  put(packed);
}

void TableFile::append_chunk(ThriftStruct& group, size_t column, int64_t rows,
                             const Chunk& chunk) const {
  const bool has_dictionary = chunk.dictionary_offset >= 0;
  ThriftStruct outer(group.bytes());
  outer.i64(2, 0);  // the metadata is nowhere but here
  ThriftStruct inner(outer, 3);
  inner.i32(1, columns_[column].kind == ColumnKind::text ? kByteArray : kInt64);
  inner.list(2, ThriftType::i32, has_dictionary ? 3 : 2);
  append_zigzag(inner.bytes(), kRle);
  if (has_dictionary) append_zigzag(inner.bytes(), kPlain);
  append_zigzag(inner.bytes(), has_dictionary ? kRleDictionary : kDelta);
  inner.list(3, ThriftType::binary, 1);
  inner.append_text(columns_[column].name);
  inner.i32(4, kZstd);
  inner.i64(5, rows);
  inner.i64(6, chunk.uncompressed);
  inner.i64(7, chunk.compressed);
  inner.i64(9, chunk.data_offset);
  if (has_dictionary) inner.i64(11, chunk.dictionary_offset);
  ThriftStruct statistics(inner, 12);
  statistics.i64(3, chunk.nulls);
  if (chunk.has_bounds) {
    statistics.text(5, fixed64(chunk.largest));
    statistics.text(6, fixed64(chunk.smallest));
  }
}

void TableFile::append_groups(ThriftStruct& file) const {
  file.list(4, ThriftType::structure, groups_.size());
  for (const RowGroup& group : groups_) {
    ThriftStruct told(file.bytes());
    told.list(1, ThriftType::structure, columns_.size());
    int64_t total = 0;
    for (size_t column = 0; column < columns_.size(); ++column) {
      append_chunk(told, column, group.rows, group.chunks[column]);
      total += group.chunks[column].uncompressed;
    }
    told.i64(2, total);
    told.i64(3, group.rows);
  }
}

void TableFile::finish(const std::vector<std::pair<std::string, std::string>>& metadata) {
  end_group();
  std::string end;
  {
    ThriftStruct file(end);
    file.i32(1, 2);  // the format's version
    append_schema(file, columns_);
    file.i64(3, static_cast<int64_t>(rows_));
    append_groups(file);
    file.list(5, ThriftType::structure, metadata.size());
    for (const auto& [key, value] : metadata) {
      ThriftStruct pair(file.bytes());
      pair.text(1, valid_utf8(key));
      pair.text(2, valid_utf8(value));
    }
    file.text(6, "rollcall");
    // Bounds are those of the types' own order.
    file.list(7, ThriftType::structure, columns_.size());
    for (size_t column = 0; column < columns_.size(); ++column) {
      ThriftStruct order(file.bytes());
      const ThriftStruct own(order, 1);
    }
  }
  const size_t size = end.size();
  append_fixed(end, size, 4);
  put(end + std::string(kMagic));
}

}  // namespace rollcall::report::parquet
