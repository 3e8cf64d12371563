// Arithmetic on vectors of every NCCL datatype.
//
// Integers wrap. float16, bfloat16 and the float8 types are added up in float32 and rounded once,
// to nearest, ties to even; float8 saturates. The order of summation is the order of ranks,
// whatever the timing: results repeat.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/include/nccl.h"

namespace emu_nccl {

// Bytes of one element; 0 for a value that is no datatype.
size_t element_bytes(int type);
const char* type_name(int type);

// target[i] = op over inputs[0][i] … inputs[n-1][i]; ncclAvg divides the sum by n. target may be
// one of the inputs.
void reduce(ncclDataType_t type, ncclRedOp_t op, const void* const* inputs, int n, void* target,
            size_t elements);
// target[i] = source[i] * *scalar, rounded to the type. target may be source.
void multiply(ncclDataType_t type, const void* source, const void* scalar, void* target,
              size_t elements);

// Conversions of the types that C++20 lacks, for the tests too.
float float16_to_float(uint16_t bits);
uint16_t float_to_float16(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);
float float8_to_float(uint8_t bits, bool e5m2);
uint8_t float_to_float8(float value, bool e5m2);

}  // namespace emu_nccl
