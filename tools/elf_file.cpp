#include "tools/elf_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>

namespace rollcall::tools {
namespace {

namespace fs = std::filesystem;

// Programs are read whole to look for names; beyond this the look is at the front only.
constexpr uint64_t kBytesRead = 512ull << 20;

constexpr size_t kNameMax = 4096;
// A script's interpreter may be a script again; the kernel follows five.
constexpr int kInterpretersMax = 5;
constexpr size_t kFirstLineMax = 256;

bool needs(const ElfFacts& facts, std::string_view prefix) {
  return std::any_of(facts.needed.begin(), facts.needed.end(),
                     [&](const std::string& name) { return name.rfind(prefix, 0) == 0; });
}

class ElfImage {
 public:
  explicit ElfImage(std::span<const char> bytes) : bytes_(bytes) {}

  bool parse(ElfFacts& facts) {
    Elf64_Ehdr header;
    if (!copy(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
      return false;
    }
    uint64_t dynamic_offset = 0;
    uint64_t dynamic_bytes = 0;
    for (unsigned at = 0; at < header.e_phnum; ++at) {
      Elf64_Phdr segment;
      if (!copy(header.e_phoff + uint64_t{at} * sizeof segment, segment)) break;
      if (segment.p_type == PT_INTERP) {
        facts.is_dynamic = true;
        facts.interpreter = text_at(segment.p_offset).substr(0, kNameMax);
      }
      if (segment.p_type == PT_LOAD) loads_.push_back(segment);
      if (segment.p_type == PT_DYNAMIC) {
        dynamic_offset = segment.p_offset;
        dynamic_bytes = segment.p_filesz;
      }
    }
    read_needed(dynamic_offset, dynamic_bytes, facts);
    facts.has_thread_sanitizer = needs(facts, "libtsan.so") || needs(facts, "libclang_rt.tsan") ||
                                 defines(header, "__tsan_init");
    return true;
  }

 private:
  template <typename Value>
  bool copy(uint64_t offset, Value& value) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof value) return false;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return true;
  }

  std::optional<uint64_t> offset_of(uint64_t address) const {
    for (const Elf64_Phdr& load : loads_) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return address - load.p_vaddr + load.p_offset;
      }
    }
    return std::nullopt;
  }

  std::string text_at(uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    const char* start = bytes_.data() + offset;
    return {start, strnlen(start, bytes_.size() - offset)};
  }

  void read_needed(uint64_t offset, uint64_t bytes, ElfFacts& facts) const {
    std::vector<uint64_t> names;
    std::optional<uint64_t> strings;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= bytes; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      if (!copy(offset + at, entry) || entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_STRTAB) strings = offset_of(entry.d_un.d_ptr);
    }
    if (!strings) return;
    for (const uint64_t name : names) facts.needed.push_back(text_at(*strings + name));
  }

  // Whether a symbol table that has a section has the name, and not as something to be found
  // elsewhere.
  bool defines(const Elf64_Ehdr& header, std::string_view name) const {
    for (unsigned at = 0; at < header.e_shnum; ++at) {
      Elf64_Shdr section;
      if (!copy(header.e_shoff + uint64_t{at} * sizeof section, section)) break;
      if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_SYMTAB) continue;
      Elf64_Shdr names;
      if (!copy(header.e_shoff + uint64_t{section.sh_link} * sizeof names, names)) continue;
      for (uint64_t symbol_at = 0; symbol_at + sizeof(Elf64_Sym) <= section.sh_size;
           symbol_at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        if (!copy(section.sh_offset + symbol_at, symbol)) break;
        if (symbol.st_shndx != SHN_UNDEF && is_at(names.sh_offset + symbol.st_name, name)) {
          return true;
        }
      }
    }
    return false;
  }

  // The name and the NUL behind it.
  bool is_at(uint64_t offset, std::string_view name) const {
    return offset < bytes_.size() && bytes_.size() - offset > name.size() &&
           std::memcmp(bytes_.data() + offset, name.data(), name.size()) == 0 &&
           bytes_[offset + name.size()] == 0;
  }

  std::span<const char> bytes_;
  std::vector<Elf64_Phdr> loads_;
};

// Every release has its version in it as a text: "NCCL version 2.27.7+cuda12.9". Who reads such a
// text has its beginning alone.
bool holds_nccl_version(std::string_view file) {
  constexpr std::string_view kStart = "NCCL version 2.";
  for (size_t at = 0; (at = file.find(kStart, at)) != std::string_view::npos;) {
    at += kStart.size();
    const size_t end = std::min(file.find_first_not_of("0123456789.", at), file.size());
    if (end > at && file.substr(end).starts_with("+cuda")) return true;
  }
  return false;
}

