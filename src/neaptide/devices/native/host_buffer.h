// Host memory of the driver's for evicted chunks.
#pragma once

#include <cstddef>
#include <utility>

#include "driver.h"

namespace neaptide {

class HostBuffer {
 public:
  /// Throws std::bad_alloc.
  HostBuffer(Driver& driver, std::size_t bytes)
      : driver_(&driver), memory_(driver.allocate_host(bytes)), bytes_(bytes) {}
  HostBuffer(HostBuffer&& other) noexcept
      : driver_(other.driver_), memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostBuffer() {
    if (memory_ != nullptr) driver_->free_host(memory_, bytes_);
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  Driver* driver_;
  void* memory_;
  std::size_t bytes_;
};

}  // namespace neaptide
