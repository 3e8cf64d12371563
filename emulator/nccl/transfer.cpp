// Sends and receives. Both sides announce a message in their channel; they match by number. The
// bytes flow through the channel's ring. A message whose sizes differ never moves: both sides wait
// for ever, as with NCCL.
#include <algorithm>
#include <cstring>

#include "emulator/device/device.h"
#include "emulator/nccl/settings.h"
#include "emulator/nccl/unit.h"

namespace emu_nccl {

void Transfer::begin(Communicator& communicator) {
  number_ = sends_ ? communicator.sends_begun[peer_]++ : communicator.receives_begun[peer_]++;
}

bool Transfer::advance(Communicator& communicator) {
  if (phase_ == kDone || phase_ == kStuck) return false;
  if (phase_ == kLinger) {
    if (now_ns() < over_ns_) return false;
    phase_ = kDone;
    return true;
  }
  Region& region = *communicator.region;
  return sends_ ? advance_send(communicator, region.channel(communicator.rank, peer_))
                : advance_receive(communicator, region.channel(peer_, communicator.rank));
}

void Transfer::moved(Communicator& communicator) {
  ++(sends_ ? communicator.sends_over : communicator.receives_over)[peer_];
  over_ns_ = now_ns() + emu_transfer_ns(bytes_, communicator.between_nodes ? 1 : 0);
  phase_ = kLinger;
}

bool Transfer::advance_send(Communicator& communicator, Channel& channel) {
  switch (phase_) {
    case kWaitTurn: {
      // In order, and not before the receiver is done with the message whose place this one takes.
      if (communicator.sends_over[peer_] != number_) return false;
      if (channel.receives_done.get() + kMessageSlots <= number_) return false;
      untouched_ = is_untouched(source_, bytes_);
      eager_ = bytes_ <= settings().eager_bytes;
      channel.send[number_ % kMessageSlots] = {bytes_, untouched_ ? 1u : 0u};
      channel.sends_posted.set(number_ + 1);
      base_ = channel.written.value.load(std::memory_order_relaxed);
      phase_ = kMeet;
      if (eager_) phase_ = untouched_ ? kConfirm : kMove;
      return true;
    }
    case kMeet:
      if (channel.receives_posted.get() <= number_) return false;
      if (channel.receive[number_ % kMessageSlots].bytes != bytes_) {
        phase_ = kStuck;
        return false;
      }
      phase_ = untouched_ ? kConfirm : kMove;
      return true;
    case kMove:
      return push(communicator, channel);
    case kConfirm:
      if (!eager_ && channel.receives_done.get() <= number_) return false;
      moved(communicator);
      return true;
    default:
      return false;
  }
}

bool Transfer::advance_receive(Communicator& communicator, Channel& channel) {
  switch (phase_) {
    case kWaitTurn:
      if (communicator.receives_over[peer_] != number_) return false;
      channel.receive[number_ % kMessageSlots] = {bytes_, 0};
      channel.receives_posted.set(number_ + 1);
      phase_ = kMeet;
      return true;
    case kMeet: {
      if (channel.sends_posted.get() <= number_) return false;
      const Message& message = channel.send[number_ % kMessageSlots];
      if (message.bytes != bytes_) {
        phase_ = kStuck;
        return false;
      }
      untouched_ = message.untouched != 0;
      base_ = channel.read.value.load(std::memory_order_relaxed);
      phase_ = untouched_ ? kConfirm : kMove;
      return true;
    }
    case kMove:
      return pull(communicator, channel);
    case kConfirm:
      if (untouched_) make_zero(target_, bytes_);
      channel.receives_done.set(number_ + 1);
      moved(communicator);
      return true;
    default:
      return false;
  }
}

bool Transfer::push(Communicator& communicator, Channel& channel) {
  Region& region = *communicator.region;
  const size_t ring = region.channel_bytes();
  std::byte* const data = region.channel_data(communicator.rank, peer_);
  const uint64_t position = base_ + offset_;
  const size_t at = position % ring;
  const size_t free_bytes = ring - static_cast<size_t>(position - channel.read.get());
  const size_t bytes = std::min({free_bytes, ring - at, bytes_ - offset_});
  if (bytes == 0) return false;
  std::memcpy(data + at, source_ + offset_, bytes);
  offset_ += bytes;
  channel.written.set(position + bytes);
  if (offset_ == bytes_) phase_ = kConfirm;
  return true;
}

bool Transfer::pull(Communicator& communicator, Channel& channel) {
  Region& region = *communicator.region;
  const size_t ring = region.channel_bytes();
  const std::byte* const data = region.channel_data(peer_, communicator.rank);
  const uint64_t position = base_ + offset_;
  const size_t at = position % ring;
  const size_t ready = static_cast<size_t>(channel.written.get() - position);
  const size_t bytes = std::min({ready, ring - at, bytes_ - offset_});
  if (bytes == 0) return false;
  std::memcpy(target_ + offset_, data + at, bytes);
  offset_ += bytes;
  channel.read.set(position + bytes);
  if (offset_ == bytes_) phase_ = kConfirm;
  return true;
}

}  // namespace emu_nccl
