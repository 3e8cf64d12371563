// What NCCL's profiler interface numbers: event types, states, and which bits of the activation
// mask let NCCL emit an event. One table; names and masks derive from it.
#pragma once

#include <cstdint>
#include <string_view>

namespace rollcall::profiler {

// X(name, bit, first version of the interface that has it)
#define ROLLCALL_PROFILER_EVENTS(X) \
  X(Group, 0, 1)                    \
  X(Coll, 1, 1)                     \
  X(P2p, 2, 1)                      \
  X(ProxyOp, 3, 1)                  \
  X(ProxyStep, 4, 1)                \
  X(ProxyCtrl, 5, 1)                \
  X(KernelCh, 6, 3)                 \
  X(NetPlugin, 7, 3)                \
  X(GroupApi, 8, 5)                 \
  X(CollApi, 9, 5)                  \
  X(P2pApi, 10, 5)                  \
  X(KernelLaunch, 11, 5)            \
  X(CeColl, 12, 6)                  \
  X(CeSync, 13, 6)                  \
  X(CeBatch, 14, 6)                 \
  X(KernelPhase, 15, 7)

#define ROLLCALL_X(name, bit, version) inline constexpr uint32_t k##name = 1u << (bit);
ROLLCALL_PROFILER_EVENTS(ROLLCALL_X)
#undef ROLLCALL_X
inline constexpr uint32_t kAllEvents = 0xffff;

// The bit masks below say "emitted if any of these is asked for": NCCL turns parents on when only
// their children are wanted.
inline constexpr uint32_t kCeEvents = kCeColl | kCeSync | kCeBatch;
inline constexpr uint32_t kChildren = kProxyOp | kProxyStep | kKernelCh | kNetPlugin;

// Up to NCCL 2.25 (version 2) one condition lets all operations through, and it does not look for
// P2p.
constexpr uint32_t first_emitting_bits(uint32_t type) {
  constexpr uint32_t kOperations = kColl | kProxyOp | kProxyStep;
  if (type == kColl || type == kP2p) return kOperations;
  if (type == kGroup) return kOperations | kP2p;
  return type == kProxyOp ? kProxyOp | kProxyStep : type;
}

constexpr uint32_t emitting_bits(uint32_t type, unsigned version) {
  if (version <= 2) return first_emitting_bits(type);
  switch (type) {
    case kGroupApi:
      return kGroupApi | kP2pApi | kCollApi | kKernelLaunch | kGroup | kColl | kP2p | kChildren |
             kCeEvents;
    case kCollApi:
      return kCollApi | kColl | kChildren | kCeEvents;
    case kP2pApi:
      return kP2pApi | kP2p | kChildren;
    case kGroup:
      return kGroup | kColl | kP2p | kChildren;
    case kColl:
      return kColl | kChildren;
    case kP2p:
      return kP2p | kChildren;
    case kProxyOp:
      return kProxyOp | kProxyStep | kNetPlugin;
    case kProxyStep:
      return kProxyStep | kNetPlugin;
    case kCeColl:
      return kCeEvents;
    default:
      return type;  // KernelLaunch, ProxyCtrl, KernelCh, NetPlugin, CeSync, CeBatch, KernelPhase
  }
}
// Whether NCCL, of which this is the newest version of the interface, emits `type` to a plugin that
// asked for `mask`.
constexpr bool is_emitted(uint32_t type, uint32_t mask, unsigned version) {
  if (type == kKernelPhase && (mask & kKernelCh) == 0) return false;
  return (emitting_bits(type, version) & mask) != 0;
}
static_assert(is_emitted(kP2p, kColl, 2) && !is_emitted(kP2p, kColl, 3));
static_assert(!is_emitted(kP2p, kP2p, 1) && is_emitted(kGroup, kP2p, 1));

// The types that a version of the interface knows.
constexpr uint32_t events_of_version(unsigned version) {
  uint32_t mask = 0;
#define ROLLCALL_X(name, bit, first) mask |= version >= (first) ? k##name : 0;
  ROLLCALL_PROFILER_EVENTS(ROLLCALL_X)
#undef ROLLCALL_X
  return mask;
}
static_assert(events_of_version(1) == 0x3f && events_of_version(4) == 0xff);
static_assert(events_of_version(5) == 0xfff && events_of_version(7) == kAllEvents);

// States of recordEventState. 0 to 7 were sent up to version 3 only and are not used here.
inline constexpr int kProxyStepSendGpuWait = 8;
inline constexpr int kProxyStepSendWait = 9;
inline constexpr int kProxyStepRecvWait = 10;
inline constexpr int kProxyStepRecvFlushWait = 11;
inline constexpr int kProxyStepRecvGpuWait = 12;
inline constexpr int kProxyOpInProgress = 19;
inline constexpr int kProxyStepSendPeerWait = 20;
inline constexpr int kKernelChStop = 22;
inline constexpr int kGroupStartApiStop = 23;
inline constexpr int kGroupEndApiStart = 24;
inline constexpr int kKernelPhaseStop = 31;

}  // namespace rollcall::profiler
