#include "trace/import/sqlite_file.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>

namespace rollcall::trace {

// What is called of it: the ABI of SQLite 3, which its authors keep since 2004. `deserialize` is
// missing in builds before 3.36.
struct SqliteLibrary {
  int (*open_v2)(const char* name, void** database, int flags, const char* vfs);
  int (*close)(void* database);
  int (*exec)(void* database, const char* sql, void* callback, void* context, char** error);
  int (*prepare_v2)(void* database, const char* sql, int bytes, void** statement,
                    const char** tail);
  int (*step)(void* statement);
  int (*finalize)(void* statement);
  int (*limit)(void* database, int what, int value);
  const char* (*errmsg)(void* database);
  int (*column_type)(void* statement, int column);
  int (*column_bytes)(void* statement, int column);
  int64_t (*column_int64)(void* statement, int column);
  const unsigned char* (*column_text)(void* statement, int column);
  const void* (*column_blob)(void* statement, int column);
  void (*progress_handler)(void* database, int steps, int (*on_steps)(void*), void* context);
  int (*threadsafe)();
  int (*deserialize)(void* database, const char* schema, unsigned char* bytes, int64_t used,
                     int64_t size, unsigned flags);
  bool is_whole = false;
};

namespace {

constexpr const char* kLibrary = "libsqlite3.so.0";
// Of sqlite3.h.
constexpr int kOk = 0;
constexpr int kRow = 100;
constexpr int kDone = 101;
constexpr int kText = 3;
constexpr int kBlob = 4;
constexpr int kNull = 5;
constexpr int kOpenReadOnly = 0x1;
constexpr int kOpenUri = 0x40;
constexpr int kLimitLength = 0;
constexpr unsigned kDeserializeReadOnly = 4;
constexpr int kValueBytesMax = 1 << 24;
// An export takes about four for each of its bytes.
constexpr uint64_t kWorkPerByte = 16;
constexpr uint64_t kWorkMin = 1 << 26;
constexpr uint64_t kRowWork = 16;
constexpr int kStepsAsked = 1000;

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
}

SqliteLibrary load_library() {
  SqliteLibrary found{};
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return found;
  find(library, "sqlite3_open_v2", found.open_v2);
  find(library, "sqlite3_close", found.close);
  find(library, "sqlite3_exec", found.exec);
  find(library, "sqlite3_prepare_v2", found.prepare_v2);
  find(library, "sqlite3_step", found.step);
  find(library, "sqlite3_finalize", found.finalize);
  find(library, "sqlite3_limit", found.limit);
  find(library, "sqlite3_errmsg", found.errmsg);
  find(library, "sqlite3_column_type", found.column_type);
  find(library, "sqlite3_column_bytes", found.column_bytes);
  find(library, "sqlite3_column_int64", found.column_int64);
  find(library, "sqlite3_column_text", found.column_text);
  find(library, "sqlite3_column_blob", found.column_blob);
  find(library, "sqlite3_progress_handler", found.progress_handler);
  find(library, "sqlite3_threadsafe", found.threadsafe);
  find(library, "sqlite3_deserialize", found.deserialize);
  found.is_whole = found.open_v2 != nullptr && found.close != nullptr && found.exec != nullptr &&
                   found.prepare_v2 != nullptr && found.step != nullptr &&
                   found.finalize != nullptr && found.limit != nullptr && found.errmsg != nullptr &&
                   found.column_type != nullptr && found.column_bytes != nullptr &&
                   found.column_int64 != nullptr && found.column_text != nullptr &&
                   found.column_blob != nullptr && found.progress_handler != nullptr &&
                   found.threadsafe != nullptr;
  return found;
}

const SqliteLibrary& the_library() {
  static const SqliteLibrary library = load_library();
  return library;
}

// Of a path as a URI names it.
std::string uri_of(const std::string& path) {
  // In front of a path that is whole stands a host, which is empty: else "//" would begin one.
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char character : path) {
    const auto byte = static_cast<unsigned char>(character);
    if (std::isalnum(byte) != 0 || character == '/' || character == '.' || character == '_') {
      uri += character;
    } else {
      uri += fmt::format("%{:02x}", byte);
    }
  }
  // Nobody writes it meanwhile: no lock is taken and no journal read, so nothing is written.
  return uri + "?immutable=1";
}

