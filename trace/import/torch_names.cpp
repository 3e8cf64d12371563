#include "trace/import/torch_names.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace rollcall::trace {
namespace {

struct NameRule {
  std::string_view part;  // of the profiling name behind the colon
  OpKind kind;
};
// Longer names first: the first that the name starts with decides.
constexpr NameRule kNameRules[] = {
    {"all_gather_into_tensor_coalesced", OpKind::AllGather},
    {"reduce_scatter_tensor_coalesced", OpKind::ReduceScatter},
    {"ALLGATHER_coalesced", OpKind::AllGather},
    {"REDUCE_SCATTER_coalesced", OpKind::ReduceScatter},
    {"ALLREDUCE_coalesced", OpKind::AllReduce},
    {"BROADCAST_coalesced", OpKind::Broadcast},
    {"all_reduce_barrier", OpKind::AllReduce},
    {"allreduce_coalesced", OpKind::AllReduce},
    {"all_reduce", OpKind::AllReduce},
    {"allreduce", OpKind::AllReduce},
    {"barrier", OpKind::AllReduce},
    {"_all_gather_base", OpKind::AllGather},
    {"all_gather", OpKind::AllGather},
    {"_allgather_base", OpKind::AllGather},
    {"allgather", OpKind::AllGather},
    {"_reduce_scatter_base", OpKind::ReduceScatter},
    {"reduce_scatter", OpKind::ReduceScatter},
    {"allGather", OpKind::AllGather},
    {"reduceScatter", OpKind::ReduceScatter},
    {"allToAll", OpKind::AlltoAll},
    {"all_to_all", OpKind::AlltoAll},
    {"alltoall", OpKind::AlltoAll},
    {"_broadcast_oop", OpKind::Broadcast},
    {"broadcast", OpKind::Broadcast},
    {"_reduce_oop", OpKind::Reduce},
    {"reduce", OpKind::Reduce},
    {"gather", OpKind::Gather},
    {"scatter", OpKind::Scatter},
    {"send", OpKind::Send},
    {"recv", OpKind::Recv},
};

constexpr std::pair<std::string_view, uint8_t> kDtypes[] = {
    {"Char", 0},     {"Byte", 1},           {"Bool", 1},         {"Int", 2},
    {"Long", 4},     {"Half", 6},           {"Float", 7},        {"Double", 8},
    {"BFloat16", 9}, {"Float8_e4m3fn", 10}, {"Float8_e5m2", 11},
};

// The digits at `at`; -1 where there are none, or too many for a rank.
int32_t digits_at(std::string_view name, size_t at) {
  constexpr size_t kDigitsMax = 7;
  const size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
  uint64_t rank = 0;
  if (end - at > kDigitsMax || !parse_decimal(name.substr(at, end - at), rank)) return -1;
  return static_cast<int32_t>(rank);
}

}  // namespace

std::optional<OpKind> torch_kind_of(std::string_view name) {
  for (const NameRule& rule : kNameRules) {
    if (name.substr(0, rule.part.size()) == rule.part) return rule.kind;
  }
  return std::nullopt;
}

uint8_t torch_datatype_of(std::string_view name) {
  for (const auto& [text, number] : kDtypes) {
    if (name == text) return number;
  }
  return kUnknown8;
}

std::vector<int32_t> numbers_in(std::string_view text) {
  std::vector<int32_t> numbers;
  int64_t number = -1;
  for (const char character : text) {
    if (character >= '0' && character <= '9' && number < (1 << 24)) {
      number = (number < 0 ? 0 : number) * 10 + (character - '0');
    } else if (number >= 0) {
      numbers.push_back(static_cast<int32_t>(number));
      number = -1;
    }
  }
  if (number >= 0) numbers.push_back(static_cast<int32_t>(number));
  return numbers;
}

int32_t rank_in_file_name(const std::string& path) {
  std::string_view name{path};
  name.remove_prefix(name.find_last_of('/') + 1);
  constexpr std::string_view kRank = "rank";
  for (size_t at = name.rfind(kRank); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : name.rfind(kRank, at - 1)) {
    size_t digits = at + kRank.size();
    if (digits < name.size() &&
        (name[digits] == '_' || name[digits] == '-' || name[digits] == '=')) {
      ++digits;
    }
    const int32_t rank = digits_at(name, digits);
    if (rank >= 0) return rank;
  }
  for (;;) {
    const int32_t rank = digits_at(name, name.find_last_not_of("0123456789") + 1);
    if (rank >= 0) return rank;
    const size_t dot = name.find_last_of('.');
    if (dot == std::string_view::npos) return -1;
    name = name.substr(0, dot);
  }
}

}  // namespace rollcall::trace
