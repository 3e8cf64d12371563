// A reader for the subset of Python's pickle format that holds plain data. It executes nothing:
// every opcode that could name or call something is refused.
//
// What is accepted: protocols 2 to 5; None, booleans, integers of up to 8 bytes, floats, strings,
// lists, tuples, dictionaries with string keys, the memo. Written for what PyTorch's C++ pickler
// and CPython's `pickle.dump` emit (docs.python.org/3/library/pickletools.html for the opcodes).
//
// Limits for hostile files: a length is compared with the bytes that are left before anything is
// allocated; shared values stay shared (a memo bomb is a small graph, never expanded); values are
// counted (kPlainValuesMax), since a byte of the file may make one of a hundred bytes; nesting is
// bounded; a container that is already part of another one cannot be changed any more, so no cycle
// can be built.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace rollcall::trace {

struct PlainValue;
using PlainPointer = std::shared_ptr<const PlainValue>;
using PlainList = std::vector<PlainPointer>;
using PlainDict = std::map<std::string, PlainPointer, std::less<>>;

// One value; monostate is None (JSON null).
struct PlainValue {
  std::variant<std::monostate, bool, int64_t, double, std::string, PlainList, PlainDict> value;
  uint32_t depth = 1;    // of nesting below, 1 for a scalar
  bool is_part = false;  // of another value: it is not changed any more

  // Typed access: null, or the fallback, when the value is of another type.
  const PlainList* list() const { return std::get_if<PlainList>(&value); }
  const PlainDict* dict() const { return std::get_if<PlainDict>(&value); }
  const std::string* text() const { return std::get_if<std::string>(&value); }
  int64_t integer_or(int64_t fallback) const;
  bool boolean_or(bool fallback) const;
  // The entry of a dictionary; null when this is none or it has no such key.
  const PlainValue* find(std::string_view key) const;
  std::string text_of(std::string_view key) const;
  int64_t integer_of(std::string_view key, int64_t fallback) const;
};

inline constexpr uint32_t kPlainDepthMax = 64;
// Of a file, also where one comes again from the memo: a dump of a thousand ranks has some
// millions.
inline constexpr size_t kPlainValuesMax = 1u << 24;

struct PickleResult {
  PlainPointer root;       // null unless the pickle was whole
  std::string error;       // empty, or what is wrong and at which byte
  bool refused = false;    // it asks for code to be run, or it exceeds a limit
  bool truncated = false;  // it ends too early; `salvaged` holds what was complete
  std::vector<PlainPointer> salvaged;
};

PickleResult read_pickle(std::span<const uint8_t> bytes);

}  // namespace rollcall::trace
