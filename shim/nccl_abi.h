// NCCL's host interface as this project needs it, from 2.3 to 2.32, written down once.
//
// These are declarations of somebody else's ABI. They live in a namespace of their own so that the
// test that holds them against a real nccl.h (tests/shim/abi_test.cpp) can include both. Enums are
// plain int here: an unknown value from a newer NCCL must pass through unharmed. Structs that NCCL
// versions by size are never copied or built here, only looked at through `ConfigHead`.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

namespace rollcall::nccl {

using Result = int;
using DataType = int;
using RedOp = int;
using ScalarResidence = int;

using Comm = struct CommHandle*;
using Window = struct WindowHandle*;
using Stream = struct StreamHandle*;  // cudaStream_t

inline constexpr Result kSuccess = 0;
inline constexpr Result kSystemError = 2;
inline constexpr Result kInProgress = 7;

// Passed by value in memory: a wrapper that declares it otherwise shifts every later argument.
struct UniqueId {
  char internal[128];
};
static_assert(sizeof(UniqueId) == 128 && alignof(UniqueId) == 1);

inline constexpr int kSplitNoColor = -1;
inline constexpr int kConfigUndefInt = INT_MIN;
inline constexpr unsigned kApiMagic = 0xcafebeef;

// The part of ncclConfig_t that is read, offsets unchanged since each field appeared. What is there
// depends on `size` (2.14: 24, 2.17: 40, 2.18: 48, 2.27: 72, 2.32: 120) and on `version`, because
// size 48 and 96 stand for two layouts each. Never assume more bytes than `size` says.
struct ConfigHead {
  size_t size;
  unsigned magic;
  unsigned version;  // NCCL_VERSION_CODE of the caller's header
  int blocking;
  int unread[7];
  const char* comm_name;  // since 2.27; only a pointer, the caller's string
};
static_assert(offsetof(ConfigHead, blocking) == 16);
static_assert(offsetof(ConfigHead, comm_name) == 48);
inline constexpr size_t kConfigBytesBlocking = offsetof(ConfigHead, blocking) + sizeof(int);
inline constexpr size_t kConfigBytesName = sizeof(ConfigHead);
inline constexpr unsigned kConfigVersionName = 22700;

// Handed on as they are; their layout is NCCL's business.
// Never looked into here; rollcall::Config is something else.
// NOLINTNEXTLINE(bugprone-forward-declaration-namespace)
struct Config;
struct CollConfig;
struct SimInfo;
struct EncryptionConfig;
struct DevComm;
struct DevCommRequirements;

// One of the peers that a WaitSignal waits for.
struct WaitSignalDesc {
  int count;
  int peer;
  int signal;
  int context;
};
static_assert(sizeof(WaitSignalDesc) == 16);

// Functions the shim itself calls. All are local and return at once on a communicator that is
// ready.
using GetVersion = Result (*)(int* version);
using GetLastError = const char* (*)(Comm comm);
using CommQuery = Result (*)(Comm comm, int* value);  // Count, UserRank, CuDevice

}  // namespace rollcall::nccl
