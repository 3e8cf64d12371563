#include "emulator/nccl/settings.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace emu_nccl {
namespace {

void read(const char* variable, uint64_t* value) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return;
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || *text == '-') {
    std::fprintf(stderr, "rollcall emulator: %s=%s is not a number; using %llu\n", variable, text,
                 static_cast<unsigned long long>(*value));
    return;
  }
  *value = number;
}

void read(const char* variable, std::string* value) {
  const char* const text = std::getenv(variable);
  if (text != nullptr) *value = text;
}

Settings read_all() {
  Settings all;
#define EMU_NCCL_READ(kind, field, variable, fallback, meaning) read(variable, &all.field);
  EMU_NCCL_SETTINGS(EMU_NCCL_READ)
#undef EMU_NCCL_READ
  return all;
}

}  // namespace

const Settings& settings() {
  static const Settings* const all = new Settings(read_all());
  return *all;
}

}  // namespace emu_nccl
