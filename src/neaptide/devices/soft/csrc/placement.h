// Lets a CPU kernel allocate its results right in the device blocks that were taken for them at launch.
//
// A wrapper around the CPU allocator: while a worker runs a kernel, an allocation of exactly the size of a result that
// has no memory yet gets that result's block. A temporary of equal size may get there first; Kernel sorts that out.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstddef>

namespace neaptide::soft {

/// Wraps the process's CPU allocator. Once.
void install_placement();

/// What the calling thread's allocations go to while this lives; and what they took beyond it.
class Placement {
 public:
  struct Place {
    void* data;
    std::size_t bytes;
    bool used = false;
  };

  Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;
  ~Placement();

  void offer(void* data, std::size_t bytes) { places_.push_back({data, bytes}); }
  /// Most bytes of host memory that were live at once beyond the offered places.
  std::size_t scratch_bytes() const { return scratch_peak_; }

 private:
  friend class PlacingAllocator;
  friend void placing_delete(void* data);

  c10::SmallVector<Place, 4> places_;
  std::size_t scratch_ = 0;
  std::size_t scratch_peak_ = 0;
};

}  // namespace neaptide::soft
