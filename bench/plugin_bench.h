// What the profiler plugin costs: a whole set of NCCL's events per collective, in this plugin and
// in one that does nothing, from the same caller.
#pragma once

#include "bench/result_table.h"

namespace rollcall::bench {

void bench_plugin(ResultTable& table, bool quick);
// Its memory over ROLLCALL_BENCH_COLLECTIVES collectives (10 million, a tenth where `quick`).
void bench_plugin_memory(ResultTable& table, bool quick);

}  // namespace rollcall::bench
