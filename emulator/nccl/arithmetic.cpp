#include "emulator/nccl/arithmetic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace emu_nccl {
namespace {

// Rounds a finite float to a format with `exponent_bits` and `mantissa_bits`, ties to even. Values
// beyond the largest finite number `largest` (as bits) become `overflow`.
template <int exponent_bits, int mantissa_bits, uint32_t largest, uint32_t overflow>
uint32_t round_to(float value) {
  constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  constexpr int kDropped = 23 - mantissa_bits;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 31) << (exponent_bits + mantissa_bits);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  uint32_t rounded;
  if (exponent < 1 - kBias) {
    // Subnormal in the target: count in units of its smallest number.
    const float units = std::ldexp(std::bit_cast<float>(magnitude), kBias - 1 + mantissa_bits);
    rounded = static_cast<uint32_t>(std::nearbyint(units));
  } else {
    const uint32_t rebased = magnitude - (static_cast<uint32_t>(127 - kBias) << 23);
    const uint32_t half = (1u << (kDropped - 1)) - 1 + ((rebased >> kDropped) & 1);
    rounded = (rebased + half) >> kDropped;
  }
  return sign | (rounded > largest ? overflow : rounded);
}

template <int exponent_bits, int mantissa_bits>
float widen(uint32_t bits) {
  constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const bool negative = (bits >> (exponent_bits + mantissa_bits)) != 0;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), 1 - kBias - mantissa_bits)
                              : std::bit_cast<float>(((exponent + 127 - kBias) << 23) |
                                                     (mantissa << (23 - mantissa_bits)));
  return negative ? -magnitude : magnitude;
}

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <bool e5m2>
const std::array<float, 256>& float8_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (int i = 0; i < 256; ++i) values[i] = float8_to_float(static_cast<uint8_t>(i), e5m2);
    return values;
  }();
  return table;
}

const float* float16_table() {
  static const float* const table = [] {
    float* const values = new float[65536];
    for (int i = 0; i < 65536; ++i) values[i] = float16_to_float(static_cast<uint16_t>(i));
    return values;
  }();
  return table;
}

// A datatype: how it lies in memory, and what it is computed in.
template <typename T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct Float16 {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t bits) { return float16_table()[bits]; }
  static uint16_t store(float value) { return float_to_float16(value); }
};
struct Bfloat16 {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t bits) { return bfloat16_to_float(bits); }
  static uint16_t store(float value) { return float_to_bfloat16(value); }
};
template <bool e5m2>
struct Float8 {
  using Stored = uint8_t;
  using Computed = float;
  static float load(uint8_t bits) { return float8_table<e5m2>()[bits]; }
  static uint8_t store(float value) { return float_to_float8(value, e5m2); }
};

