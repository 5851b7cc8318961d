#include "placement.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "runtime.h"

namespace neaptide::soft {

namespace {
thread_local Placement* active = nullptr;
c10::Allocator* base = nullptr;  // set once by install_placement()
c10::DeleterFnPtr base_delete = nullptr;
}  // namespace

/// mkldnn allocates through raw_allocate and frees through raw_deallocate, so a context is always the data itself and
/// the one deleter must tell device blocks apart: those are not its to free.
void placing_delete(void* data) {
  if (data == nullptr) return;
  auto* runtime = Runtime::find();
  if (runtime != nullptr && runtime->arena().contains(reinterpret_cast<Address>(data))) return;
  if (active != nullptr) active->scratch_ -= std::min(active->scratch_, malloc_usable_size(data));
  base_delete(data);
}

class PlacingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device host(c10::kCPU);
    if (active != nullptr && bytes > 0) {
      for (auto& place : active->places_) {
        if (!place.used && place.bytes == bytes) {
          place.used = true;
          return {place.data, place.data, &placing_delete, host};
        }
      }
    }
    auto* data = base->raw_allocate(bytes);
    if (active != nullptr && data != nullptr) {
      active->scratch_ += malloc_usable_size(data);
      active->scratch_peak_ = std::max(active->scratch_peak_, active->scratch_);
    }
    return {data, data, &placing_delete, host};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &placing_delete; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

void install_placement() {
  if (base != nullptr) return;
  base = c10::GetCPUAllocator();
  base_delete = base->raw_deleter();
  static auto* allocator = new PlacingAllocator;  // tensors may be freed until the process ends
  constexpr std::uint8_t kHighestPriority = 255;
  c10::SetCPUAllocator(allocator, kHighestPriority);
}

Placement::Placement() { active = this; }
Placement::~Placement() { active = nullptr; }

}  // namespace neaptide::soft
