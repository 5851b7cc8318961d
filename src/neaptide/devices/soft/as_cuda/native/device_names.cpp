// Makes `cuda` a name of the soft device, at no cost to any operator. Every text that names a device becomes one in
// c10::Device's constructor, and every device's type becomes text in c10::DeviceTypeName. torch's libraries reach both
// through their linkage tables, and this points those entries at the two functions below.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

// As in c10/core/DeviceType.h and c10/core/Device.h of torch 2.13.
constexpr std::int8_t kCuda = 1;
constexpr std::int8_t kSoft = 20;  // PrivateUse1
struct Device {
  std::int8_t type;
  std::int8_t index;
};

using Parse = void (*)(Device*, const std::string&);
using Name = std::string (*)(std::int8_t, bool);
Parse torch_parse = nullptr;
Name torch_name = nullptr;

void parse(Device* made, const std::string& text) {
  torch_parse(made, text);
  if (made->type == kCuda) made->type = kSoft;
}

std::string name(std::int8_t type, bool lower_case) { return torch_name(type == kSoft ? kCuda : type, lower_case); }

struct Redirection {
  const char* symbol;
  void* original;
  void* replacement;
  int entries;
};

/// One entry of a linkage table, and what it held.
struct Entry {
  void** address;
  void* original;
  bool read_only;
};
std::vector<Entry> changed;

void write(const Entry& entry, void* value) {
  const auto page = static_cast<std::uintptr_t>(getpagesize());
  auto* start = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(entry.address) & ~(page - 1));
  if (entry.read_only && mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(entry.address, value, __ATOMIC_RELEASE);
  if (entry.read_only) mprotect(start, page, PROT_READ);
}

bool is_function_entry(std::uint64_t info) {
  const auto type = ELF64_R_TYPE(info);
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
  return false;
#endif
}

/// The parts of a loaded library that are needed here.
struct Library {
  std::uintptr_t base = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::uintptr_t read_only_start = 0, read_only_end = 0;

  void redirect(const ElfW(Rela) * relocations, std::size_t bytes, std::vector<Redirection>& wanted) const {
    for (std::size_t i = 0; i < bytes / sizeof(ElfW(Rela)); ++i) {
      if (!is_function_entry(relocations[i].r_info)) continue;
      const char* symbol = names + symbols[ELF64_R_SYM(relocations[i].r_info)].st_name;
      for (auto& redirection : wanted) {
        if (std::strcmp(symbol, redirection.symbol) != 0) continue;
        const auto address = base + relocations[i].r_offset;
        const bool read_only = address >= read_only_start && address < read_only_end;
        changed.push_back({reinterpret_cast<void**>(address), redirection.original, read_only});
        write(changed.back(), redirection.replacement);
        ++redirection.entries;
      }
    }
  }
};

int visit(dl_phdr_info* loaded, std::size_t /*size*/, void* data) {
  if (std::strstr(loaded->dlpi_name, "libtorch") == nullptr && std::strstr(loaded->dlpi_name, "libc10") == nullptr) {
    return 0;
  }
  Library library;
  library.base = loaded->dlpi_addr;
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < loaded->dlpi_phnum; ++i) {
    const auto& header = loaded->dlpi_phdr[i];
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(library.base + header.p_vaddr);
    if (header.p_type == PT_GNU_RELRO) {
      library.read_only_start = library.base + header.p_vaddr;
      library.read_only_end = library.read_only_start + header.p_memsz;
    }
  }
  const ElfW(Rela) * tables[2] = {nullptr, nullptr};
  std::size_t bytes[2] = {0, 0};
  for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) {
    const auto pointer = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_SYMTAB) library.symbols = reinterpret_cast<const ElfW(Sym)*>(pointer);
    if (dynamic->d_tag == DT_STRTAB) library.names = reinterpret_cast<const char*>(pointer);
    if (dynamic->d_tag == DT_JMPREL) tables[0] = reinterpret_cast<const ElfW(Rela)*>(pointer);
    if (dynamic->d_tag == DT_PLTRELSZ) bytes[0] = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_RELA) tables[1] = reinterpret_cast<const ElfW(Rela)*>(pointer);
    if (dynamic->d_tag == DT_RELASZ) bytes[1] = dynamic->d_un.d_val;
  }
  if (library.symbols == nullptr || library.names == nullptr) return 0;
  auto& wanted = *static_cast<std::vector<Redirection>*>(data);
  for (int i = 0; i < 2; ++i) {
    if (tables[i] != nullptr) library.redirect(tables[i], bytes[i], wanted);
  }
  return 0;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

/// Give the entries back what they held.
void neaptide_part_names() {
  for (const auto& entry : changed) write(entry, entry.original);
  changed.clear();
}

/// Make `cuda` mean soft and soft read as `cuda`. Returns whether torch was as expected; if not, nothing is changed.
int neaptide_join_names() {
  if (!changed.empty()) return 1;
  void* library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  std::vector<Redirection> wanted = {
      {"_ZN3c106DeviceC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", nullptr,
       reinterpret_cast<void*>(&parse), 0},
      {"_ZN3c1014DeviceTypeNameB5cxx11ENS_10DeviceTypeEb", nullptr, reinterpret_cast<void*>(&name), 0},
  };
  bool found = true;
  for (auto& redirection : wanted) {
    redirection.original = dlsym(library, redirection.symbol);
    found = found && redirection.original != nullptr;
  }
  dlclose(library);
  if (!found) return 0;
  torch_parse = reinterpret_cast<Parse>(wanted[0].original);
  torch_name = reinterpret_cast<Name>(wanted[1].original);
  dl_iterate_phdr(&visit, &wanted);
  for (const auto& redirection : wanted) found = found && redirection.entries > 0;
  if (!found) neaptide_part_names();
  return found ? 1 : 0;
}

#pragma GCC visibility pop
}
