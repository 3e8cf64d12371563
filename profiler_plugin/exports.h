// The seven structures that NCCL looks up: ncclProfiler_v1 to ncclProfiler_v7.
#pragma once

#include "profiler_plugin/descriptors.h"

namespace rollcall::profiler {

inline constexpr unsigned kVersions = 7;

// The name that NCCL logs; behind its end, for other copies of this plugin, the version.
extern const char kName[];

// By version, from 1.
void* const* exported_profilers() noexcept;

// From now on every init starts nothing and asks for no events: this copy is not the one in use.
void switch_off() noexcept;
bool is_switched_off() noexcept;

}  // namespace rollcall::profiler

extern "C" {
extern rollcall::profiler::v1::Profiler ncclProfiler_v1;
extern rollcall::profiler::v2::Profiler ncclProfiler_v2;
extern rollcall::profiler::v3::Profiler ncclProfiler_v3;
extern rollcall::profiler::v4::Profiler ncclProfiler_v4;
extern rollcall::profiler::v5::Profiler ncclProfiler_v5;
extern rollcall::profiler::v6::Profiler ncclProfiler_v6;
extern rollcall::profiler::v7::Profiler ncclProfiler_v7;
}
