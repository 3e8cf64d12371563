#include "trace/import/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace rollcall::trace {
namespace {

constexpr size_t kMemoMax = 1u << 22;

// A value that is being built. As soon as it is part of another one it cannot change any more,
// which keeps the graph free of cycles.
using Node = std::shared_ptr<PlainValue>;

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  PickleResult run();

 private:
  enum class Step { go_on, stop, failed };

  Step step(uint8_t opcode);
  Step step_scalar(uint8_t opcode);
  Step step_container(uint8_t opcode);
  Step step_memo(uint8_t opcode);
  Step fail(const std::string& text, bool refused);
  Step truncated();

  bool take(size_t count, std::span<const uint8_t>& out);
  template <typename Number>
  bool take_number(Number& out);
  Step push_text(uint64_t length);
  Step push(PlainValue value);
  Step push_node(Node node);
  Step push_tuple(size_t first);
  Step append_from(size_t first);
  Step set_items_from(size_t first);
  Step adopt(Node& parent, uint32_t child_depth);
  bool pop_mark(size_t& first);
  Step put(uint64_t index);
  Step get(uint64_t index);

  std::span<const uint8_t> bytes_;
  size_t position_ = 0;
  size_t opcode_at_ = 0;
  std::vector<Node> stack_;
  std::vector<size_t> marks_;
  std::vector<Node> memo_;
  size_t pushed_ = 0;
  PickleResult result_;
};

Reader::Step Reader::fail(const std::string& text, bool refused) {
  result_.error = fmt::format("{} at byte {}", text, opcode_at_);
  result_.refused = refused;
  return Step::failed;
}

Reader::Step Reader::truncated() {
  result_.error = fmt::format("ends in the middle, at byte {}", bytes_.size());
  result_.truncated = true;
  return Step::failed;
}

bool Reader::take(size_t count, std::span<const uint8_t>& out) {
  if (count > bytes_.size() - position_) return false;
  out = bytes_.subspan(position_, count);
  position_ += count;
  return true;
}

template <typename Number>
bool Reader::take_number(Number& out) {
  std::span<const uint8_t> raw;
  if (!take(sizeof(Number), raw)) return false;
  std::memcpy(&out, raw.data(), sizeof out);
  return true;
}

Reader::Step Reader::push(PlainValue value) {
  return push_node(std::make_shared<PlainValue>(std::move(value)));
}

Reader::Step Reader::push_node(Node node) {
  if (++pushed_ > kPlainValuesMax) return fail("more values than a dump can have", true);
  stack_.push_back(std::move(node));
  return Step::go_on;
}

Reader::Step Reader::push_text(uint64_t length) {
  std::span<const uint8_t> raw;
  if (length > bytes_.size() - position_) {
    // A length far beyond the file is an attack, a little beyond it a file that was cut off.
    return length > bytes_.size() * 2 + 4096 ? fail("a string longer than the file", true)
                                             : truncated();
  }
  if (!take(length, raw)) return truncated();
  return push({std::string(reinterpret_cast<const char*>(raw.data()), raw.size()), 1});
}

bool Reader::pop_mark(size_t& first) {
  if (marks_.empty()) return false;
  first = marks_.back();
  marks_.pop_back();
  return first <= stack_.size();
}

Reader::Step Reader::adopt(Node& parent, uint32_t child_depth) {
  if (parent->is_part) return fail("a container that changes after it was used", true);
  if (child_depth + 1 > kPlainDepthMax) return fail("nested too deeply", true);
  parent->depth = std::max(parent->depth, child_depth + 1);
  return Step::go_on;
}

Reader::Step Reader::append_from(size_t first) {
  if (first == 0 || first > stack_.size()) return fail("items without a list", false);
  Node& parent = stack_[first - 1];
  auto* list = std::get_if<PlainList>(&parent->value);
  if (list == nullptr) return fail("items for something that is no list", false);
  for (size_t i = first; i < stack_.size(); ++i) {
    if (stack_[i] == parent) return fail("a list inside itself", true);
    stack_[i]->is_part = true;
    if (adopt(parent, stack_[i]->depth) == Step::failed) return Step::failed;
    list->push_back(stack_[i]);
  }
  stack_.resize(first);
  return Step::go_on;
}

