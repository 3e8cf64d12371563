// Version 3 of the interface: NCCL 2.26.
#include "profiler_plugin/adapter.h"

ROLLCALL_PROFILER(3, init_like_v1)
