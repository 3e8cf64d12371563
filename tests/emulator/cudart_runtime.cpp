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

TEST_CASE("driver functions are found by name in the version that the caller was written for") {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  for (const char* name :
       {"cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetUuid", "cuGetErrorString",
        "cuGetErrorName", "cuMemGetAddressRange", "cuCtxGetCurrent", "cuCtxSetCurrent",
        "cuCtxGetDevice", "cuLaunchKernel", "cuLaunchKernelEx", "cuPointerGetAttribute"}) {
    INFO(name);
    REQUIRE(cudaGetDriverEntryPointByVersion(name, &function, 12000, 0, &found) == cudaSuccess);
    CHECK(found == cudaDriverEntryPointSuccess);
    CHECK(function != nullptr);
  }
  REQUIRE(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 12000, 0, &found) ==
          cudaSuccess);
  CHECK(found == cudaDriverEntryPointSymbolNotFound);
  CHECK(function == nullptr);
}

TEST_CASE("every error has a name and a text") {
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorString(cudaSuccess)) == "no error");
  CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(12345))) ==
        "unrecognized error code");
}
