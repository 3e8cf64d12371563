// How calls are written.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>

#include "trace/model.h"

namespace rollcall::analysis {

// "AllReduce of 1024 float32 (sum)", "Broadcast of 8 int32 from root 0", "Send of 4 uint8 to 3".
std::string call_text(const trace::Op& op);
// "AllReduce 1024 float32 sum": for tables.
std::string short_call_text(const trace::Op& op);
// ", called at train.py:63 metrics_of" where the script's lines were recorded, else nothing.
std::string call_site_text(const trace::Process& process, const trace::Op& op);
// "train.py:63 metrics_of": its innermost line, without the folder; empty where that is not on
// file.
std::string innermost_line_text(const trace::Process& process, const trace::Op& op);
std::string datatype_text(uint8_t datatype);
std::string reduction_text(uint8_t reduction);
// What a transfer waits for on the other side, and the word for it: "receive", "send", "signal".
OpKind other_side_of(OpKind kind);
const char* other_side_text(OpKind kind);
// Bytes of the count; 0 unknown.
uint64_t bytes_of(const trace::Op& op);

}  // namespace rollcall::analysis