std::mutex& one_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

bool is_in_a_name(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_';
}

// What stands behind a quotation or a comment that begins at `at`; `at`: none begins there.
size_t behind_quoted(std::string_view sql, size_t at) {
  struct Quotation {
    std::string_view begin;
    std::string_view end;
  };
  constexpr Quotation kQuotations[] = {{"--", "\n"}, {"/*", "*/"}, {"'", "'"},
                                       {"\"", "\""}, {"`", "`"},   {"[", "]"}};
  for (const auto& [begin, end] : kQuotations) {
    if (!sql.substr(at).starts_with(begin)) continue;
    const size_t found = sql.find(end, at + begin.size());
    return found == std::string_view::npos ? sql.size() : found + end.size();
  }
  return at;
}

// Whether the statement made a table all of whose columns are stored. Computed ones are written
// "x INTEGER GENERATED ALWAYS AS (...)", or without the two words.
bool stores_its_columns(std::string_view sql) {
  std::string last;
  bool is_first = true;
  for (size_t at = 0; at < sql.size();) {
    if (const size_t behind = behind_quoted(sql, at); behind != at) {
      at = behind;
      continue;
    }
    if (!is_in_a_name(sql[at])) {
      if (sql[at] == '(' && last == "AS") return false;
      if (std::isspace(static_cast<unsigned char>(sql[at])) == 0) last.clear();
      ++at;
      continue;
    }
    last.clear();
    for (; at < sql.size() && is_in_a_name(sql[at]); ++at) {
      last += static_cast<char>(std::toupper(static_cast<unsigned char>(sql[at])));
    }
    if (last == "GENERATED" || (is_first && last != "CREATE")) return false;
    is_first = false;
  }
  return !is_first;
}

}  // namespace

bool SqliteRow::is_null(int column) const {
  return library_.column_type(statement_, column) == kNull;
}

int64_t SqliteRow::integer(int column) const { return library_.column_int64(statement_, column); }

std::string_view SqliteRow::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(library_.column_text(statement_, column));
  if (text == nullptr) return {};
  return {text, static_cast<size_t>(library_.column_bytes(statement_, column))};
}

std::span<const uint8_t> SqliteRow::bytes(int column) const {
  const auto* bytes = static_cast<const uint8_t*>(library_.column_blob(statement_, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<size_t>(library_.column_bytes(statement_, column))};
}

SqliteFile::~SqliteFile() {
  if (database_ != nullptr) library_->close(database_);
}

bool SqliteFile::spend(uint64_t work) {
  work_left_ -= std::min(work, work_left_);
  return work_left_ != 0;
}

int SqliteFile::on_steps(void* self) {
  return static_cast<SqliteFile*>(self)->spend(kStepsAsked) ? 0 : 1;
}

bool SqliteFile::fail(std::string_view what) {
  complaint_ = fmt::format("is a database of SQLite that {} ({})", what,
                           database_ == nullptr ? "no memory" : library_->errmsg(database_));
  return false;
}

bool SqliteFile::open_uri(const char* uri, uint64_t size) {
  library_ = &the_library();
  if (!library_->is_whole) {
    complaint_ = fmt::format(
        "is a database of SQLite, as Nsight Systems exports, which is read with the system's {}, "
        "and there is none that can be used: install it (libsqlite3-0, sqlite-libs), or name a "
        "log with NCCL_DEBUG_SUBSYS=INIT,COLL of the same job",
        kLibrary);
    return false;
  }
  if (library_->threadsafe() == 0) alone_ = std::unique_lock(one_at_a_time());
  work_left_ = kWorkMin + kWorkPerByte * size;
  if (library_->open_v2(uri, &database_, kOpenReadOnly | kOpenUri, nullptr) != kOk) {
    return fail("cannot be opened");
  }
  library_->limit(database_, kLimitLength, kValueBytesMax);
  library_->progress_handler(database_, kStepsAsked, on_steps, this);
  // Unknown to old ones, which is no failure.
  library_->exec(database_, "PRAGMA trusted_schema=OFF", nullptr, nullptr, nullptr);
  library_->exec(database_, "PRAGMA cell_size_check=ON", nullptr, nullptr, nullptr);
  return true;
}

bool SqliteFile::open(const std::string& path) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  return open_uri(uri_of(path).c_str(), is_there ? static_cast<uint64_t>(status.st_size) : 0);
}

