// Streams and events of the runtime API.
#include "emulator/cudart/runtime.h"

using namespace emu;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return runtime_call([&] { return cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return runtime_call([&] { return cuStreamCreate(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return runtime_call([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return runtime_call([&] { return cuStreamDestroy_v2(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return runtime_call([&] { return cuStreamSynchronize(stream); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return runtime_call([&] { return cuStreamQuery(stream); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return runtime_call([&] { return cuStreamWaitEvent(stream, event, flags); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return runtime_call([&] { return cuStreamGetPriority(stream, priority); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  return runtime_call([&] { return cuStreamGetFlags(stream, flags); });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return runtime_call([&] { return cuStreamGetId(stream, id); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return runtime_call([&] { return cuStreamGetDevice(stream, device); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned int flags) {
  return runtime_call([&] {
    return cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), data, flags);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return runtime_call([&] { return cuLaunchHostFunc(stream, function, data); });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned int) {
  return runtime_call([] { return CUDA_SUCCESS; });
}

// Attributes are hints, except the priority, which is fixed at creation.
cudaError_t cudaStreamSetAttribute(cudaStream_t, int, const void*) {
  return runtime_call([] { return CUDA_SUCCESS; });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t, cudaStream_t) {
  return runtime_call([] { return CUDA_SUCCESS; });
}

cudaError_t cudaCtxResetPersistingL2Cache(void) {
  return runtime_call([] { return CUDA_SUCCESS; });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return runtime_call([&] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return runtime_call([&] { return cuEventCreate(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return runtime_call([&] { return cuEventDestroy_v2(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return runtime_call([&] { return cuEventRecord(event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return runtime_call([&] { return cuEventRecordWithFlags(event, stream, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return runtime_call([&] { return cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return runtime_call([&] { return cuEventSynchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return runtime_call([&] { return cuEventElapsedTime_v2(milliseconds, start, end); });
}

#if EMU_CUDART < 13
cudaError_t cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}
#endif

}  // extern "C"
