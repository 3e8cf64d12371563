// What can be told from a program's file about whether a library can be put in front of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rollcall::tools {

struct ElfFacts {
  bool is_dynamic = false;            // it has an interpreter: LD_PRELOAD works
  std::string interpreter{};          // the dynamic linker it asks for
  std::vector<std::string> needed{};  // DT_NEEDED
  bool mentions_cuda_runtime = false;
  bool mentions_nccl = false;
  bool contains_nccl = false;         // NCCL itself, or a copy that was linked in
  bool has_thread_sanitizer = false;  // its runtime is needed, or linked in
};

// nullopt: not a 64-bit little-endian ELF file (a script), or not readable. The file may be
// anything: every offset is checked before it is used.
std::optional<ElfFacts> read_elf(const std::string& path);

// The file that execvp would run for `program`, or for a script the interpreter that its first line
// names, also by way of `env`; empty: none.
std::string resolve_program(const std::string& program);

// Why a library in front of this program would end it at its start; a sentence, empty: it would
// not, as far as can be told. Such a program must be started without.
std::string preload_harm(const std::string& program);

// Why the dynamic linker preloads nothing into this program, as in "... is a static executable";
// empty: it does, or that cannot be told.
std::string preload_obstacle(const std::string& program);

// One sentence when recording (or emulating) this program cannot work, else empty.
std::string objection_to(const std::string& program, bool emulate);

}  // namespace rollcall::tools