// Integer arithmetic goes through an unsigned type at least as wide as int, so that it wraps
// without undefined behaviour.
template <typename T>
auto wide(T value) {
  if constexpr (std::is_integral_v<T> && sizeof(T) <= 4) {
    return static_cast<uint32_t>(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(value);
  } else {
    return value;
  }
}

template <typename T>
bool is_nan(T value) {
  return value != value;  // NOLINT(misc-redundant-expression): a NaN does
}

template <typename T>
T combine(ncclRedOp_t op, T a, T b) {
  switch (op) {
    case ncclProd:
      return static_cast<T>(wide(a) * wide(b));
    // A NaN loses against a number, as on the GPU.
    case ncclMax:
      return (is_nan(a) || a < b) ? b : a;
    case ncclMin:
      return (is_nan(a) || b < a) ? b : a;
    default:
      return static_cast<T>(wide(a) + wide(b));
  }
}

constexpr size_t kBlock = 1024;

template <typename Type, ncclRedOp_t op>
void reduce_as(const void* const* inputs, int n, void* target, size_t elements) {
  using Stored = typename Type::Stored;
  using Computed = typename Type::Computed;
  Computed sums[kBlock];
  for (size_t start = 0; start < elements; start += kBlock) {
    const size_t count = std::min(kBlock, elements - start);
    const Stored* const first = static_cast<const Stored*>(inputs[0]) + start;
    for (size_t i = 0; i < count; ++i) sums[i] = Type::load(first[i]);
    for (int rank = 1; rank < n; ++rank) {
      const Stored* const next = static_cast<const Stored*>(inputs[rank]) + start;
      for (size_t i = 0; i < count; ++i) {
        sums[i] = combine<Computed>(op, sums[i], Type::load(next[i]));
      }
    }
    Stored* const out = static_cast<Stored*>(target) + start;
    if constexpr (op == ncclAvg) {
      for (size_t i = 0; i < count; ++i)
        sums[i] = static_cast<Computed>(sums[i] / static_cast<Computed>(n));
    }
    for (size_t i = 0; i < count; ++i) out[i] = Type::store(sums[i]);
  }
}

template <typename Type>
void reduce_type(ncclRedOp_t op, const void* const* inputs, int n, void* target, size_t elements) {
  switch (op) {
    case ncclProd:
      return reduce_as<Type, ncclProd>(inputs, n, target, elements);
    case ncclMax:
      return reduce_as<Type, ncclMax>(inputs, n, target, elements);
    case ncclMin:
      return reduce_as<Type, ncclMin>(inputs, n, target, elements);
    case ncclAvg:
      return reduce_as<Type, ncclAvg>(inputs, n, target, elements);
    default:
      return reduce_as<Type, ncclSum>(inputs, n, target, elements);
  }
}

template <typename Type>
void multiply_type(const void* source, const void* scalar, void* target, size_t elements) {
  using Stored = typename Type::Stored;
  using Computed = typename Type::Computed;
  Stored stored;
  std::memcpy(&stored, scalar, sizeof(stored));
  const Computed factor = Type::load(stored);
  const Stored* const in = static_cast<const Stored*>(source);
  Stored* const out = static_cast<Stored*>(target);
  for (size_t i = 0; i < elements; ++i) {
    out[i] = Type::store(combine<Computed>(ncclProd, Type::load(in[i]), factor));
  }
}

// Calls function(Type{}) for the type.
template <typename Function>
void with_type(ncclDataType_t type, Function function) {
  switch (static_cast<int>(type)) {
    case ncclInt8:
      return function(Plain<int8_t>{});
    case ncclUint8:
      return function(Plain<uint8_t>{});
    case ncclInt32:
      return function(Plain<int32_t>{});
    case ncclUint32:
      return function(Plain<uint32_t>{});
    case ncclInt64:
      return function(Plain<int64_t>{});
    case ncclUint64:
      return function(Plain<uint64_t>{});
    case ncclFloat16:
      return function(Float16{});
    case ncclFloat32:
      return function(Plain<float>{});
    case ncclFloat64:
      return function(Plain<double>{});
    case ncclBfloat16:
      return function(Bfloat16{});
    case ncclFloat8e4m3:
      return function(Float8<false>{});
    case ncclFloat8e5m2:
      return function(Float8<true>{});
  }
}

}  // namespace

float float16_to_float(uint16_t bits) {
  if ((bits & 0x7c00) == 0x7c00) {
    if ((bits & 0x3ff) != 0) return kNotANumber;
    return (bits & 0x8000) != 0 ? -kInfinity : kInfinity;
  }
  return widen<5, 10>(bits);
}

uint16_t float_to_float16(float value) {
  if (value != value) return 0x7fff;
  if (std::isinf(value)) return value < 0 ? 0xfc00 : 0x7c00;
  return static_cast<uint16_t>(round_to<5, 10, 0x7bff, 0x7c00>(value));
}

float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
  if (value != value) return 0x7fff;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float float8_to_float(uint8_t bits, bool e5m2) {
  const uint8_t magnitude = bits & 0x7f;
  if (e5m2) {
    if (magnitude > 0x7c) return kNotANumber;
    if (magnitude == 0x7c) return (bits & 0x80) != 0 ? -kInfinity : kInfinity;
    return widen<5, 2>(bits);
  }
  return magnitude == 0x7f ? kNotANumber : widen<4, 3>(bits);
}

uint8_t float_to_float8(float value, bool e5m2) {
  if (value != value) return 0x7f;
  const float finite = std::clamp(value, -1e30f, 1e30f);
  return static_cast<uint8_t>(e5m2 ? round_to<5, 2, 0x7b, 0x7b>(finite)
                                   : round_to<4, 3, 0x7e, 0x7e>(finite));
}

size_t element_bytes(int type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type < 0 || type >= ncclNumTypes ? 0 : kBytes[type];
}

const char* type_name(int type) {
  constexpr const char* kNames[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                    "ncclUint32",   "ncclInt64",      "ncclUint64",
                                    "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                    "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  return type < 0 || type >= ncclNumTypes ? "Unknown" : kNames[type];
}

void reduce(ncclDataType_t type, ncclRedOp_t op, const void* const* inputs, int n, void* target,
            size_t elements) {
  with_type(type, [&](auto kind) { reduce_type<decltype(kind)>(op, inputs, n, target, elements); });
}

void multiply(ncclDataType_t type, const void* source, const void* scalar, void* target,
              size_t elements) {
  with_type(type,
            [&](auto kind) { multiply_type<decltype(kind)>(source, scalar, target, elements); });
}

}  // namespace emu_nccl
