#include "trace/import/text_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "trace/import/embedded_line.h"

namespace rollcall::trace {
namespace {

constexpr size_t kBlockBytes = 1 << 18;  // fits into the processor's second cache
constexpr char kEscape = '\x1b';
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::vector<std::string> marks_of(const std::vector<std::unique_ptr<LineParser>>& parsers) {
  std::vector<std::string> marks;
  for (const auto& parser : parsers) {
    for (const std::string_view mark : parser->marks()) marks.emplace_back(mark);
  }
  std::sort(marks.begin(), marks.end());
  marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
  return marks;
}

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

// Behind the last `c` of `text`; 0: there is none. std::string_view looks at each byte by itself.
size_t behind_last(std::string_view text, char c) {
  const void* at = text.empty() ? nullptr : ::memrchr(text.data(), c, text.size());
  return at == nullptr ? 0 : static_cast<size_t>(static_cast<const char*>(at) - text.data()) + 1;
}

// Behind the last line end of `text`; 0: there is none.
size_t behind_last_line(std::string_view text) {
  const size_t line_feed = behind_last(text, '\n');
  return line_feed + behind_last(text.substr(line_feed), '\r');
}

// Where the line that begins at `begin` ends, without its line end.
size_t line_end(std::string_view text, size_t begin) {
  const size_t line_feed = std::min(text.find('\n', begin), text.size());
  const size_t carriage_return = text.substr(0, line_feed).find('\r', begin);
  return std::min(line_feed, carriage_return);
}

size_t behind_line_end(std::string_view text, size_t end) {
  const bool is_pair = text.substr(end).starts_with("\r\n");
  return std::min(end + (is_pair ? 2 : 1), text.size());
}

// Begin of the line that `at` is in, not in front of `from`.
size_t line_begin(std::string_view text, size_t from, size_t at) {
  return from + behind_last_line(text.substr(from, at - from));
}

// Eight bytes at a time: most of a log is read for nothing but this. Each byte of `found` counts
// those at its place, for as long as it can: to count the bits of each word takes a call, for
// nobody may expect that the processor has popcount.
uint64_t line_feeds(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  constexpr size_t kWordsMax = 255;
  uint64_t count = 0;
  size_t at = 0;
  while (at + sizeof(uint64_t) <= text.size()) {
    const size_t words = std::min((text.size() - at) / sizeof(uint64_t), kWordsMax);
    uint64_t found = 0;
    for (size_t i = 0; i < words; ++i, at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, text.data() + at, sizeof word);
      word ^= kOnes * '\n';
      // The highest bit of each byte that is zero now, and of no other.
      const uint64_t zeros = ~(((word & kLow) + kLow) | word | kLow);
      found += zeros >> 7;
    }
    // The sum of its bytes: of pairs first, which then cannot overflow.
    count += (((found & kEven) + (found >> 8 & kEven)) * 0x0001000100010001) >> 48;
  }
  for (; at < text.size(); ++at) count += text[at] == '\n' ? 1 : 0;
  return count;
}

// Behind the escape that begins at `at`: colours and the like (CSI), titles and links (OSC), and
// the short ones. One that is not complete on its line is taken to be the escape byte alone.
size_t behind_escape(std::string_view text, size_t at) {
  const auto byte_at = [&](size_t i) { return i < text.size() ? text[i] : '\n'; };
  size_t i = at + 1;
  if (byte_at(i) == '[') {
    ++i;
    while (byte_at(i) >= 0x20 && byte_at(i) <= 0x3f) ++i;
    return byte_at(i) >= 0x40 && byte_at(i) <= 0x7e ? i + 1 : at + 1;
  }
  if (byte_at(i) == ']') {
    while (!is_line_end(byte_at(i)) && byte_at(i) != '\a' && byte_at(i) != kEscape) ++i;
    if (byte_at(i) == '\a') return i + 1;
    return byte_at(i) == kEscape && byte_at(i + 1) == '\\' ? i + 2 : at + 1;
  }
  while (byte_at(i) >= 0x20 && byte_at(i) <= 0x2f) ++i;
  return byte_at(i) >= 0x30 && byte_at(i) <= 0x7e ? i + 1 : at + 1;
}

std::string without_escapes(const std::string& text) {
  std::string kept;
  kept.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t escape = std::min(text.find(kEscape, at), text.size());
    kept.append(text, at, escape - at);
    at = escape < text.size() ? behind_escape(text, escape) : escape;
  }
  return kept;
}

