// What the stand-ins do not do is told to a recorder, which finds the function by its name.
#include <algorithm>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"
#include "tests/catch.h"

extern "C" {
int cudaGraphicsMapResources();
int cudaGraphicsUnmapResources();
int cuGraphicsMapResources();
int cudaIpcGetMemHandle();
int cudaIpcOpenMemHandle();
int cudaIpcCloseMemHandle();
int cudaIpcGetEventHandle();
int cudaIpcOpenEventHandle();
int cuGetExportTable(const void** table, const void* id);
void rollcall_emulated_listen(void (*told)(const char* function));
}

namespace {

std::vector<std::string>& names_told() {
  static std::vector<std::string> names;
  return names;
}
void note_name(const char* function) { names_told().emplace_back(function); }
long times_told(const std::string& function) {
  return std::count(names_told().begin(), names_told().end(), function);
}

}  // namespace

TEST_CASE("who listens is told once of what is not emulated, also of what was asked for before") {
  CHECK(cudaGraphicsMapResources() == cudaErrorNotSupported);
  rollcall_emulated_listen(note_name);
  CHECK(times_told("cudaGraphicsMapResources") == 1);
  CHECK(times_told("cudaGraphicsUnmapResources") == 0);
  cudaGraphicsMapResources();
  cudaGraphicsUnmapResources();
  CHECK(cuGraphicsMapResources() == cudaErrorNotSupported);
  cudaGraphicsUnmapResources();
  CHECK(cudaFree(nullptr) == cudaSuccess);
  rollcall_emulated_listen(nullptr);
  CHECK(times_told("cudaGraphicsMapResources") == 1);
  CHECK(times_told("cudaGraphicsUnmapResources") == 1);
  CHECK(times_told("cuGraphicsMapResources") == 1);
  CHECK(times_told("cudaFree") == 0);
  cudaGetLastError();
}

TEST_CASE("each function for memory of another process fails, and is told of once") {
  rollcall_emulated_listen(note_name);
  for (int round = 0; round < 2; ++round) {
    CHECK(cudaIpcGetMemHandle() == cudaErrorNotSupported);
    CHECK(cudaIpcOpenMemHandle() == cudaErrorNotSupported);
    CHECK(cudaIpcCloseMemHandle() == cudaErrorNotSupported);
    CHECK(cudaIpcGetEventHandle() == cudaErrorNotSupported);
    CHECK(cudaIpcOpenEventHandle() == cudaErrorNotSupported);
  }
  rollcall_emulated_listen(nullptr);
  CHECK(cudaGetLastError() == cudaErrorNotSupported);
  for (const char* function :
       {"cudaIpcGetMemHandle", "cudaIpcOpenMemHandle", "cudaIpcCloseMemHandle",
        "cudaIpcGetEventHandle", "cudaIpcOpenEventHandle"}) {
    CHECK(times_told(function) == 1);
  }
}

TEST_CASE("a statically linked runtime is refused the driver's inner tables, and told of") {
  const char id[16] = {};
  const void* table = id;
  CHECK(cuGetExportTable(&table, id) == cudaErrorNotSupported);
  CHECK(table == nullptr);
  rollcall_emulated_listen(note_name);
  rollcall_emulated_listen(nullptr);
  CHECK(times_told("cuGetExportTable") == 1);
}
