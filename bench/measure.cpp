#include "bench/measure.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace rollcall::bench {

std::vector<double> measure_in_child(
    ChildMeasure measure, const std::vector<std::pair<std::string, std::string>>& variables) {
  char directory[] = "/tmp/rollcall-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) {
    fmt::print(stderr, "bench: no directory could be made under /tmp\n");
    return {};
  }
  const size_t bytes = sizeof(double) * kChildValues;
  auto* values = static_cast<double*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (values == MAP_FAILED) return {};
  const pid_t child = fork();
  if (child == 0) {
    setenv("ROLLCALL_DIR", directory, 1);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    measure(values, directory);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::vector<double> result;
  if (child > 0 && status == 0) result.assign(values, values + kChildValues);
  munmap(values, bytes);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  if (result.empty())
    fmt::print(stderr, "bench: a measurement failed with wait status {}\n", status);
  return result;
}

}  // namespace rollcall::bench
