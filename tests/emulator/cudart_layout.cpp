// Prints what binary compatibility rests on: sizes, offsets, enumerators and signatures. Compiled
// twice, with our headers and with NVIDIA's; the two outputs must be equal.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <typeinfo>

#define SIZE(type) std::printf("sizeof " #type " %zu\n", sizeof(type));
#define OFFSET(type, field) std::printf("offset " #type "." #field " %zu\n", offsetof(type, field));
#define VALUE(name) std::printf(#name " %lld\n", static_cast<long long>(name));
#define SIGNATURE(function) std::printf(#function " %s\n", typeid(decltype(&(function))).name());

static void print_layouts() {
  SIZE(cudaDeviceProp)
  OFFSET(cudaDeviceProp, uuid)
  OFFSET(cudaDeviceProp, totalGlobalMem)
  OFFSET(cudaDeviceProp, warpSize)
  OFFSET(cudaDeviceProp, maxGridSize)
  OFFSET(cudaDeviceProp, major)
  OFFSET(cudaDeviceProp, multiProcessorCount)
  OFFSET(cudaDeviceProp, surfaceAlignment)
  OFFSET(cudaDeviceProp, pciBusID)
  OFFSET(cudaDeviceProp, l2CacheSize)
  OFFSET(cudaDeviceProp, maxThreadsPerMultiProcessor)
  OFFSET(cudaDeviceProp, sharedMemPerMultiprocessor)
  OFFSET(cudaDeviceProp, regsPerMultiprocessor)
  OFFSET(cudaDeviceProp, cooperativeLaunch)
  OFFSET(cudaDeviceProp, sharedMemPerBlockOptin)
  OFFSET(cudaDeviceProp, maxBlocksPerMultiProcessor)
  SIZE(cudaPointerAttributes)
  OFFSET(cudaPointerAttributes, devicePointer)
  OFFSET(cudaPointerAttributes, hostPointer)
  SIZE(cudaFuncAttributes)
  OFFSET(cudaFuncAttributes, binaryVersion)
  OFFSET(cudaFuncAttributes, maxDynamicSharedSizeBytes)
  SIZE(cudaMemPoolProps)
  OFFSET(cudaMemPoolProps, location)
  SIZE(cudaKernelNodeParams)
  SIZE(cudaHostNodeParams)
  SIZE(cudaMemsetParams)
  OFFSET(cudaMemsetParams, width)
  SIZE(dim3)
#if EMU_CUDART > 11
  OFFSET(cudaDeviceProp, memoryPoolsSupported)
  OFFSET(cudaDeviceProp, clusterLaunch)
  OFFSET(cudaDeviceProp, unifiedFunctionPointers)
  SIZE(cudaLaunchConfig_t)
  OFFSET(cudaLaunchConfig_t, dynamicSmemBytes)
  OFFSET(cudaLaunchConfig_t, stream)
  SIZE(cudaLaunchAttribute)
  OFFSET(cudaMemPoolProps, maxSize)
  SIZE(cudaGraphEdgeData)
#endif
}

static void print_values() {
  VALUE(cudaErrorInvalidMemcpyDirection)
  VALUE(cudaErrorInvalidDeviceFunction)
  VALUE(cudaErrorNotReady)
  VALUE(cudaErrorNotSupported)
  VALUE(cudaErrorStreamCaptureUnsupported)
  VALUE(cudaErrorStreamCaptureWrongThread)
  VALUE(cudaErrorGraphExecUpdateFailure)
  VALUE(cudaMemcpyDefault)
  VALUE(cudaMemoryTypeManaged)
  VALUE(cudaStreamCaptureModeRelaxed)
  VALUE(cudaStreamCaptureStatusInvalidated)
  VALUE(cudaDevAttrComputeCapabilityMajor)
  VALUE(cudaFuncAttributePreferredSharedMemoryCarveout)
  VALUE(cudaMemPoolAttrUsedMemCurrent)
  VALUE(cudaGraphNodeTypeMemFree)
  VALUE(cudaEventRecordExternal)
  VALUE(cudaHostAllocMapped)
#if EMU_CUDART > 11
  VALUE(cudaDriverEntryPointSymbolNotFound)
  VALUE(cudaMemLocationTypeHost)
#endif
  std::printf("cudaStreamPerThread %p\n", static_cast<void*>(cudaStreamPerThread));
}

static void print_signatures() {
  SIGNATURE(cudaGetDeviceProperties)
  SIGNATURE(cudaDeviceGetAttribute)
  SIGNATURE(cudaStreamCreateWithPriority)
  SIGNATURE(cudaStreamWaitEvent)
  SIGNATURE(cudaStreamAddCallback)
  SIGNATURE(cudaLaunchHostFunc)
  SIGNATURE(cudaEventRecordWithFlags)
  SIGNATURE(cudaEventElapsedTime)
  SIGNATURE(cudaMemGetInfo)
  SIGNATURE(cudaPointerGetAttributes)
  SIGNATURE(cudaMemcpyAsync)
  SIGNATURE(cudaMemsetAsync)
  SIGNATURE(cudaMallocFromPoolAsync)
  SIGNATURE(cudaMemPoolCreate)
  SIGNATURE(cudaMemPoolSetAttribute)
  SIGNATURE(cudaLaunchKernel)
  SIGNATURE(cudaFuncGetAttributes)
  SIGNATURE(cudaFuncSetAttribute)
  SIGNATURE(cudaStreamBeginCapture)
  SIGNATURE(cudaStreamEndCapture)
  SIGNATURE(cudaStreamIsCapturing)
  SIGNATURE(cudaThreadExchangeStreamCaptureMode)
  SIGNATURE(cudaGraphInstantiate)
  SIGNATURE(cudaGraphLaunch)
  SIGNATURE(cudaGraphGetNodes)
#if EMU_CUDART > 11
  SIGNATURE(cudaGetDriverEntryPointByVersion)
  SIGNATURE(cudaLaunchKernelExC)
#endif
}

int main() {
  print_layouts();
  print_values();
  print_signatures();
}