Reader::Step Reader::set_items_from(size_t first) {
  if (first == 0 || first > stack_.size() || (stack_.size() - first) % 2 != 0) {
    return fail("items without a dictionary", false);
  }
  Node& parent = stack_[first - 1];
  auto* dict = std::get_if<PlainDict>(&parent->value);
  if (dict == nullptr) return fail("items for something that is no dictionary", false);
  for (size_t i = first; i < stack_.size(); i += 2) {
    const std::string* key = stack_[i]->text();
    if (key == nullptr) return fail("a dictionary key that is no string", true);
    Node& child = stack_[i + 1];
    if (child == parent) return fail("a dictionary inside itself", true);
    child->is_part = true;
    if (adopt(parent, child->depth) == Step::failed) return Step::failed;
    (*dict)[*key] = child;
  }
  stack_.resize(first);
  return Step::go_on;
}

Reader::Step Reader::push_tuple(size_t first) {
  if (first > stack_.size()) return fail("a tuple without its items", false);
  PlainValue tuple{PlainList{}, 1};
  auto& list = std::get<PlainList>(tuple.value);
  for (size_t i = first; i < stack_.size(); ++i) {
    stack_[i]->is_part = true;
    tuple.depth = std::max(tuple.depth, stack_[i]->depth + 1);
    list.push_back(stack_[i]);
  }
  if (tuple.depth > kPlainDepthMax) return fail("nested too deeply", true);
  stack_.resize(first);
  return push(std::move(tuple));
}

Reader::Step Reader::put(uint64_t index) {
  if (stack_.empty()) return fail("a memo of nothing", false);
  if (index > memo_.size() || index >= kMemoMax) return fail("a memo index out of order", true);
  if (index == memo_.size()) {
    memo_.push_back(stack_.back());
  } else {
    memo_[index] = stack_.back();
  }
  return Step::go_on;
}

Reader::Step Reader::get(uint64_t index) {
  if (index >= memo_.size()) return fail("a memo index that was never set", false);
  return push_node(memo_[index]);
}

Reader::Step Reader::step_memo(uint8_t opcode) {
  uint8_t small = 0;
  uint32_t large = 0;
  switch (opcode) {
    case 0x71:
      return take_number(small) ? put(small) : truncated();  // BINPUT
    case 0x72:
      return take_number(large) ? put(large) : truncated();  // LONG_BINPUT
    case 0x94:
      return put(memo_.size());  // MEMOIZE
    case 0x68:
      return take_number(small) ? get(small) : truncated();  // BINGET
    case 0x6a:
      return take_number(large) ? get(large) : truncated();  // LONG_BINGET
    default:
      return fail(fmt::format("opcode 0x{:02x}, which is not plain data,", opcode), true);
  }
}

Reader::Step Reader::step_container(uint8_t opcode) {
  size_t first = 0;
  switch (opcode) {
    case 0x7d:
      return push({PlainDict{}, 1});  // EMPTY_DICT
    case 0x5d:
      return push({PlainList{}, 1});  // EMPTY_LIST
    case 0x29:
      return push({PlainList{}, 1});  // EMPTY_TUPLE
    case 0x28:                        // MARK
      if (marks_.size() >= kPlainDepthMax * 2) return fail("nested too deeply", true);
      marks_.push_back(stack_.size());
      return Step::go_on;
    case 0x75:
      return pop_mark(first) ? set_items_from(first) : fail("no mark", false);  // SETITEMS
    case 0x73:                                                                  // SETITEM
      return stack_.size() >= 3 ? set_items_from(stack_.size() - 2) : fail("no item", false);
    case 0x65:
      return pop_mark(first) ? append_from(first) : fail("no mark", false);  // APPENDS
    case 0x61:                                                               // APPEND
      return stack_.size() >= 2 ? append_from(stack_.size() - 1) : fail("no item", false);
    case 0x74:
      return pop_mark(first) ? push_tuple(first) : fail("no mark", false);  // TUPLE
    case 0x85:                                                              // TUPLE1 ...
    case 0x86:
    case 0x87: {
      const size_t count = opcode - 0x84u;
      return stack_.size() >= count ? push_tuple(stack_.size() - count) : fail("no item", false);
    }
    default:
      return step_memo(opcode);
  }
}

