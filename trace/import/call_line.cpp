#include "trace/import/call_line.h"

#include <array>
#include <cstring>

namespace rollcall::trace {
namespace {

constexpr uint8_t kNoDigit = 0xff;

// What each byte is worth as a digit, up to base 16.
constexpr std::array<uint8_t, 256> digit_values() {
  std::array<uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (uint8_t digit = 0; digit < 10; ++digit) values[static_cast<size_t>('0') + digit] = digit;
  for (uint8_t digit = 0; digit < 6; ++digit) {
    values[static_cast<size_t>('a') + digit] = static_cast<uint8_t>(10 + digit);
  }
  return values;
}
constexpr std::array<uint8_t, 256> kDigits = digit_values();

// What a name of a host is made of.
constexpr std::array<bool, 256> host_bytes() {
  std::array<bool, 256> is_part{};
  for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyz0123456789-._"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
    is_part[static_cast<uint8_t>(c)] = true;
  }
  return is_part;
}
constexpr std::array<bool, 256> kHostBytes = host_bytes();

// Moves from left to right; what was not found is remembered, and asked for once.
class Scanner {
 public:
  explicit Scanner(std::string_view text)
      : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  bool is_right() const { return is_right_; }
  const char* at() const { return at_; }
  size_t taken() const { return static_cast<size_t>(at_ - begin_); }

  void expect(std::string_view word) {
    is_right_ = is_right_ && static_cast<size_t>(end_ - at_) >= word.size() &&
                std::memcmp(at_, word.data(), word.size()) == 0;
    if (is_right_) at_ += word.size();
  }
  bool take(std::string_view word) {
    const bool is_there = is_right_ && static_cast<size_t>(end_ - at_) >= word.size() &&
                          std::memcmp(at_, word.data(), word.size()) == 0;
    if (is_there) at_ += word.size();
    return is_there;
  }
  // Up to the first byte that is none of a host's.
  std::string_view host() {
    const char* const first = at_;
    while (at_ != end_ && kHostBytes[static_cast<uint8_t>(*at_)]) ++at_;
    is_right_ = is_right_ && at_ != first;
    return {first, static_cast<size_t>(at_ - first)};
  }
  // A number of so many digits at most, and one at least: it cannot overflow then.
  template <unsigned base>
  uint64_t number(unsigned digits_max) {
    uint64_t value = 0;
    unsigned digits = 0;
    for (; at_ != end_ && digits <= digits_max; ++at_, ++digits) {
      const uint8_t digit = kDigits[static_cast<uint8_t>(*at_)];
      if (digit >= base) break;
      value = value * base + digit;
    }
    is_right_ = is_right_ && digits != 0 && digits <= digits_max;
    return value;
  }
  uint64_t decimal() { return number<10>(18); }
  uint32_t decimal32() { return static_cast<uint32_t>(number<10>(9)); }
  uint64_t hex() { return number<16>(16); }
  // As printf() writes it: "0x7f2e", and "(nil)".
  uint64_t pointer() {
    if (take("(nil)")) return 0;
    expect("0x");
    return hex();
  }
  void expect_line_end() {
    if (at_ == end_) return;
    take("\r");
    expect("\n");
  }

 private:
  const char* begin_;
  const char* at_;
  const char* end_;
  bool is_right_ = true;
};

std::optional<OpKind> take_kind(Scanner& scanner) {
  const std::string_view name = scanner.host();
  scanner.expect(": opCount ");
  return scanner.is_right() ? kind_named(name) : std::nullopt;
}

}  // namespace

std::optional<OpKind> kind_named(std::string_view name) {
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    if (kOpTraits[kind].name == name) return static_cast<OpKind>(kind);
  }
  return std::nullopt;
}

std::optional<CallLine> read_call_line(std::string_view text) {
  CallLine line;
  Scanner scanner(text);
  line.host = scanner.host();
  scanner.expect(":");
  line.pid = scanner.decimal32();
  scanner.expect(":");
  line.tid = scanner.decimal32();
  scanner.expect(" [");
  scanner.decimal32();
  scanner.expect("] NCCL INFO ");
  if (!scanner.is_right()) return std::nullopt;
  const char* const said = scanner.at();
  const std::optional<OpKind> kind = take_kind(scanner);
  if (!kind) return std::nullopt;
  line.kind = *kind;
  line.op_count = scanner.hex();
  scanner.expect(" sendbuff ");
  scanner.pointer();
  scanner.expect(" recvbuff ");
  scanner.pointer();
  scanner.expect(" count ");
  line.count = scanner.decimal();
  scanner.expect(" datatype ");
  line.datatype = static_cast<int64_t>(scanner.decimal());
  scanner.expect(" op ");
  line.reduction = static_cast<int64_t>(scanner.decimal());
  scanner.expect(" root ");
  line.root = static_cast<int64_t>(scanner.decimal());
  scanner.expect(" comm 0x");
  line.comm = scanner.hex();
  line.said = {said, static_cast<size_t>(scanner.at() - said)};
  scanner.expect(" [nranks=");
  line.nranks = static_cast<int32_t>(scanner.decimal32());
  scanner.expect("] stream ");
  line.stream = scanner.pointer();
  if (scanner.take(" task ")) {  // of RCCL
    scanner.decimal32();
    scanner.expect(" globalrank ");
    scanner.decimal32();
  }
  scanner.expect_line_end();
  line.bytes = scanner.taken();
  if (!scanner.is_right() || line.comm == 0) return std::nullopt;
  return line;
}

}  // namespace rollcall::trace
