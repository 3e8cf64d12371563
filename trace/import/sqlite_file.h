// Databases of SQLite, read only.
//
// SQLite itself reads them: the one that the system has (libsqlite3.so.0), opened when the first
// database comes. Linked in, it would make the command a third larger for a format that few people
// hand over; Python and the package manager of nearly every system bring it.
//
// A database may come from anywhere. Only tables are read, no views, and none that compute a
// column; the schema is not trusted to call anything; nothing is written, no journal looked at. The
// work is bounded by the file's size: pages that stand in a table more than once make no end of
// rows.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace rollcall::trace {

struct SqliteLibrary;

// A row while it is looked at; columns in the order in which they were asked for. A column that the
// table does not have is NULL.
class SqliteRow {
 public:
  SqliteRow(const SqliteLibrary& library, void* statement)
      : library_(library), statement_(statement) {}
  bool is_null(int column) const;
  int64_t integer(int column) const;  // 0 of NULL
  // Valid until the next row; empty of NULL.
  std::string_view text(int column) const;
  std::span<const uint8_t> bytes(int column) const;

 private:
  const SqliteLibrary& library_;
  void* statement_;
};

class SqliteFile {
 public:
  SqliteFile() = default;
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  // False: see complaint().
  bool open(const std::string& path);
  // The bytes must outlive the object.
  bool open(std::span<const uint8_t> bytes);

  bool has_table(std::string_view table);
  // Each row of a table of that name, if there is one, until `on_row` returns false. False: the
  // table could not be read to its end; what comes before was told.
  bool for_each_row(std::string_view table, std::initializer_list<std::string_view> columns,
                    const std::function<bool(const SqliteRow&)>& on_row);

  // What is the matter, as an Issue says it; empty: nothing.
  const std::string& complaint() const { return complaint_; }

 private:
  bool open_uri(const char* uri, uint64_t size);
  // False: more than is left.
  bool spend(uint64_t work);
  static int on_steps(void* self);
  bool fail(std::string_view what);
  bool has_column(std::string_view table, std::string_view column);

  const SqliteLibrary* library_ = nullptr;
  void* database_ = nullptr;
  std::unique_lock<std::mutex> alone_;  // where the system's SQLite knows no threads
  uint64_t work_left_ = 0;              // bytes of values, and steps of SQLite's machine
  std::string complaint_;
};

}  // namespace rollcall::trace
