// Version 5 of the interface: NCCL 2.28.
#include "profiler_plugin/adapter.h"

ROLLCALL_PROFILER(5, init_like_v5)
