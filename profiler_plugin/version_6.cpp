// Version 6 of the interface: NCCL 2.29 and 2.30.
#include "profiler_plugin/adapter.h"

ROLLCALL_PROFILER(6, init_like_v5)
