#include "memory.h"

#include <sys/mman.h>

#include "addresses.h"
#include "board.h"

namespace hollow {
namespace {

constexpr std::size_t kMallocUnit = std::size_t{2} << 20;  // what cudaMalloc takes from a device at least
constexpr std::size_t kHostPage = 4096;

void* map_pages(std::size_t bytes, void* at = nullptr) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
  void* address = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}
std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

void* Memory::allocate(int device, std::size_t bytes) {
  if (bytes > config().capacity) return nullptr;  // also keeps the sum below from overflowing
  const std::size_t size = round_up(bytes, kMallocUnit);
  if (!board().take(device, size)) return nullptr;
  const std::uintptr_t base = addresses().take(size, kMallocUnit);
  void* address = base ? map_pages(size, reinterpret_cast<void*>(base)) : nullptr;
  if (!address) {
    if (base) addresses().give(base, size);
    board().give(device, size);
    return nullptr;
  }
  madvise(address, size, MADV_DONTFORK);
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_[base] = {{base, size, Kind::kDevice, device}, true};
  return address;
}

bool Memory::release(void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(number(address));
  if (found == entries_.end() || found->second.range.kind != Kind::kDevice || !found->second.by_malloc) return false;
  const Range range = found->second.range;
  entries_.erase(found);
  addresses().give(range.base, range.size);
  board().give(range.device, range.size);
  return true;
}

void* Memory::allocate_pinned(std::size_t bytes) {
  const std::size_t size = round_up(bytes ? bytes : 1, kHostPage);
  void* address = map_pages(size);
  if (!address) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_[number(address)] = {{number(address), size, Kind::kPinned, 0}, true};
  return address;
}

bool Memory::release_pinned(void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(number(address));
  if (found == entries_.end() || found->second.range.kind != Kind::kPinned || !found->second.by_malloc) return false;
  munmap(address, found->second.range.size);
  entries_.erase(found);
  return true;
}

bool Memory::overlaps(std::uintptr_t base, std::size_t size) const {
  auto next = entries_.lower_bound(base);
  if (next != entries_.end() && next->first < base + size) return true;
  return next != entries_.begin() && (--next)->second.range.end() > base;
}

bool Memory::register_pinned(void* address, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (overlaps(number(address), bytes)) return false;
  entries_[number(address)] = {{number(address), bytes, Kind::kPinned, 0}, false};
  return true;
}

bool Memory::unregister_pinned(void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(number(address));
  if (found == entries_.end() || found->second.range.kind != Kind::kPinned || found->second.by_malloc) return false;
  entries_.erase(found);
  return true;
}

void Memory::add(const Range& range) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_[range.base] = {range, false};
}
void Memory::remove(std::uintptr_t base) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.erase(base);
}

std::optional<Range> Memory::find(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto next = entries_.upper_bound(number(address));
  if (next == entries_.begin()) return {};
  const Range& range = (--next)->second.range;
  if (number(address) >= range.end()) return {};
  return range;
}

Memory& memory() {
  static auto* instance = new Memory;  // never destroyed: torch calls us from static destructors
  return *instance;
}

}  // namespace hollow
