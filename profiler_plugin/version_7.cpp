// Version 7 of the interface: NCCL 2.31 and later.
#include "profiler_plugin/adapter.h"

ROLLCALL_PROFILER(7, init_like_v5)
