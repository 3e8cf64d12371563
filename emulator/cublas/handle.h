// What the cuBLAS and cuBLASLt stand-ins share: handles and status codes (cublas_api.h's values).
#pragma once

#include <stdlib.h>

// A version that belongs to the runtime the library is built for: 11.10.3, 12.9.1 or 13.0.2.
#if EMU_CUBLAS_MAJOR == 11
#define EMU_CUBLAS_VERSION 111003
#elif EMU_CUBLAS_MAJOR == 12
#define EMU_CUBLAS_VERSION 120901
#else
#define EMU_CUBLAS_VERSION 130002
#endif

enum {
  EMU_CUBLAS_NOT_INITIALIZED = 1,
  EMU_CUBLAS_ALLOC_FAILED = 3,
  EMU_CUBLAS_INVALID_VALUE = 7,
};

struct emu_cublas_handle {
  void* stream;
  int pointer_mode;
  int math_mode;
};

static inline int emu_cublas_new_handle(void** handle) {
  if (handle == NULL) return EMU_CUBLAS_INVALID_VALUE;
  *handle = calloc(1, sizeof(struct emu_cublas_handle));
  return *handle == NULL ? EMU_CUBLAS_ALLOC_FAILED : 0;
}

static inline int emu_cublas_free_handle(void* handle) {
  free(handle);
  return 0;
}

// libraryPropertyType: 0 major, 1 minor, 2 patch.
static inline int emu_cublas_property(int type, int* value) {
  if (value == NULL || type < 0 || type > 2) return EMU_CUBLAS_INVALID_VALUE;
  const int parts[] = {EMU_CUBLAS_VERSION / 10000, EMU_CUBLAS_VERSION / 100 % 100,
                       EMU_CUBLAS_VERSION % 100};
  *value = parts[type];
  return 0;
}
