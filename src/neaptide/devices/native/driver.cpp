#include "driver.h"

#include <sys/mman.h>

#include <new>

namespace neaptide {

void* Driver::allocate_host(std::size_t bytes) {
  // Left untouched until it is written.
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void Driver::free_host(void* memory, std::size_t bytes) noexcept { munmap(memory, bytes); }

}  // namespace neaptide
