// Names that every rank gives the same communicator without talking to another rank.
//
//   init        the bytes of the unique id (of all ids, for Scalable), and nothing else: ranks that
//               disagree about nranks still meet under one key, which is how that is found out
//   init_all    host, boot id, pid, a counter: the clique never leaves the process
//   split       parent key, which child of that parent, colour
//   shrink      parent key, which child, the set of excluded ranks
//   grow        members of the parent: parent key, which child, new size. A joining rank has
//               neither parent nor child number, only the unique id: its key is that of an init.
//               Only the rank that handed out the id knows both; its CommGrow event carries the
//               id's hash, which joins the two.
//
// Limits: with NCCL_COMM_ID set every unique id of a job is the same, hence so is every key made
// from one. Ranks excluded by a shrink do not see it happen, so their next split of the same parent
// has another child number than the others'.
//
// 128 bits: 2^-64 for a collision among 2^32 communicators. Not cryptographic, not reversible.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/ring_layout.h"
#include "shim/nccl_abi.h"

namespace rollcall::shim {

CommKey key_of_bytes(const void* bytes, size_t size, uint64_t domain) noexcept;

CommKey key_of_ids(const nccl::UniqueId* ids, int count) noexcept;
CommKey key_of_init_all() noexcept;
// Null when the parent's key is null: an unknown parent names nothing.
CommKey key_of_split(const CommKey& parent, uint32_t child_number, int colour) noexcept;
CommKey key_of_shrink(const CommKey& parent, uint32_t child_number,
                      uint64_t excluded_hash) noexcept;
CommKey key_of_grow(const CommKey& parent, uint32_t child_number, int nranks) noexcept;

// The same whatever the order of the list; NCCL sorts the caller's array in place. 0 for none.
uint64_t hash_of_ranks(const int* ranks, int count) noexcept;
// As it stands in events: 63 bits, so that it is never negative.
int64_t short_hash(const CommKey& key) noexcept;

}  // namespace rollcall::shim
