// How single things are spelled in every report: a rank list, a time, a key, a call. One spelling
// each, so that a text and a JSON of one run name the same thing alike.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/model.h"

namespace rollcall::report {

// "0-2,4-7"; sorted and without repeats. Empty for an empty list.
std::string rank_list(std::vector<int32_t> ranks);
// "rank 3", "ranks 0-2,4-7"; at most `ranges_max` ranges are written, then "and 12 others".
std::string ranks_in_words(const std::vector<int32_t>& ranks, size_t ranges_max = 8);
// 32 hexadecimal digits, without prefix.
std::string key_hex(const CommKey& key);
// "0x7f12a0"
std::string address_hex(uint64_t address);
// "850 us", "12.3 s", "4 min 10 s", "2 h 5 min"; negative spans are written with their sign.
std::string duration(int64_t span_ns);
// "2026-11-21 02:14:04.123 UTC"; "unknown" for 0.
std::string utc_time(int64_t epoch_ns);
// The same for programs, ISO 8601: "2026-11-21T02:14:04.123Z"; empty for 0.
std::string iso_time(int64_t epoch_ns);
// "4.0 MiB"
std::string byte_size(uint64_t bytes);
// "1,234,567"
std::string grouped(uint64_t value);
// NCCL's version code in its own words: 22907 -> "2.29.7", 2804 -> "2.8.4". Empty: not a code.
std::string nccl_version(std::string_view code);
// CUDA's: 12040 -> "12.4". Empty: not a code.
std::string cuda_version(std::string_view code);
// "float32", "dtype13"; empty when the record does not tell.
std::string datatype_name(uint8_t datatype);
std::string reduction_name(uint8_t reduction);
// Of OpRecord::method; "unknown 12" where a newer recorder has a name for it.
std::string algorithm_name(uint8_t method);
std::string protocol_name(uint8_t method);
// "AllReduce 1024 float32 sum", "Broadcast 8 int32 root 2", "Send 4 float16 to 3".
std::string call_in_words(const trace::Op& op);
// "ncclAllReduce"; the function the job called.
std::string api_name(const trace::Op& op);
// "ncclDevKernel_AllReduce_Sum_f32_RING_LL": the kernel that carried the operation out, without
// its parameters; empty when that is not on record.
std::string kernel_name(const trace::Process& process, const trace::Op& op);
// The last component of a path.
std::string_view file_name(std::string_view path);
// A label for every process: its job rank, else its position after all job ranks, so that two
// processes never share one, whatever the files claim.
std::vector<int32_t> process_labels(const trace::Run& run);
// "rank 3 node0 pid 4711"; of a process that drives several GPUs "rank 3 (GPU 1) node0 pid 4711".
std::string process_title(const trace::Process& process);
// A value of the process's meta text, as it was written; empty when it is not there.
std::string meta_of(const trace::Process& process, const char* key);
// Whether a process launched kernels on an emulated GPU, where they do nothing.
bool has_stale_values(const trace::Run& run);
// Text from a file, safe for a terminal: control characters and broken UTF-8 become '?'.
std::string printable(std::string_view text);
// Broken UTF-8 becomes '?', everything else stays: what a JSON string can hold.
std::string valid_utf8(std::string_view text);

}  // namespace rollcall::report
