// Reads JSON of any size as it comes, and keeps of it what a handler picks out.
//
// A profiler's trace has gigabytes, and a document in memory ten times its text. The handler is
// told of each scalar with the names above it; nothing is held but these names.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/byte_stream.h"

namespace rollcall::trace {

// One scalar. Of a number both forms are given, for identifiers have 64 bits.
struct JsonScalar {
  enum class Type : uint8_t { null, boolean, number, text };
  Type type = Type::null;
  double number = 0;
  int64_t integer = 0;  // wraps around beyond 2^63
  std::string_view text = {};
};

class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  // `path`: the names of what the scalar is in, outermost first; elements of arrays have the name
  // "". Its last one is the scalar's own.
  virtual void scalar(const std::vector<std::string>& path, const JsonScalar& value) = 0;
  // An object or array that is called so has ended.
  virtual void ended(const std::vector<std::string>& path) = 0;
};

// Empty: all of it was read. Else what is the matter and where; what came before was handed on.
std::string read_json_events(ByteStream& stream, JsonHandler& handler);

}  // namespace rollcall::trace