// Characters, taking each for one column wide.
size_t columns(std::string_view line) {
  return static_cast<size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

template <typename Take>
void for_each_line_in(std::string_view block, Take&& take) {
  for (size_t at = 0; at < block.size();) {
    const size_t end = line_end(block, at);
    take(block.substr(at, end - at), end < block.size());
    at = behind_line_end(block, end);
  }
}

// The width at which a terminal broke the lines of a text that begins so; 0: none did, as far as
// the lengths tell. No line is longer, and several are exactly as long.
size_t broken_at(std::string_view head) {
  constexpr size_t kNarrowest = 40;
  constexpr size_t kWidest = 600;
  constexpr size_t kLinesMin = 3;
  std::map<size_t, size_t> lines_by_width;
  for_each_line_in(head, [&](std::string_view line, bool) { ++lines_by_width[columns(line)]; });
  if (lines_by_width.empty()) return 0;
  const auto [width, lines] = *lines_by_width.rbegin();
  return width >= kNarrowest && width <= kWidest && lines >= kLinesMin ? width : 0;
}

}  // namespace

TextReader::TextReader(ByteStream& stream, const std::vector<std::unique_ptr<LineParser>>& parsers)
    : stream_(stream), parsers_(parsers), marks_(marks_of(parsers)), block_(kBlockBytes) {
  for (const std::unique_ptr<LineParser>& parser : parsers) {
    if (parser->has_plain_lines()) plain_ = parser.get();
    if (!parser->noisy_mark().empty()) noisy_ = parser.get();
    const std::span<const std::string_view> short_marks = parser->short_marks();
    short_marks_.insert(short_marks_.end(), short_marks.begin(), short_marks.end());
  }
  if (noisy_ != nullptr) noisy_mark_ = noisy_->noisy_mark();
}

TextCounts TextReader::read() {
  while (!has_ended_) {
    const size_t whole = fill();
    take_block({block_.data(), whole});
    std::memmove(block_.data(), block_.data() + whole, held_ - whole);
    held_ -= whole;
  }
  return counts_;
}

// Returns how many bytes of the block are whole lines.
size_t TextReader::fill() {
  const size_t got = stream_.read(block_.data() + held_, block_.size() - held_);
  has_ended_ = got < block_.size() - held_;
  held_ += got;
  counts_.bytes += got;
  if (has_ended_) return held_;
  const size_t whole = behind_last_line({block_.data(), held_});
  if (whole != 0) return whole;
  skip_long_line();
  return has_ended_ ? held_ : behind_last_line({block_.data(), held_});
}

// Of the line that fills the block its begin stays, a byte more than give() accepts. The rest is
// read over; what comes with its end goes into the block.
void TextReader::skip_long_line() {
  held_ = kLineBytesMax + 1;
  std::vector<char> rest(kBlockBytes - held_);
  while (!has_ended_) {
    const size_t got = stream_.read(rest.data(), rest.size());
    counts_.bytes += got;
    has_ended_ = got < rest.size();
    const std::string_view text(rest.data(), got);
    const size_t end = text.find_first_of("\n\r");
    if (end == std::string_view::npos) continue;
    std::memcpy(block_.data() + held_, text.data() + end, got - end);
    held_ += got - end;
    return;
  }
}

void TextReader::take_block(std::string_view block) {
  std::string_view text = cleaned(block);
  joints_.clear();
  joints_counted_ = 0;
  if (is_first_) {
    constexpr size_t kHeadBytes = 1 << 16;
    is_first_ = false;
    const std::string_view head = text.substr(0, kHeadBytes);
    width_ =
        broken_at(head.substr(0, head.size() < kHeadBytes ? head.size() : behind_last_line(head)));
  }
  if (width_ != 0) text = unwrapped_lines(text);
  // Lines of one length that are all complete were not broken.
  if (counts_.joined == 0) width_ = 0;
  give_lines(text);
}

