// The devices' address space: a window of this process's addresses in which nothing else is ever mapped. So an address
// whose memory is gone stays bad, instead of becoming some thread's stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace hollow {

class Addresses {
 public:
  Addresses();
  /// A range that nobody has, without memory; 0 if there is none.
  std::uintptr_t take(std::size_t bytes, std::size_t alignment);
  /// Gives a range back, with whatever is mapped there.
  void give(std::uintptr_t base, std::size_t bytes);

 private:
  std::mutex mutex_;                            // taken last
  std::map<std::uintptr_t, std::size_t> free_;  // by base; neighbours are joined
};

Addresses& addresses();

/// Takes away what is mapped there; the addresses stay the devices'.
bool map_nothing(std::uintptr_t base, std::size_t bytes);

}  // namespace hollow
