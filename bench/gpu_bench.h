// What GPU timing costs the launching thread beside the driver's own work.
#pragma once

#include "bench/result_table.h"

namespace rollcall::bench {

void bench_gpu_marks(ResultTable& table, bool quick);

}  // namespace rollcall::bench
