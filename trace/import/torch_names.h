// How PyTorch calls collectives and datatypes, in Flight Recorder dumps and profiler traces alike.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/format/vocabulary.h"

namespace rollcall::trace {

// "_allgather_base", "all_reduce_barrier"; nothing for what is no call of NCCL, such as "wait".
std::optional<OpKind> torch_kind_of(std::string_view name);
// "BFloat16"; kUnknown8 for others.
uint8_t torch_datatype_of(std::string_view name);
// Of a dump, whose rank stands in its name only: behind "rank" ("dump_rank3_attempt_1"), else the
// last digits of the last part between dots that has any at its end ("_dump_3", "dump.3"); -1:
// none.
int32_t rank_in_file_name(const std::string& path);
// Of "[0, 1, 2]" and the like, in their order.
std::vector<int32_t> numbers_in(std::string_view text);

}  // namespace rollcall::trace
