#include "addresses.h"

#include <sys/mman.h>

#include <iterator>

#include "memory.h"

namespace hollow {
namespace {

constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
constexpr std::size_t kWindow = std::size_t{32} << 40;
constexpr std::size_t kSmallestWindow = std::size_t{1} << 30;

}  // namespace

bool map_nothing(std::uintptr_t base, std::size_t bytes) {
  void* address = reinterpret_cast<void*>(base);
  if (mmap(address, bytes, PROT_NONE, kFlags | MAP_FIXED, -1, 0) == MAP_FAILED) return false;
  madvise(address, bytes, MADV_DONTFORK);  // a forked child cannot use the devices
  return true;
}

Addresses::Addresses() {
  for (std::size_t size = kWindow; size >= kSmallestWindow; size /= 2) {  // limits and tools may allow less
    void* base = mmap(nullptr, size, PROT_NONE, kFlags, -1, 0);
    if (base == MAP_FAILED) continue;
    madvise(base, size, MADV_DONTFORK);
    free_[reinterpret_cast<std::uintptr_t>(base)] = size;
    return;
  }
}

std::uintptr_t Addresses::take(std::size_t bytes, std::size_t alignment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const std::uintptr_t begin = range->first, end = begin + range->second, base = round_up(begin, alignment);
    if (base + bytes > end) continue;
    free_.erase(range);
    if (base > begin) free_[begin] = base - begin;
    if (end > base + bytes) free_[base + bytes] = end - base - bytes;
    return base;
  }
  return 0;
}

void Addresses::give(std::uintptr_t base, std::size_t bytes) {
  map_nothing(base, bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto next = free_.upper_bound(base);
  if (next != free_.end() && next->first == base + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == base) {
    std::prev(next)->second += bytes;
    return;
  }
  free_[base] = bytes;
}

Addresses& addresses() {
  static auto* instance = new Addresses;  // never destroyed: torch calls us from static destructors
  return *instance;
}

}  // namespace hollow