bool SqliteFile::open(std::span<const uint8_t> bytes) {
  if (!open_uri("file::memory:?mode=memory", bytes.size())) return false;
  if (library_->deserialize == nullptr) {
    complaint_ =
        "is a database of SQLite that comes packed or through a pipe, which the system's SQLite is "
        "too old to read: unpack it, and name the file";
    return false;
  }
  const auto size = static_cast<int64_t>(bytes.size());
  // It is not written to: that is what the flag says.
  const int result =
      library_->deserialize(database_, "main", const_cast<unsigned char*>(bytes.data()), size, size,
                            kDeserializeReadOnly);
  return result == kOk || fail("cannot be opened");
}

bool SqliteFile::has_table(std::string_view table) {
  bool is_there = false;
  // What has no page is a virtual table, what is no table is a view, and a column may be an
  // expression: all of these may compute anything.
  for_each_row("sqlite_master", {"type", "name", "rootpage", "sql"}, [&](const SqliteRow& row) {
    is_there = is_there || (row.text(0) == "table" && row.text(1) == table && row.integer(2) > 0 &&
                            stores_its_columns(row.text(3)));
    return !is_there;
  });
  return is_there;
}

bool SqliteFile::has_column(std::string_view table, std::string_view column) {
  const std::string sql = fmt::format("SELECT \"{}\".\"{}\" FROM \"{}\"", table, column, table);
  void* statement = nullptr;
  const int result = library_->prepare_v2(database_, sql.c_str(), -1, &statement, nullptr);
  library_->finalize(statement);
  return result == kOk;
}

bool SqliteFile::for_each_row(std::string_view table,
                              std::initializer_list<std::string_view> columns,
                              const std::function<bool(const SqliteRow&)>& on_row) {
  if (table != "sqlite_master" && !has_table(table)) return complaint_.empty();
  std::string names;
  for (const std::string_view column : columns) {
    names += names.empty() ? "" : ", ";
    names += has_column(table, column) ? fmt::format("\"{}\"", column) : "NULL";
  }
  const std::string sql = fmt::format("SELECT {} FROM \"{}\"", names, table);
  void* statement = nullptr;
  int result = library_->prepare_v2(database_, sql.c_str(), -1, &statement, nullptr);
  if (result == kOk) {
    const SqliteRow row(*library_, statement);
    const auto is_long = [&](int column) {
      const int type = library_->column_type(statement, column);
      return type == kText || type == kBlob;
    };
    while ((result = library_->step(statement)) == kRow) {
      uint64_t work = kRowWork;
      for (int column = 0; column < static_cast<int>(columns.size()); ++column) {
        if (is_long(column)) {
          work += static_cast<uint64_t>(library_->column_bytes(statement, column));
        }
      }
      if (!spend(work)) break;
      if (on_row(row)) continue;
      result = kDone;
      break;
    }
  }
  if (work_left_ == 0) {
    complaint_ = "is a database of SQLite that holds more rows than fit its size: it is damaged";
  } else if (result != kDone) {
    fail("cannot be read to its end");
  }
  library_->finalize(statement);
  return result == kDone;
}

}  // namespace rollcall::trace
