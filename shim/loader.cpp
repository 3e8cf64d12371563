#include "shim/loader.h"

#include <elf.h>
#include <link.h>

#include <atomic>

namespace rollcall::shim {
namespace {

// The dynamic symbol table of one loaded object.
struct SymbolTable {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  size_t string_bytes = 0;
  const uint32_t* gnu_hash = nullptr;
  const ElfW(Word) * sysv_hash = nullptr;
  uintptr_t base = 0;
};

// glibc relocates these pointers in place, other loaders and the vDSO leave offsets.
uintptr_t absolute(uintptr_t base, ElfW(Addr) value) { return value < base ? base + value : value; }

bool read_dynamic(const dl_phdr_info* info, SymbolTable& table) {
  table.base = info->dlpi_addr;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(table.base + info->dlpi_phdr[i].p_vaddr);
  if (dynamic == nullptr) return false;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const uintptr_t at = absolute(table.base, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_SYMTAB) table.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (dynamic->d_tag == DT_STRTAB) table.strings = reinterpret_cast<const char*>(at);
    if (dynamic->d_tag == DT_STRSZ) table.string_bytes = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_GNU_HASH) table.gnu_hash = reinterpret_cast<const uint32_t*>(at);
    if (dynamic->d_tag == DT_HASH) table.sysv_hash = reinterpret_cast<const ElfW(Word)*>(at);
  }
  return table.symbols != nullptr && table.strings != nullptr;
}

// Not strcmp: AddressSanitizer has a strcmp of its own, and asks `dlsym` before that one works.
bool is_same(const char* one, const char* other) {
  while (*one != 0 && *one == *other) {
    ++one;
    ++other;
  }
  return *one == *other;
}

bool is_definition_of(const SymbolTable& table, uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = table.symbols[index];
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
         symbol.st_name < table.string_bytes && is_same(table.strings + symbol.st_name, name);
}

uintptr_t find_by_gnu_hash(const SymbolTable& table, const char* name) {
  uint32_t hash = 5381;
  for (const char* c = name; *c != 0; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const uint32_t bucket_count = table.gnu_hash[0];
  const uint32_t first_index = table.gnu_hash[1];
  const uint32_t bloom_words = table.gnu_hash[2];
  const uint32_t* buckets =
      table.gnu_hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chain = buckets + bucket_count;
  if (bucket_count == 0) return 0;
  uint32_t index = buckets[hash % bucket_count];
  if (index < first_index) return 0;
  for (;; ++index) {
    const uint32_t entry = chain[index - first_index];
    if ((entry | 1) == (hash | 1) && is_definition_of(table, index, name))
      return table.base + table.symbols[index].st_value;
    if (entry & 1) return 0;  // the low bit ends a chain
  }
}

uintptr_t find_in_table(const SymbolTable& table, const char* name) {
  if (table.gnu_hash != nullptr) return find_by_gnu_hash(table, name);
  if (table.sysv_hash == nullptr) return 0;
  for (uint32_t index = 1; index < table.sysv_hash[1]; ++index)
    if (is_definition_of(table, index, name)) return table.base + table.symbols[index].st_value;
  return 0;
}

struct Search {
  const char* name;
  uintptr_t own_base;
  bool passed_own = false;
  uintptr_t behind = 0;     // the first definition behind this library
  uintptr_t elsewhere = 0;  // the first one in front of it
};

uintptr_t own_base() {
  static const char anchor = 0;
  struct Find {
    uintptr_t address, base;
  } find = {reinterpret_cast<uintptr_t>(&anchor), 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        Find& wanted = *static_cast<Find*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          const uintptr_t start = info->dlpi_addr + header.p_vaddr;
          if (header.p_type == PT_LOAD && wanted.address - start < header.p_memsz) {
            wanted.base = info->dlpi_addr;
            return 1;
          }
        }
        return 0;
      },
      &find);
  return find.base;
}

Search search_objects(const char* name) {
  Search search{name, own_base()};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        Search& wanted = *static_cast<Search*>(data);
        if (info->dlpi_addr == wanted.own_base) {
          wanted.passed_own = true;
          return 0;
        }
        SymbolTable table;
        if (!read_dynamic(info, table)) return 0;
        uintptr_t& found = wanted.passed_own ? wanted.behind : wanted.elsewhere;
        if (found == 0) found = find_in_table(table, wanted.name);
        return wanted.behind != 0 ? 1 : 0;
      },
      &search);
  return search;
}

uintptr_t find_behind(const char* name) {
  const Search search = search_objects(name);
  return search.behind != 0 ? search.behind : search.elsewhere;
}

}  // namespace

DlsymFunction real_dlsym() noexcept {
  static std::atomic<uintptr_t> found{0};
  uintptr_t value = found.load(std::memory_order_relaxed);
  if (value == 0) {
    value = find_behind("dlsym");
    found.store(value, std::memory_order_relaxed);
  }
  return reinterpret_cast<DlsymFunction>(value);
}

DlvsymFunction real_dlvsym() noexcept {
  static std::atomic<uintptr_t> found{0};
  uintptr_t value = found.load(std::memory_order_relaxed);
  if (value == 0) {
    value = find_behind("dlvsym");
    found.store(value, std::memory_order_relaxed);
  }
  return reinterpret_cast<DlvsymFunction>(value);
}

Owner owner_of(const void* address) noexcept {
  Dl_info info = {};
  if (address == nullptr || dladdr(address, &info) == 0) return {};
  return {reinterpret_cast<uintptr_t>(info.dli_fbase), info.dli_fname};
}

}  // namespace rollcall::shim
