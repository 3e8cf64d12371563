// Version 1 of the interface: NCCL 2.23.
#include "profiler_plugin/adapter.h"

ROLLCALL_PROFILER(1, init_like_v1)
