// How numbers are written: lists of them, spans of time.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::analysis {

// "0-2,4", and "1-249 step 8" of five and more; sorted and without repetitions.
std::string number_list(std::vector<int32_t> numbers);
// "1 time", "3 times".
// "1 is", "3 are": a number with the word that goes with it.
std::string number_text(uint64_t number, std::string_view one, std::string_view several);
std::string times_text(uint64_t times);
// "12.3 s", "45 ms".
std::string span_text(int64_t span_ns);

}  // namespace rollcall::analysis
