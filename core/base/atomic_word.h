// Atomic access to plain fields of shared memory. The mapping's structures stay plain data (they
// are a file format); whoever touches them while others may goes through here, so that every access
// is atomic for the compiler, for ThreadSanitizer and for the reader of the code.
#pragma once

#include <cstdint>

namespace rollcall {

template <class T>
T load_relaxed(const T& field) noexcept {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}
template <class T>
T load_acquire(const T& field) noexcept {
  return __atomic_load_n(&field, __ATOMIC_ACQUIRE);
}
template <class T>
void store_relaxed(T& field, T value) noexcept {
  __atomic_store_n(&field, value, __ATOMIC_RELAXED);
}
template <class T>
void store_release(T& field, T value) noexcept {
  __atomic_store_n(&field, value, __ATOMIC_RELEASE);
}
template <class T>
T add_relaxed(T& field, T value) noexcept {
  return __atomic_fetch_add(&field, value, __ATOMIC_RELAXED);
}
// False, and nothing is stored, where the field is not `expected`.
template <class T>
bool replace_relaxed(T& field, T expected, T value) noexcept {
  return __atomic_compare_exchange_n(&field, &expected, value, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

// A record as words, whatever its fields are.
using RecordWord [[gnu::may_alias]] = uint64_t;

template <class Record>
RecordWord* words_of(Record* record) noexcept {
  return reinterpret_cast<RecordWord*>(record);
}

}  // namespace rollcall
