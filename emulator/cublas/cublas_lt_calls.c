// libcublasLt stand-in: the calls that must hand something back; see cublas_calls.c.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/cublas/handle.h"

// cublasLtMatmulHeuristicResult_t: an opaque algorithm of 64 bytes, workspace, state, waves,
// reserved.
struct heuristic_result {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves_count;
  int reserved[4];
};
_Static_assert(sizeof(struct heuristic_result) == 96, "as in cublasLt.h");

// Descriptors of the Init_internal family live in the caller's memory; the others are ours.
static int new_descriptor(void** descriptor) {
  if (descriptor == NULL) return EMU_CUBLAS_INVALID_VALUE;
  *descriptor = calloc(1, 256);
  return *descriptor == NULL ? EMU_CUBLAS_ALLOC_FAILED : 0;
}
static int free_descriptor(void* descriptor) {
  free(descriptor);
  return 0;
}

int cublasLtCreate(void** handle) { return emu_cublas_new_handle(handle); }
int cublasLtDestroy(void* handle) { return emu_cublas_free_handle(handle); }
size_t cublasLtGetVersion(void) { return EMU_CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion(void) { return EMU_CUBLAS_VERSION / 10000 * 1000; }
int cublasLtGetProperty(int type, int* value) { return emu_cublas_property(type, value); }
const char* cublasLtGetStatusName(int status) {
  return status == 0 ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INTERNAL_ERROR";
}
const char* cublasLtGetStatusString(int status) {
  return status == 0 ? "success" : "the emulated cuBLASLt cannot do this";
}

int cublasLtMatmulDescCreate(void** descriptor, int compute_type, int scale_type) {
  (void)compute_type, (void)scale_type;
  return new_descriptor(descriptor);
}
int cublasLtMatmulDescDestroy(void* descriptor) { return free_descriptor(descriptor); }
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading_dimension) {
  (void)type, (void)rows, (void)columns, (void)leading_dimension;
  return new_descriptor(layout);
}
int cublasLtMatrixLayoutDestroy(void* layout) { return free_descriptor(layout); }
int cublasLtMatmulPreferenceCreate(void** preference) { return new_descriptor(preference); }
int cublasLtMatmulPreferenceDestroy(void* preference) { return free_descriptor(preference); }
int cublasLtMatrixTransformDescCreate(void** descriptor, int scale_type) {
  (void)scale_type;
  return new_descriptor(descriptor);
}
int cublasLtMatrixTransformDescDestroy(void* descriptor) { return free_descriptor(descriptor); }

int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c,
                                   void* d, void* preference, int requested,
                                   struct heuristic_result* results, int* returned) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
  if (requested <= 0 || results == NULL || returned == NULL) return EMU_CUBLAS_INVALID_VALUE;
  memset(results, 0, sizeof *results);
  results->waves_count = 1;
  *returned = 1;
  return 0;
}

int cublasLtMatmulAlgoGetIds(void* handle, int compute, int scale, int a, int b, int c, int d,
                             int requested, int ids[], int* returned) {
  (void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
  if (requested <= 0 || ids == NULL || returned == NULL) return EMU_CUBLAS_INVALID_VALUE;
  ids[0] = 0;
  *returned = 1;
  return 0;
}

int cublasLtMatmulAlgoCheck(void* handle, void* operation, void* a, void* b, void* c, void* d,
                            const void* algorithm, struct heuristic_result* result) {
  (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)algorithm;
  if (result == NULL) return EMU_CUBLAS_INVALID_VALUE;
  memset(result, 0, sizeof *result);
  result->waves_count = 1;
  return 0;
}

// Attributes read back as zero: the caller has set what it cares about.
static int zero_attribute(void* buffer, size_t bytes, size_t* written) {
  if (buffer != NULL) memset(buffer, 0, bytes);
  if (written != NULL) *written = bytes;
  return 0;
}
int cublasLtMatmulAlgoConfigGetAttribute(const void* algorithm, int attribute, void* buffer,
                                         size_t bytes, size_t* written) {
  (void)algorithm, (void)attribute;
  return zero_attribute(buffer, bytes, written);
}
int cublasLtMatmulAlgoCapGetAttribute(const void* algorithm, int attribute, void* buffer,
                                      size_t bytes, size_t* written) {
  (void)algorithm, (void)attribute;
  return zero_attribute(buffer, bytes, written);
}
int cublasLtMatmulDescGetAttribute(void* descriptor, int attribute, void* buffer, size_t bytes,
                                   size_t* written) {
  (void)descriptor, (void)attribute;
  return zero_attribute(buffer, bytes, written);
}
int cublasLtMatrixLayoutGetAttribute(void* layout, int attribute, void* buffer, size_t bytes,
                                     size_t* written) {
  (void)layout, (void)attribute;
  return zero_attribute(buffer, bytes, written);
}
int cublasLtMatmulPreferenceGetAttribute(void* preference, int attribute, void* buffer,
                                         size_t bytes, size_t* written) {
  (void)preference, (void)attribute;
  return zero_attribute(buffer, bytes, written);
}
