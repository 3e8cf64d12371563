// How the values of a Parquet file are coded, held against the examples of the specification and a
// decoder of its own. That others read the file is tests/clients/parquet_reads.py.
#include <functional>
#include <random>

#include "report/parquet/call_table.h"
#include "report/parquet/encodings.h"
#include "report/parquet/table_file.h"
#include "report/parquet/thrift.h"
#include "tests/catch.h"
#include "tests/report/world.h"

namespace test_parquet {

using namespace rollcall;
using report::parquet::delta_coded;
using report::parquet::hybrid_coded;
using report::parquet::TableFile;

std::string hex(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

class Bytes {
 public:
  explicit Bytes(const std::string& bytes) : bytes_(bytes) {}
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint64_t byte = next();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  int64_t zigzag() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1 ^ (0 - (value & 1)));
  }
  uint64_t next() { return static_cast<unsigned char>(bytes_.at(at_++)); }
  // So many values of `width` bits, which end with a byte.
  std::vector<uint64_t> packed(size_t count, unsigned width) {
    std::vector<uint64_t> values(count, 0);
    for (size_t bit = 0; bit < count * width; ++bit) {
      if (bit % 8 == 0) byte_ = next();
      values[bit / width] |= (byte_ >> (bit % 8) & 1) << (bit % width);
    }
    return values;
  }
  bool is_through() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
  uint64_t byte_ = 0;
};

std::vector<uint32_t> hybrid_decoded(const std::string& coded, unsigned width, size_t count) {
  Bytes bytes(coded);
  std::vector<uint32_t> values;
  while (!bytes.is_through()) {
    const uint64_t head = bytes.varint();
    if ((head & 1) != 0) {
      for (const uint64_t value : bytes.packed((head >> 1) * 8, width)) {
        values.push_back(static_cast<uint32_t>(value));
      }
      continue;
    }
    uint64_t value = 0;
    for (unsigned shift = 0; shift < width; shift += 8) value |= bytes.next() << shift;
    values.insert(values.end(), head >> 1, static_cast<uint32_t>(value));
  }
  CHECK(values.size() >= count);
  CHECK(values.size() < count + 8);
  values.resize(count);
  return values;
}

std::vector<int64_t> delta_decoded(const std::string& coded) {
  Bytes bytes(coded);
  CHECK(bytes.varint() == 128);
  CHECK(bytes.varint() == 4);
  const uint64_t count = bytes.varint();
  auto value = static_cast<uint64_t>(bytes.zigzag());
  std::vector<int64_t> values;
  if (count > 0) values.push_back(static_cast<int64_t>(value));
  while (values.size() < count) {
    const auto smallest = static_cast<uint64_t>(bytes.zigzag());
    unsigned widths[4];
    for (unsigned& width : widths) width = static_cast<unsigned>(bytes.next());
    for (const unsigned width : widths) {
      if (values.size() == count) break;
      for (const uint64_t delta : bytes.packed(32, width)) {
        if (values.size() == count) break;
        value += smallest + delta;
        values.push_back(static_cast<int64_t>(value));
      }
    }
  }
  CHECK(bytes.is_through());
  return values;
}

std::string file_of(const std::function<void(TableFile&)>& fill,
                    const std::vector<report::parquet::Column>& columns, size_t rows_per_group) {
  std::string bytes;
  TableFile file(
      columns,
      [&](const std::string& piece) {
        bytes += piece;
        return true;
      },
      rows_per_group);
  fill(file);
  file.finish({{"key", "value"}});
  return bytes;
}

TEST_CASE("differences are coded as in the examples of Parquet's specification") {
  CHECK(hex(delta_coded({1, 2, 3, 4, 5})) == "80010405020200000000");
  CHECK(hex(delta_coded({7, 5, 3, 1, 2, 3, 4, 5})) == "800104080e0302000000c03f000000000000");
}

TEST_CASE("indices are coded as in the examples of Parquet's specification") {
  CHECK(hex(hybrid_coded({0, 1, 2, 3, 4, 5, 6, 7}, 3)) == "0388c6fa");
  CHECK(hex(hybrid_coded(std::vector<uint32_t>(100, 4), 3)) == "c80104");
  CHECK(hybrid_coded({}, 3).empty());
}

