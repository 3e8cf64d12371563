#include "report/terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <unordered_set>

#include "core/base/text.h"

namespace rollcall::report {
namespace {

struct Range {
  int32_t first;
  int32_t last;
};

std::vector<Range> ranges_of(std::vector<int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<Range> ranges;
  for (const int32_t rank : ranks) {
    if (!ranges.empty() && ranges.back().last + 1 == rank) {
      ranges.back().last = rank;
    } else {
      ranges.push_back({rank, rank});
    }
  }
  return ranges;
}

void append_range(std::string& text, const Range& range) {
  if (!text.empty()) text += ',';
  text += fmt::format("{}", range.first);
  if (range.last == range.first) return;
  text += fmt::format("-{}", range.last);
}

// Bytes of the UTF-8 character at the front of `text`; 0 when it is broken there.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 && lead <= 0xf4 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (lead > 0xf4 || length == 0 || text.size() < length) return 0;
  for (size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond Unicode.
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

// Of a whole character: what drives a terminal (C1 too), turns the rest of a line around, or ends
// it.
bool is_control(std::string_view character) {
  const unsigned char lead = static_cast<unsigned char>(character[0]);
  if (lead < 0x20 || lead == 0x7f) return true;
  if (character.size() == 2) return character >= "\xc2\x80" && character <= "\xc2\x9f";
  return (character >= "\xe2\x80\xa8" && character <= "\xe2\x80\xae") ||  // U+2028 to U+202E
         (character >= "\xe2\x81\xa6" && character <= "\xe2\x81\xa9");    // U+2066 to U+2069
}

std::string cleaned(std::string_view text, bool keep_control) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0 || (!keep_control && is_control(text.substr(0, length)))) {
      clean += '?';
    } else {
      clean.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

}  // namespace

std::string rank_list(std::vector<int32_t> ranks) {
  std::string text;
  for (const Range& range : ranges_of(std::move(ranks))) append_range(text, range);
  return text;
}

std::string ranks_in_words(const std::vector<int32_t>& ranks, size_t ranges_max) {
  const std::vector<Range> ranges = ranges_of(ranks);
  if (ranges.empty()) return "no rank";
  std::string list;
  size_t others = 0;
  for (size_t at = 0; at < ranges.size(); ++at) {
    if (at < ranges_max) {
      append_range(list, ranges[at]);
    } else {
      others += static_cast<size_t>(ranges[at].last - ranges[at].first) + 1;
    }
  }
  const bool one = ranges.size() == 1 && ranges[0].first == ranges[0].last;
  std::string text = fmt::format("{} {}", one ? "rank" : "ranks", list);
  if (others > 0) text += fmt::format(" and {} others", others);
  return text;
}

std::string key_hex(const CommKey& key) { return fmt::format("{:016x}{:016x}", key.high, key.low); }

std::string address_hex(uint64_t address) { return fmt::format("{:#x}", address); }

std::string duration(int64_t span_ns) {
  if (span_ns < 0) return fmt::format("-{}", duration(span_ns == INT64_MIN ? INT64_MAX : -span_ns));
  const double seconds = static_cast<double>(span_ns) / 1e9;
  if (span_ns < 1'000) return fmt::format("{} ns", span_ns);
  if (span_ns < 1'000'000) return fmt::format("{:.0f} us", std::floor(seconds * 1e6));
  if (span_ns < 1'000'000'000) return fmt::format("{:.0f} ms", std::floor(seconds * 1e3));
  if (seconds < 60) return fmt::format("{:.1f} s", std::floor(seconds * 10) / 10);
  const int64_t whole = span_ns / 1'000'000'000;
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string utc_time(int64_t epoch_ns) {
  if (epoch_ns <= 0) return "unknown";
  const std::time_t seconds = epoch_ns / 1'000'000'000;
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "unknown";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     epoch_ns / 1'000'000 % 1000);
}

std::string iso_time(int64_t epoch_ns) {
  std::string text = utc_time(epoch_ns);
  if (text == "unknown") return {};
  text[10] = 'T';
  return text.substr(0, text.size() - 4) + 'Z';
}

std::string byte_size(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string grouped(uint64_t value) {
  std::string digits = fmt::format("{}", value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string nccl_version(std::string_view code) {
  uint64_t value = 0;
  if (!parse_decimal(code, value) || value < 1000) return {};
  // Until 2.8 the code was major * 1000 + minor * 100 + patch.
  if (value < 10000) {
    return fmt::format("{}.{}.{}", value / 1000, value / 100 % 10, value % 100);
  }
  return fmt::format("{}.{}.{}", value / 10000, value / 100 % 100, value % 100);
}

std::string cuda_version(std::string_view code) {
  uint64_t value = 0;
  if (!parse_decimal(code, value) || value < 1000) return {};
  return fmt::format("{}.{}", value / 1000, value % 1000 / 10);
}

std::string datatype_name(uint8_t datatype) {
  if (datatype == kUnknown8) return {};
  const std::string_view name = name_of_datatype(datatype);
  return name.empty() ? fmt::format("dtype{}", datatype) : std::string(name);
}

std::string reduction_name(uint8_t reduction) {
  if (reduction == kUnknown8) return {};
  const std::string_view name = name_of_reduction(reduction);
  return name.empty() ? fmt::format("redop{}", reduction) : std::string(name);
}

std::string algorithm_name(uint8_t method) {
  const std::string_view name = name_of_algorithm(method);
  return name.empty() ? fmt::format("unknown {}", algorithm_of(method)) : std::string(name);
}

std::string protocol_name(uint8_t method) {
  const std::string_view name = name_of_protocol(method);
  return name.empty() ? fmt::format("unknown {}", protocol_of(method)) : std::string(name);
}

std::string call_in_words(const trace::Op& op) {
  std::string text(name_of(op.kind));
  const OpTraits& traits = traits_of(op.kind);
  if (is_mark(op.kind)) return text;
  text += fmt::format(" {}", op.count);
  if (const std::string name = datatype_name(op.datatype); !name.empty()) text += " " + name;
  if (traits.reduces && op.reduction != kUnknown8) text += " " + reduction_name(op.reduction);
  if (traits.rooted) text += fmt::format(" root {}", op.root_or_peer);
  if (op.kind == OpKind::Recv || op.kind == OpKind::WaitSignal) {
    text += fmt::format(" from {}", op.root_or_peer);
  } else if (traits.family == OpFamily::p2p || traits.family == OpFamily::rma) {
    text += fmt::format(" to {}", op.root_or_peer);
  }
  return text;
}

std::string api_name(const trace::Op& op) {
  if (op.kind == OpKind::GraphLaunch) return "cuGraphLaunch";
  if (op.kind == OpKind::Broadcast && (op.flags & kOpLegacyBcast) != 0) return "ncclBcast";
  return fmt::format("nccl{}{}", name_of(op.kind), (op.flags & kOpConfigCall) != 0 ? "Config" : "");
}

// CUPTI gives the symbol: "_Z", the number of characters of a name, the name, the parameters. What
// has another form stays as it is; a whole demangler is too much for text that a job may have
// written.
std::string kernel_name(const trace::Process& process, const trace::Op& op) {
  if (op.kernel == 0) return "";
  const auto found = process.meta.find(fmt::format("kernel.{}", op.kernel));
  if (found == process.meta.end()) return "";
  const std::string_view symbol = found->second;
  constexpr std::string_view kDigits = "0123456789";
  const size_t digits = symbol.find_first_not_of(kDigits, 2);
  uint64_t characters = 0;
  const bool is_mangled = symbol.substr(0, 2) == "_Z" && digits != std::string_view::npos &&
                          parse_decimal(symbol.substr(2, digits - 2), characters);
  if (!is_mangled || characters > symbol.size() - digits) return valid_utf8(symbol);
  return valid_utf8(symbol.substr(digits, characters));
}

std::string_view file_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::vector<int32_t> process_labels(const trace::Run& run) {
  int32_t next = 0;
  for (const trace::Process& process : run.processes) next = std::max(next, process.job_rank + 1);
  std::vector<int32_t> labels;
  std::unordered_set<int32_t> taken;
  for (const trace::Process& process : run.processes) {
    const bool own = process.job_rank >= 0 && taken.insert(process.job_rank).second;
    labels.push_back(own ? process.job_rank : next++);
  }
  return labels;
}

bool has_stale_values(const trace::Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const trace::Process& process) {
    return process.meta.contains("not_emulated.kernels");
  });
}

std::string process_title(const trace::Process& process) {
  std::string name = process.job_rank >= 0 ? fmt::format("rank {}", process.job_rank) : "no rank";
  if (process.gpu >= 0) name += fmt::format(" (GPU {})", process.gpu);
  return name + fmt::format(" {} pid {}", process.host, process.pid);
}

std::string meta_of(const trace::Process& process, const char* key) {
  const auto found = process.meta.find(key);
  return found == process.meta.end() ? std::string() : found->second;
}

std::string printable(std::string_view text) { return cleaned(text, false); }

std::string valid_utf8(std::string_view text) { return cleaned(text, true); }

}  // namespace rollcall::report
