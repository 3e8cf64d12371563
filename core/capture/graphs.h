// CUDA graphs: what the driver is asked to do with them, told when it has done so. Each is harmless
// for graphs without captured operations, and where GPUs are not timed. For life and threads see
// recorder.h. All of it is [cold] but the launches.
#pragma once

#include "core/capture/operations.h"

namespace rollcall::capture {

void graph_captures_into(void* graph) noexcept;  // cuStreamBeginCaptureToGraph: before it
void graph_cloned(void* clone, void* graph) noexcept;
void graph_destroyed(void* graph) noexcept;  // before it: the handle may be another's at once
// Instantiated, or brought up to date from this graph.
void graph_instantiated(const void* executable, void* graph) noexcept;
// The driver made no executable of it.
void graph_refused(void* graph, int result) noexcept;
void graph_executable_destroyed(const void* executable) noexcept;  // before it
// From now on the process's launches of graphs are told. Also before the recorder starts.
void graph_launches_watched() noexcept;
// Around the launch. The token is empty where the executable has no captured operations, or the
// launch goes into a capture itself. Cheap for all others.
OpToken begin_graph_launch(const void* executable, const void* stream) noexcept;
// The driver refused it, of which there was a token. [cold]
void refuse_graph_launch(const void* executable) noexcept;

}  // namespace rollcall::capture