TEST_CASE("what is coded is decoded, whatever the values are") {
  std::mt19937_64 random(7);
  for (const size_t count : {0u, 1u, 2u, 31u, 32u, 33u, 128u, 129u, 130u, 1000u}) {
    for (const unsigned bits : {0u, 1u, 7u, 31u, 63u, 64u}) {
      std::vector<int64_t> values;
      for (size_t i = 0; i < count; ++i) {
        values.push_back(bits == 0 ? 5 : static_cast<int64_t>(random() >> (64 - bits)));
      }
      if (count > 2 && bits == 64) {
        values[0] = INT64_MIN;
        values[1] = INT64_MAX;
      }
      CHECK(delta_decoded(delta_coded(values)) == values);
    }
    for (const unsigned width : {1u, 3u, 8u, 17u, 32u}) {
      std::vector<uint32_t> values;
      while (values.size() < count) {
        const auto value = static_cast<uint32_t>(random() >> (64 - width));
        values.insert(values.end(), 1 + random() % 20, value);
      }
      values.resize(count);
      CHECK(hybrid_decoded(hybrid_coded(values, width), width, count) == values);
    }
  }
  CHECK(report::parquet::bits_for(0) == 0);
  CHECK(report::parquet::bits_for(1) == 1);
  CHECK(report::parquet::bits_for(8) == 4);
}

TEST_CASE("metadata are the bytes of Thrift's compact protocol") {
  std::string bytes;
  {
    report::parquet::ThriftStruct outer(bytes);
    outer.i32(1, -1);
    outer.text(4, "ab");
    outer.list(5, report::parquet::ThriftType::i32, 1);
    report::parquet::append_zigzag(bytes, 3);
    const report::parquet::ThriftStruct inner(outer, 7);
  }
  // Field 1 of type 5, zigzag 1; 3 further, type 8, 2 bytes; 1 further, a list of one i32; 2
  // further, a struct that is empty; the end.
  CHECK(hex(bytes) == "1501380261621915062c0000");
}

TEST_CASE(
    "a file begins and ends with the format's name, and its metadata are in front of the end") {
  const std::vector<report::parquet::Column> columns = {{"a", report::parquet::ColumnKind::rising},
                                                        {"b", report::parquet::ColumnKind::text}};
  uint64_t rows = 0;
  const std::string bytes = file_of(
      [&](TableFile& file) {
        for (int64_t i = 0; i < 25; ++i) {
          file.add_number(0, i);
          i % 2 == 0 ? file.add_text(1, "x\xff") : file.add_nothing(1);
          file.end_row();
        }
        rows = file.rows();
      },
      columns, 10);
  CHECK(rows == 25);
  REQUIRE(bytes.size() > 12);
  CHECK(bytes.substr(0, 4) == "PAR1");
  CHECK(bytes.substr(bytes.size() - 4) == "PAR1");
  uint32_t size = 0;
  for (size_t i = 0; i < 4; ++i) {
    size |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[bytes.size() - 8 + i]))
            << (8 * i);
  }
  REQUIRE(size < bytes.size() - 12);
  const std::string metadata = bytes.substr(bytes.size() - 8 - size, size);
  CHECK(hex(metadata.substr(0, 2)) == "1504");  // version 2
  CHECK(metadata.back() == '\0');               // the end of a struct
  CHECK(metadata.find("rollcall") != std::string::npos);
}

TEST_CASE("a sink that takes no more gets nothing more, and a table without rows is a table") {
  size_t calls = 0;
  report::CallTable table([&](const std::string&) { return ++calls < 2; });
  for (const trace::Process& process : test::missing_call_run().processes) {
    table.add(process, process.job_rank);
  }
  table.finish({});
  CHECK(table.rows() == 11);
  CHECK(calls == 2);
  std::string bytes;
  report::CallTable empty([&](const std::string& piece) {
    bytes += piece;
    return true;
  });
  empty.finish({});
  CHECK(bytes.size() > 100);
}

}  // namespace test_parquet
