// How ranks, calls and spans of time are written in sentences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/record/index.h"

namespace rollcall::analysis {

// "rank 3", or "pid 4711 on node7" where the job gave no rank.
std::string rank_text(const trace::Process& process);
// Of one that is gone. What is dead now may have been stopped before: both silence the heartbeat.
const char* death_text(bool is_live_job);
// What to do about a process that somebody stopped; `who` names it.
std::string continue_text(const trace::Process& process, std::string_view who);
// The same for several, compressed: "ranks 0-2,4".
std::string processes_text(const trace::Run& run, std::vector<uint32_t> processes);
// How many are analysed: "4 processes", or "8 GPUs of 2 processes".
std::string everyone_text(const Index& index);
// Job ranks of a communicator's members, compressed: "ranks 0-3".
std::string ranks_text(const Index& index, const Group& group);
// "0-2,4", and "1-249 step 8" of five and more; sorted and without repetitions.
std::string number_list(std::vector<int32_t> numbers);

// What a transfer waits for on the other side, and the word for it: "receive", "send", "signal".
OpKind other_side_of(OpKind kind);
const char* other_side_text(OpKind kind);

// "AllReduce of 1024 float32 (sum)", "Broadcast of 8 int32 from root 0", "Send of 4 uint8 to 3".
std::string call_text(const trace::Op& op);
// The same of a process's call. Root and peer are numbers in its communicator, as the program
// passed them: where the job numbers that rank otherwise, its number there is told, too, as in
// "Send of 4 uint8 to 1 (rank 5)".
std::string call_text(const Index& index, uint32_t process, const trace::Op& op);
// "inside AllReduce of 4 float32 (sum)" of a call that NCCL is not through with.
std::string inside_text(const Index& index, uint32_t process, uint32_t op);
// ", called at train.py:63 metrics_of" where the script's lines were recorded, else nothing.
std::string call_site_text(const trace::Process& process, const trace::Op& op);
// "AllReduce 1024 float32 sum": for tables.
std::string short_call_text(const trace::Op& op);
std::string datatype_text(uint8_t datatype);
std::string reduction_text(uint8_t reduction);
// Bytes of the count; 0 unknown.
uint64_t bytes_of(const trace::Op& op);
// "1 time", "3 times".
std::string times_text(uint64_t times);
// "12.3 s", "45 ms".
std::string span_text(int64_t span_ns);

}  // namespace rollcall::analysis
