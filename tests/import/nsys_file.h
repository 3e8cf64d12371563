// Exports of Nsight Systems, made here: the tables that the importer asks for, as SQLite writes
// them.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace rollcall::trace {

// A database in a file of its own.
class NsysFile {
 public:
  NsysFile() {
    char name[] = "/tmp/rollcall_nsys_XXXXXX";
    const int descriptor = ::mkstemp(name);
    if (descriptor < 0) throw std::runtime_error("no temporary file");
    ::close(descriptor);
    path_ = name;
  }
  ~NsysFile() { ::unlink(path_.c_str()); }
  NsysFile(const NsysFile&) = delete;
  NsysFile& operator=(const NsysFile&) = delete;

  const std::string& path() const { return path_; }

  void run(const std::string& sql) {
    void* library = ::dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error("no libsqlite3.so.0: scripts/setup.sh");
    const auto open =
        reinterpret_cast<int (*)(const char*, void**)>(::dlsym(library, "sqlite3_open"));
    const auto exec = reinterpret_cast<int (*)(void*, const char*, void*, void*, char**)>(
        ::dlsym(library, "sqlite3_exec"));
    const auto close = reinterpret_cast<int (*)(void*)>(::dlsym(library, "sqlite3_close"));
    void* database = nullptr;
    const bool is_done = open(path_.c_str(), &database) == 0 &&
                         exec(database, sql.c_str(), nullptr, nullptr, nullptr) == 0;
    close(database);
    ::dlclose(library);
    if (!is_done) throw std::runtime_error("SQLite refused: " + sql);
  }

 private:
  std::string path_;
};

// One capture of `ranks` processes, each of which creates a communicator and calls `steps` times.
class NsysCapture {
 public:
  // `names_comm`: as NCCL does from 2.26 on.
  explicit NsysCapture(bool names_comm = true) {
    sql_ =
        "CREATE TABLE StringIds(id INTEGER, value TEXT);"
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER);"
        "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1750000000000000000);"
        "CREATE TABLE NVTX_EVENTS(start INTEGER, \"end\" INTEGER, eventType INTEGER, text TEXT, "
        "globalTid INTEGER, textId INTEGER, domainId INTEGER, binaryData BLOB);"
        "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES(domainId INTEGER, schemaId INTEGER, "
        "idx INTEGER, type INTEGER, name TEXT, offset INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, globalTid INTEGER, "
        "correlationId INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, \"end\" INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, streamId INTEGER);"
        "INSERT INTO StringIds VALUES (3, 'ncclAllReduce'), (4, 'ncclCommInitRank'), "
        "(5, 'ncclBroadcast'), (6, 'ncclGroupStart'), (7, 'ncclGroupEnd'), (8, 'ncclSend');"
        "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES ";
    if (names_comm) {
      sql_ +=
          "(1, 5, 0, 18, 'NCCL communicator ID', NULL), (1, 6, 0, 18, 'NCCL communicator ID', "
          "NULL), ";
    }
    sql_ +=
        "(1, 5, 1, 22, 'Message size [bytes]', 8), (1, 5, 2, 16777240, 'Reduction operation', 16), "
        "(1, 6, 1, 5, 'No. of ranks', 8), (1, 6, 2, 5, 'Rank', 12);";
  }

  static int64_t thread_of(int rank) { return (int64_t{6000} + rank) << 24 | 6000; }

  void create(int rank, int ranks, int64_t start = 10) {
    event(start, start + 5, rank, 4, payload(6, 0xabc, {}, {ranks, rank}));
  }

  // `name`: of StringIds.
  void call(int rank, int64_t start, uint64_t bytes, int name = 3) {
    event(start, start + 5, rank, name, payload(5, 0xabc, {bytes}, {0}));
  }

  // In a range from start on, to a kernel.
  void launch(int rank, int64_t start, int64_t kernel_start, int64_t kernel_end) {
    const int64_t correlation = ++launches_;
    sql_ += fmt::format(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({0}, {1}, {2});"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({3}, {4}, {2}, {5}, 20);",
        start, thread_of(rank), correlation, kernel_start, kernel_end, thread_of(rank) >> 24 << 24);
  }

  void event(int64_t start, int64_t end, int rank, int name, const std::string& blob) {
    sql_ += fmt::format("INSERT INTO NVTX_EVENTS VALUES ({}, {}, 59, NULL, {}, {}, 1, {});", start,
                        end, thread_of(rank), name, blob);
  }

  const std::string& sql() const { return sql_; }

 private:
  static void append(std::string& hex, const void* bytes, size_t size) {
    for (const char byte : std::string(static_cast<const char*>(bytes), size)) {
      hex += fmt::format("{:02x}", static_cast<uint8_t>(byte));
    }
  }

  // The head, the communicator, then numbers of eight and of four bytes.
  std::string payload(uint32_t schema, uint64_t comm, const std::vector<uint64_t>& wide,
                      const std::vector<int32_t>& narrow) const {
    const uint32_t head[8] = {1, 0, schema, 0, 24, 0, 56, 0};
    std::string hex = "x'";
    append(hex, head, sizeof head);
    append(hex, &comm, sizeof comm);
    for (const uint64_t value : wide) append(hex, &value, sizeof value);
    for (const int32_t value : narrow) append(hex, &value, sizeof value);
    return hex + "'";
  }

  int64_t launches_ = 0;
  std::string sql_;
};

}  // namespace rollcall::trace
