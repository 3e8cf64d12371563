// Events of the driver API.
#include "emulator/device/graph.h"
#include "emulator/device/stream.h"

using namespace emu;

extern "C" {

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  int device = 0;
  if (const CUresult status = enter_healthy(&device); status != CUDA_SUCCESS) return status;
  if (out == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  *out = Engine::get().create_event(device, flags).get();
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  const Lock lock = Engine::get().lock();
  return Engine::get().forget_event(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  return record_event(stream, event, flags);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  return wait_event(stream, event, flags);
}

CUresult cuEventQuery(CUevent handle) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  const Lock lock = Engine::get().lock();
  const EventPointer event = Engine::get().find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult status = check_unsafe_call(); status != CUDA_SUCCESS) return status;
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  const CUresult sticky = Engine::get().sticky(event->device);
  if (sticky != CUDA_SUCCESS) return sticky;
  return !event->marker || event->marker->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  Lock lock = Engine::get().lock();
  const EventPointer event = Engine::get().find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult status = check_unsafe_call(); status != CUDA_SUCCESS) return status;
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (!event->marker) return Engine::get().sticky(event->device);
  return Engine::get().wait_marker(lock, event->marker, event->device);
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock = Engine::get().lock();
  const EventPointer start = Engine::get().find_event(start_handle);
  const EventPointer end = Engine::get().find_event(end_handle);
  if (!start || !end) return CUDA_ERROR_INVALID_HANDLE;
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (start->capture || end->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (!start->marker || !end->marker) return CUDA_ERROR_INVALID_HANDLE;  // never recorded
  if (!start->marker->done || !end->marker->done) return CUDA_ERROR_NOT_READY;
  const auto elapsed_ns =
      static_cast<int64_t>(end->marker->time_ns) - static_cast<int64_t>(start->marker->time_ns);
  *milliseconds = static_cast<float>(static_cast<double>(elapsed_ns) / 1e6);
  return CUDA_SUCCESS;
}

}  // extern "C"
