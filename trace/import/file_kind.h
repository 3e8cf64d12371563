// What a file is, by its first bytes: never by its name, except for what to call it.
//
// One table (file_kind.cpp) holds what Rollcall reads, and also what it does not read but knows: a
// person who hands over a file wants to hear what it is and what would help, not that it is wrong.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rollcall::trace {

enum class ForeignFormat : uint8_t {
  unknown,  // bytes that mean nothing to us
  empty,
  text,          // read line by line; what is in it shows only then
  named,         // known, and not read
  other_pickle,  // asked whether it is a dump all the same; that it is none is no news
  flight_recorder_pickle,
  flight_recorder_json,
  inspector,
  ras_json,
  kineto,
  py_spy,
  sqlite
};

struct FileKind {
  ForeignFormat format = ForeignFormat::unknown;
  std::string_view name;  // "a Flight Recorder dump", with its article
  // What to do instead, where it is not read; else empty.
  std::string_view help;
};

// What a database of SQLite begins with.
inline constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

// `head`: the first bytes, unpacked and as UTF-8 (byte_stream.h), kHeadBytes of them or the file.
inline constexpr size_t kHeadBytes = 1 << 16;
FileKind kind_of(std::span<const uint8_t> head);

}  // namespace rollcall::trace
