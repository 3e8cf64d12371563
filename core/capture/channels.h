// Channels: what proxy operations move and wait for. Lock-free; a process's first call may lock.
// For life and threads see recorder.h.
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"

namespace rollcall::capture {

// The entry of this channel, made where it is new, with one more operation in progress.
// kChannelUnknown where `pid` is another process, and, counted, when the table is full. Lock-free,
// as all of these; a process's first call may lock.
uint32_t open_channel(int32_t pid, uint32_t comm_index, int32_t peer, uint8_t channel,
                      bool is_send) noexcept;
void close_channel_op(uint32_t channel) noexcept;
// What is heard of a step: how long it waited for what (`none`: for nothing that it said), and what
// the channel waits for from now on, since when. A step that is done has moved so many bytes.
void step_waited(uint32_t channel, ChannelWait waited, uint64_t waited_ticks, ChannelWait waits,
                 uint64_t since_ticks) noexcept;
void step_done(uint32_t channel, ChannelWait waited, uint64_t waited_ticks, ChannelWait waits,
               uint64_t since_ticks, uint64_t bytes) noexcept;

}  // namespace rollcall::capture
