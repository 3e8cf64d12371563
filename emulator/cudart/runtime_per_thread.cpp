// The variants for programs compiled with one default stream per thread: stream 0 means the
// thread's own.
#include "emulator/cudart/runtime.h"

namespace {

cudaStream_t own(cudaStream_t stream) { return stream == nullptr ? cudaStreamPerThread : stream; }

cudaError_t then_wait(cudaError_t status) {
  return status == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : status;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return cudaStreamSynchronize(own(stream));
}
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) { return cudaStreamQuery(own(stream)); }
cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return cudaStreamWaitEvent(own(stream), event, flags);
}
cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int* priority) {
  return cudaStreamGetPriority(own(stream), priority);
}
cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned int* flags) {
  return cudaStreamGetFlags(own(stream), flags);
}
cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long* id) {
  return cudaStreamGetId(own(stream), id);
}
cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int* device) {
  return cudaStreamGetDevice(own(stream), device);
}
cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback,
                                       void* data, unsigned int flags) {
  return cudaStreamAddCallback(own(stream), callback, data, flags);
}
cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return cudaLaunchHostFunc(own(stream), function, data);
}
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(own(stream), mode);
}
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return cudaStreamEndCapture(own(stream), graph);
}
cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamIsCapturing(own(stream), status);
}
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphLaunch(exec, own(stream));
}
cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecord(event, own(stream));
}
cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream,
                                          unsigned int flags) {
  return cudaEventRecordWithFlags(event, own(stream), flags);
}
cudaError_t cudaLaunchKernel_ptsz(const void* stub, dim3 grid, dim3 block, void** arguments,
                                  size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(stub, grid, block, arguments, shared_bytes, own(stream));
}
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* stub,
                                     void** arguments) {
  if (config == nullptr) return cudaLaunchKernelExC(config, stub, arguments);
  cudaLaunchConfig_t mine = *config;
  mine.stream = own(config->stream);
  return cudaLaunchKernelExC(&mine, stub, arguments);
}
cudaError_t cudaMemcpyAsync_ptsz(void* destination, const void* source, size_t bytes,
                                 cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyAsync(destination, source, bytes, kind, own(stream));
}
cudaError_t cudaMemcpy_ptds(void* destination, const void* source, size_t bytes,
                            cudaMemcpyKind kind) {
  return then_wait(cudaMemcpyAsync(destination, source, bytes, kind, cudaStreamPerThread));
}
cudaError_t cudaMemsetAsync_ptsz(void* address, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemsetAsync(address, value, bytes, own(stream));
}
cudaError_t cudaMemset_ptds(void* address, int value, size_t bytes) {
  return then_wait(cudaMemsetAsync(address, value, bytes, cudaStreamPerThread));
}
cudaError_t cudaMallocAsync_ptsz(void** out, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(out, bytes, own(stream));
}
cudaError_t cudaFreeAsync_ptsz(void* address, cudaStream_t stream) {
  return cudaFreeAsync(address, own(stream));
}

}  // extern "C"
