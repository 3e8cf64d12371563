// Version 2 of the interface: NCCL 2.24 and 2.25.
#include "profiler_plugin/adapter.h"

ROLLCALL_PROFILER(2, init_like_v1)
