#include <cstring>
#include <string>

#include "cuda_runtime_api.h"
#include "tests/catch.h"

extern "C" int cudaGraphicsMapResources();

TEST_CASE("functions that are not emulated say so and answer 801") {
  CHECK(cudaGraphicsMapResources() == cudaErrorNotSupported);
  CHECK(cudaPeekAtLastError() == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("an emulated GPU has the properties that frameworks divide by") {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 8);
  cudaDeviceProp prop;
  REQUIRE(cudaGetDeviceProperties(&prop, count - 1) == cudaSuccess);
  CHECK(std::string(prop.name).find("H100") != std::string::npos);
  CHECK(prop.major == 9);
  CHECK(prop.minor == 0);
  CHECK(prop.multiProcessorCount == 132);
  CHECK(prop.warpSize == 32);
  CHECK(prop.sharedMemPerBlockOptin == 232448);
  CHECK(prop.maxThreadsPerMultiProcessor > 0);
  CHECK(prop.maxThreadsPerBlock > 0);
  CHECK(prop.regsPerMultiprocessor > 0);
  CHECK(prop.maxBlocksPerMultiProcessor > 0);
  CHECK(prop.l2CacheSize > 0);
  for (int i = 0; i < 3; ++i) {
    CHECK(prop.maxGridSize[i] > 0);
    CHECK(prop.maxThreadsDim[i] > 0);
  }
  CHECK(cudaGetDeviceProperties(&prop, count) == cudaErrorInvalidDevice);
  cudaFuncAttributes attributes;
  REQUIRE(cudaFuncGetAttributes(&attributes, &count) == cudaSuccess);
  CHECK(attributes.binaryVersion == 90);
  CHECK(attributes.ptxVersion == 90);
  cudaGetLastError();
}

TEST_CASE("PCI addresses lead back to their devices") {
  for (int device = 0; device < 8; ++device) {
    char text[32];
    int found = -1;
    REQUIRE(cudaDeviceGetPCIBusId(text, sizeof text, device) == cudaSuccess);
    REQUIRE(cudaDeviceGetByPCIBusId(&found, text) == cudaSuccess);
    CHECK(found == device);
  }
  int found = -1;
  CHECK(cudaDeviceGetByPCIBusId(&found, "0000:FF:00.0") == cudaErrorInvalidDevice);
  cudaGetLastError();
}

// As each release of the runtime is asked.
bool find_in_driver(const char* name, void** function) {
#if EMU_CUDART == 11
  return cudaGetDriverEntryPoint(name, function, 0) == cudaSuccess;
#else
  cudaDriverEntryPointQueryResult found;
  REQUIRE(cudaGetDriverEntryPointByVersion(name, function, 12000, 0, &found) == cudaSuccess);
  return found == cudaDriverEntryPointSuccess;
#endif
}

TEST_CASE("driver functions are found by name in the version that the caller was written for") {
  void* function = nullptr;
  for (const char* name :
       {"cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetUuid", "cuGetErrorString",
        "cuGetErrorName", "cuMemGetAddressRange", "cuCtxGetCurrent", "cuCtxSetCurrent",
        "cuCtxGetDevice", "cuLaunchKernel", "cuLaunchKernelEx", "cuPointerGetAttribute"}) {
    INFO(name);
    CHECK(find_in_driver(name, &function));
    CHECK(function != nullptr);
  }
  CHECK_FALSE(find_in_driver("cuNoSuchThing", &function));
  CHECK(function == nullptr);
  cudaGetLastError();
}

TEST_CASE("a graph is made by the signature of the release") {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
#if EMU_CUDART == 11
  char log[8] = "unread";
  cudaGraphNode_t at_fault = reinterpret_cast<cudaGraphNode_t>(&executable);
  REQUIRE(cudaGraphInstantiate(&executable, graph, &at_fault, log, sizeof log) == cudaSuccess);
  CHECK(at_fault == nullptr);
  CHECK(std::string(log).empty());
#else
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
#endif
  CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("every error has a name and a text") {
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorString(cudaSuccess)) == "no error");
  CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(12345))) ==
        "unrecognized error code");
}