Reader::Step Reader::step_scalar(uint8_t opcode) {
  uint8_t u8 = 0;
  uint16_t u16 = 0;
  uint32_t u32 = 0;
  uint64_t u64 = 0;
  int32_t i32 = 0;
  switch (opcode) {
    case 0x4e:
      return push({std::monostate{}, 1});  // NONE
    case 0x88:
      return push({true, 1});  // NEWTRUE
    case 0x89:
      return push({false, 1});  // NEWFALSE
    case 0x4b:
      return take_number(u8) ? push({int64_t{u8}, 1}) : truncated();  // BININT1
    case 0x4d:
      return take_number(u16) ? push({int64_t{u16}, 1}) : truncated();  // BININT2
    case 0x4a:
      return take_number(i32) ? push({int64_t{i32}, 1}) : truncated();  // BININT
    case 0x58:
      return take_number(u32) ? push_text(u32) : truncated();  // BINUNICODE
    case 0x8c:
      return take_number(u8) ? push_text(u8) : truncated();  // SHORT_BINUNICODE
    case 0x8d:
      return take_number(u64) ? push_text(u64) : truncated();  // BINUNICODE8
    case 0x8a: {                                               // LONG1
      std::span<const uint8_t> raw;
      if (!take_number(u8)) return truncated();
      if (u8 > 8) return fail("an integer of more than 8 bytes", true);
      if (!take(u8, raw)) return truncated();
      uint64_t number = u8 > 0 && (raw[u8 - 1u] & 0x80) != 0 ? ~0ull : 0;
      for (size_t i = u8; i-- > 0;) number = number << 8 | raw[i];
      return push({static_cast<int64_t>(number), 1});
    }
    case 0x47: {  // BINFLOAT, big-endian
      if (!take_number(u64)) return truncated();
      u64 = __builtin_bswap64(u64);
      double number = 0;
      std::memcpy(&number, &u64, sizeof number);
      return push({number, 1});
    }
    default:
      return step_container(opcode);
  }
}

Reader::Step Reader::step(uint8_t opcode) {
  uint8_t protocol = 0;
  uint64_t frame_bytes = 0;
  switch (opcode) {
    case 0x80:  // PROTO
      if (!take_number(protocol)) return truncated();
      return protocol >= 2 && protocol <= 5 ? Step::go_on : fail("an unknown protocol", true);
    case 0x95:  // FRAME: its length only matters to unbuffered readers
      if (!take_number(frame_bytes)) return truncated();
      return Step::go_on;
    case 0x2e:
      return Step::stop;
    default:
      return step_scalar(opcode);
  }
}

PickleResult Reader::run() {
  Step last = Step::go_on;
  while (last == Step::go_on) {
    if (position_ >= bytes_.size()) {
      last = truncated();
      break;
    }
    opcode_at_ = position_;
    last = step(bytes_[position_++]);
  }
  if (last == Step::stop && stack_.size() == 1) {
    result_.root = stack_.back();
  } else if (last == Step::stop) {
    fail("something left over", false);
  }
  if (result_.truncated) {
    for (const Node& node : stack_) result_.salvaged.push_back(node);
  }
  return std::move(result_);
}

}  // namespace

int64_t PlainValue::integer_or(int64_t fallback) const {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return fallback;
}

bool PlainValue::boolean_or(bool fallback) const {
  const auto* flag = std::get_if<bool>(&value);
  return flag == nullptr ? fallback : *flag;
}

const PlainValue* PlainValue::find(std::string_view key) const {
  const PlainDict* entries = dict();
  if (entries == nullptr) return nullptr;
  const auto found = entries->find(key);
  return found == entries->end() ? nullptr : found->second.get();
}

std::string PlainValue::text_of(std::string_view key) const {
  const PlainValue* entry = find(key);
  const std::string* content = entry == nullptr ? nullptr : entry->text();
  return content == nullptr ? std::string() : *content;
}

int64_t PlainValue::integer_of(std::string_view key, int64_t fallback) const {
  const PlainValue* entry = find(key);
  return entry == nullptr ? fallback : entry->integer_or(fallback);
}

PickleResult read_pickle(std::span<const uint8_t> bytes) { return Reader(bytes).run(); }

}  // namespace rollcall::trace