std::string_view TextReader::cleaned(std::string_view block) {
  const auto has = [&](char c) { return std::memchr(block.data(), c, block.size()) != nullptr; };
  if (block.empty() || (!has(kEscape) && !has('\0'))) return block;
  clean_.clear();
  for (size_t at = 0; at < block.size();) {
    const size_t begin = at;
    while (at < block.size() && block[at] != kEscape && block[at] != '\0') ++at;
    clean_.append(block.substr(begin, at - begin));
    if (at == block.size()) break;
    if (block[at] == kEscape) {
      at = behind_escape(block, at);
      continue;
    }
    at = std::min(block.find_first_not_of('\0', at), block.size());
    const bool is_within = !clean_.empty() && !is_line_end(clean_.back()) && at < block.size() &&
                           !is_line_end(block[at]);
    if (is_within) clean_ += kReplacement;
  }
  return clean_;
}

std::string_view TextReader::unwrapped_lines(std::string_view block) {
  joined_.clear();
  std::string_view line;  // the last one, as the terminal showed it
  size_t begin = 0;       // in `joined_`, of what it belongs to
  for_each_line_in(block, [&](std::string_view next, bool has_end) {
    const bool is_full = !line.empty() && columns(line) == width_ && joined_.ends_with('\n');
    const std::string_view known = std::string_view(joined_).substr(
        begin, joined_.size() - begin - (joined_.ends_with('\n') ? 1 : 0));
    if (is_full && known.size() < kLineBytesMax && goes_on(known, next)) {
      joined_.pop_back();
      joints_.push_back(joined_.size());
      ++counts_.joined;
    } else {
      begin = joined_.size();
    }
    joined_.append(next);
    if (has_end) joined_ += '\n';
    line = next;
  });
  return joined_;
}

bool TextReader::goes_on(std::string_view line, std::string_view next) {
  LinePrefix prefix;
  if (prefixes_.take(next, prefix).size() != next.size() || begins_as_nccl(next)) return false;
  // A call whose own prefix another process wrote over.
  constexpr size_t kNameMax = 24;
  if (next.substr(0, kNameMax).find(": opCount ") != std::string_view::npos) return false;
  // A launcher's lines may all be as long as the widest.
  if (marks_.find(next.substr(0, marks_.longest()), 0) == 0) return false;
  const std::string_view text = prefixes_.take(line, prefix);
  const bool is_unfinished = std::any_of(
      parsers_.begin(), parsers_.end(),
      [&](const std::unique_ptr<LineParser>& parser) { return parser->is_unfinished(text); });
  if (is_unfinished) return true;
  // Or a mark itself was broken.
  const size_t side = marks_.longest() - 1;
  const std::string_view tail = line.substr(line.size() - std::min(line.size(), side));
  const std::string seam = std::string(tail) + std::string(next.substr(0, side));
  for (size_t at = 0; (at = marks_.find(seam, at)) != std::string::npos; ++at) {
    const bool is_before = marks_.find(std::string_view(seam).substr(0, tail.size()), at) == at;
    if (at < tail.size() && !is_before) return true;
  }
  return false;
}

void TextReader::renew_marks() {
  size_t count = 0;
  for (const std::unique_ptr<LineParser>& parser : parsers_) count += parser->marks().size();
  if (std::exchange(marks_count_, count) != count) marks_ = MarkFinder(marks_of(parsers_));
}

