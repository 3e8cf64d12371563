// The numbers of the recorder: cost of a record, threads, sustained rate, memory, bytes of history.
#pragma once

#include "bench/result_table.h"

namespace rollcall::bench {

// `quick`: shorter runs for continuous integration; the numbers are noisier.
void bench_record(ResultTable& table, bool quick);
void bench_threads(ResultTable& table, bool quick);
void bench_sustained(ResultTable& table, bool quick);
void bench_history_bytes(ResultTable& table, bool quick);

}  // namespace rollcall::bench