bool is_program(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

// With another user or group than ours it runs as the loader's secure mode has it.
bool gains_privileges(const std::string& path) {
  struct stat status {};
  struct statvfs mount {};
  if (::stat(path.c_str(), &status) != 0 || ::statvfs(path.c_str(), &mount) != 0) return false;
  if ((mount.f_flag & ST_NOSUID) != 0) return false;
  return ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid()) ||
         ((status.st_mode & S_ISGID) != 0 && status.st_gid != ::getgid());
}

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) return is_program(program) ? program : std::string();
  const char* search = std::getenv("PATH");
  std::string_view rest = search == nullptr ? "/bin:/usr/bin" : search;
  while (true) {
    const size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    std::string path = (folder.empty() ? "." : std::string(folder)) + "/" + program;
    if (is_program(path)) return path;
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

// What a script's first line names, as the kernel reads it; `env` names another. Empty: it is no
// script.
std::string interpreter_of_script(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line(kFirstLineMax, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<size_t>(file.gcount()));
  if (line.rfind("#!", 0) != 0) return {};
  std::istringstream words(line.substr(2, line.find('\n') - 2));
  std::string word;
  words >> word;
  if (fs::path(word).filename() != "env") return word;
  while (words >> word) {
    if (word[0] != '-' && word.find('=') == std::string::npos) return word;
  }
  return {};
}

std::string obstacle_in(const std::string& path, const std::optional<ElfFacts>& facts) {
  if (facts && !facts->is_dynamic) return path + " is a static executable";
  if (gains_privileges(path)) return path + " is setuid or setgid";
  return {};
}

}  // namespace

std::optional<ElfFacts> read_elf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char mark[SELFMAG] = {};
  if (!file.read(mark, sizeof mark) || std::memcmp(mark, ELFMAG, SELFMAG) != 0) return std::nullopt;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string bytes(std::min<uint64_t>(static_cast<uint64_t>(status.st_size), kBytesRead), '\0');
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  ElfFacts facts;
  if (!ElfImage(bytes).parse(facts)) return std::nullopt;
  // Launching a kernel is what every use of the runtime comes down to; the error name is in the
  // tables of the static runtime even when symbols were stripped.
  const std::string_view view(bytes);
  facts.mentions_cuda_runtime = view.find("cudaLaunchKernel") != std::string_view::npos ||
                                view.find("cudaErrorInitializationError") != std::string_view::npos;
  facts.mentions_nccl = view.find("ncclAllReduce") != std::string_view::npos;
  facts.contains_nccl = holds_nccl_version(view);
  return facts;
}

std::string resolve_program(const std::string& program) {
  std::string path = find_program(program);
  for (int at = 0; at < kInterpretersMax; ++at) {
    const std::string interpreter = path.empty() ? std::string() : interpreter_of_script(path);
    if (interpreter.empty()) break;
    path = find_program(interpreter);
  }
  return path;
}

std::string preload_harm(const std::string& program) {
  const std::string path = resolve_program(program);
  const std::optional<ElfFacts> facts = path.empty() ? std::nullopt : read_elf(path);
  if (!facts) return {};
  if (fs::path(facts->interpreter).filename().string().rfind("ld-musl-", 0) == 0) {
    return fmt::format(
        "{} is a program for the C library musl, which cannot load Rollcall's library and would "
        "end it; build it for glibc.",
        path);
  }
  if (facts->has_thread_sanitizer) {
    return fmt::format(
        "{} is built with ThreadSanitizer, whose runtime dies at its start behind a library that "
        "intercepts dlsym; build it without, or record it with the profiler plugin.",
        path);
  }
  return {};
}

std::string preload_obstacle(const std::string& program) {
  const std::string path = resolve_program(program);
  return path.empty() ? std::string() : obstacle_in(path, read_elf(path));
}

std::string objection_to(const std::string& program, bool emulate) {
  const std::string path = resolve_program(program);
  const std::optional<ElfFacts> facts = path.empty() ? std::nullopt : read_elf(path);
  if (const std::string obstacle = obstacle_in(path, facts); !obstacle.empty()) {
    return fmt::format(
        "{}, so nothing can be put in front of its calls and nothing will be recorded; {}.",
        obstacle,
        facts && !facts->is_dynamic ? "link it dynamically" : "run a copy without that mark");
  }
  if (!facts) return {};
  if (emulate && facts->mentions_cuda_runtime && !needs(*facts, "libcudart.so")) {
    return fmt::format(
        "{} contains the CUDA runtime (it was linked statically), which the emulator cannot "
        "replace; "
        "link it with -cudart shared.",
        path);
  }
  return {};
}

}  // namespace rollcall::tools