void TextReader::give_lines(std::string_view block) {
  renew_marks();
  size_t counted = 0;
  size_t next_mark = 0;  // in front of which there is none; not known where it is not behind `at`
  for (size_t at = 0; at < block.size();) {
    const bool is_known = next_mark > at;
    const size_t mark = wants_next_ ? at : is_known ? next_mark : marks_.find(block, at);
    if (mark == std::string_view::npos) break;
    const size_t begin = line_begin(block, at, mark);
    const size_t end = line_end(block, begin);
    if (noisy_ != nullptr && !wants_next_ && block.substr(mark).starts_with(noisy_mark_)) {
      next_mark = marks_.find(block, mark + 1);
      const std::string_view line = block.substr(begin, end - begin);
      if (next_mark >= end && is_passed_over(line, mark - begin)) {
        at = behind_line_end(block, end);
        continue;
      }
    }
    counts_.lines += lines_within(block, counted, begin);
    counted = begin;
    give(block.substr(begin, end - begin), counts_.lines + 1);
    at = behind_line_end(block, end);
    if (plain_ == nullptr || !is_alone_) continue;
    counts_.lines += lines_within(block, counted, at);
    at += read_plain_lines(block.substr(at));
    counted = at;
  }
  counts_.lines += lines_within(block, counted, block.size());
  if (has_ended_ && !block.empty() && block.back() != '\n') ++counts_.lines;
  count_last_line(block);
}

// Of a line that a terminal broke, the first of its parts.
void TextReader::count_last_line(std::string_view block) {
  const size_t last = block.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return;
  const size_t begin = behind_last(block.substr(0, last), '\n');
  const auto joints_behind =
      std::count_if(joints_.begin(), joints_.end(), [&](size_t joint) { return joint >= begin; });
  const bool is_unended = has_ended_ && block.back() != '\n';
  const uint64_t ends_behind = line_feeds(block.substr(last)) + (is_unended ? 1 : 0);
  counts_.last_line = counts_.lines + 1 - ends_behind - static_cast<uint64_t>(joints_behind);
}

// As they stand in the file.
uint64_t TextReader::lines_within(std::string_view block, size_t from, size_t to) {
  uint64_t lines = line_feeds(block.substr(from, to - from));
  for (; joints_counted_ < joints_.size() && joints_[joints_counted_] < to; ++joints_counted_) {
    ++lines;
  }
  return lines;
}

// A line with the noisy mark that nobody has to look at.
bool TextReader::is_passed_over(std::string_view line, size_t mark) {
  if (line.size() > kLineBytesMax || line.find(kReplacement) != line.npos) return false;
  const bool holds_more =
      std::any_of(short_marks_.begin(), short_marks_.end(),
                  [&](std::string_view words) { return line.find(words) != line.npos; });
  if (holds_more || !noisy_->passes_over(line, mark)) return false;
  ++counts_.given;
  return true;
}

// As many as there are; how many bytes they have.
size_t TextReader::read_plain_lines(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t bytes = plain_->read_plain_line(text.substr(at));
    if (bytes == 0) break;
    at += bytes;
    ++counts_.given;
    counts_.lines += text[at - 1] == '\n' ? 1 : 0;
  }
  if (at != 0) wants_next_ = plain_->wants_next();
  return at;
}

void TextReader::give(std::string_view line, uint64_t number) {
  TextLine given;
  if (line.size() > kLineBytesMax) {
    line = line.substr(0, kLineBytesMax);
    ++counts_.cut;
    given.is_damaged = true;
  }
  if (line.find(kReplacement) != std::string_view::npos) {
    ++counts_.damaged;
    given.is_damaged = true;
  }
  given.whole = line;
  given.number = number;
  std::string_view text = embedded_line(line, message_);
  // JSON spells them, so cleaned() has not seen them.
  if (text.find(kEscape) != std::string_view::npos) text = message_ = without_escapes(message_);
  given.text = prefixes_.take(text, given.prefix);
  ++counts_.given;
  // A message out of JSON may hold several lines.
  const bool may_be_plain = plain_ != nullptr && is_alone_ && !given.is_damaged &&
                            given.text.find('\n') == std::string_view::npos;
  if (may_be_plain && plain_->read_plain_line(given.text) != 0) {
    wants_next_ = plain_->wants_next();
    return;
  }
  wants_next_ = false;
  is_alone_ = true;
  for (const std::unique_ptr<LineParser>& parser : parsers_) {
    parser->read_line(given);
    const bool wants = parser->wants_next();
    wants_next_ = wants_next_ || wants;
    is_alone_ = is_alone_ && (!wants || parser.get() == plain_);
  }
}

}  // namespace rollcall::trace
