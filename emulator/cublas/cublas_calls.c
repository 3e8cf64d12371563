// libcublas stand-in: the calls that must hand something back. Every other export of the real
// library is a generated stub that answers success and does nothing (a matrix product is a kernel,
// and kernels of the emulated GPU do nothing). Signatures and values are those of NVIDIA's public
// headers.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "emulator/cublas/handle.h"

int cublasCreate_v2(void** handle) { return emu_cublas_new_handle(handle); }
int cublasDestroy_v2(void* handle) { return emu_cublas_free_handle(handle); }

int cublasSetStream_v2(void* handle, void* stream) {
  if (handle == NULL) return EMU_CUBLAS_NOT_INITIALIZED;
  ((struct emu_cublas_handle*)handle)->stream = stream;
  return 0;
}
int cublasGetStream_v2(void* handle, void** stream) {
  if (handle == NULL) return EMU_CUBLAS_NOT_INITIALIZED;
  *stream = ((struct emu_cublas_handle*)handle)->stream;
  return 0;
}
int cublasSetPointerMode_v2(void* handle, int mode) {
  if (handle == NULL) return EMU_CUBLAS_NOT_INITIALIZED;
  ((struct emu_cublas_handle*)handle)->pointer_mode = mode;
  return 0;
}
int cublasGetPointerMode_v2(void* handle, int* mode) {
  if (handle == NULL) return EMU_CUBLAS_NOT_INITIALIZED;
  *mode = ((struct emu_cublas_handle*)handle)->pointer_mode;
  return 0;
}
int cublasSetMathMode(void* handle, int mode) {
  if (handle == NULL) return EMU_CUBLAS_NOT_INITIALIZED;
  ((struct emu_cublas_handle*)handle)->math_mode = mode;
  return 0;
}
int cublasGetMathMode(void* handle, int* mode) {
  if (handle == NULL) return EMU_CUBLAS_NOT_INITIALIZED;
  *mode = ((struct emu_cublas_handle*)handle)->math_mode;
  return 0;
}
int cublasGetAtomicsMode(void* handle, int* mode) {
  (void)handle;
  *mode = 0;
  return 0;
}
int cublasGetSmCountTarget(void* handle, int* count) {
  (void)handle;
  *count = 0;
  return 0;
}
int cublasGetVersion_v2(void* handle, int* version) {
  (void)handle;
  *version = EMU_CUBLAS_VERSION;
  return 0;
}
int cublasGetProperty(int type, int* value) { return emu_cublas_property(type, value); }
size_t cublasGetCudartVersion(void) { return EMU_CUBLAS_VERSION / 10000 * 1000; }
const char* cublasGetStatusName(int status) {
  return status == 0 ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_INTERNAL_ERROR";
}
const char* cublasGetStatusString(int status) {
  return status == 0 ? "success" : "the emulated cuBLAS cannot do this";
}
