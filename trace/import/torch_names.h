// How PyTorch calls collectives and datatypes, in Flight Recorder dumps and profiler traces alike.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/format/vocabulary.h"

namespace rollcall::trace {

// "_allgather_base", "all_reduce_barrier"; nothing for what is no call of NCCL, such as "wait".
std::optional<OpKind> torch_kind_of(std::string_view name);
// "BFloat16"; kUnknown8 for others.
uint8_t torch_datatype_of(std::string_view name);
// Of "[0, 1, 2]" and the like, in their order.
std::vector<int32_t> numbers_in(std::string_view text);

}  // namespace rollcall::trace
