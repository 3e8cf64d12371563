// Version 4 of the interface: NCCL 2.27.
#include "profiler_plugin/adapter.h"

ROLLCALL_PROFILER(4, init_like_v4)
