#include "emulator/device/errors.h"

#include "emulator/include/cuda.h"

extern "C" {

CUresult cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(error)) {
    case 0:
      *text = "CUDA_SUCCESS";
      return CUDA_SUCCESS;
#define EMU_NAME(number, driver, runtime, meaning) \
  case number:                                     \
    *text = "CUDA_ERROR_" #driver;                 \
    return CUDA_SUCCESS;
      EMU_ERRORS(EMU_NAME)
#undef EMU_NAME
    default:
      *text = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (static_cast<int>(error)) {
    case 0:
      *text = "no error";
      return CUDA_SUCCESS;
#define EMU_TEXT(number, driver, runtime, meaning) \
  case number:                                     \
    *text = meaning;                               \
    return CUDA_SUCCESS;
      EMU_ERRORS(EMU_TEXT)
#undef EMU_TEXT
    default:
      *text = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // extern "C"
