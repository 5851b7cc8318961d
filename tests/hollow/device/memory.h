// Address ranges that the hollow devices know: device memory, pinned memory, and where device memory has been.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace hollow {

enum class Kind { kDevice, kPinned };

struct Range {
  std::uintptr_t base;
  std::size_t size;
  Kind kind;
  int device;  // of device memory
  std::uintptr_t end() const { return base + size; }
};

class Memory {
 public:
  /// cudaMalloc. Gives nullptr if the device has too few bytes.
  void* allocate(int device, std::size_t bytes);
  bool release(void* address);

  void* allocate_pinned(std::size_t bytes);
  bool release_pinned(void* address);
  bool register_pinned(void* address, std::size_t bytes);
  bool unregister_pinned(void* address);

  /// Virtual memory management tells what is mapped.
  void add(const Range& range);
  void remove(std::uintptr_t base);

  /// The range that holds the address.
  std::optional<Range> find(const void* address);

 private:
  struct Entry {
    Range range;
    bool by_malloc;  // else it was registered, or mapped by virtual memory management
  };
  bool overlaps(std::uintptr_t base, std::size_t size) const;
  std::mutex mutex_;
  std::map<std::uintptr_t, Entry> entries_;  // by base
};

Memory& memory();

std::size_t round_up(std::size_t value, std::size_t unit);

}  // namespace hollow
