#include "hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <map>
#include <mutex>

#include "allocator.h"
#include "fallback.h"
#include "generator.h"
#include "runtime.h"

namespace neaptide::soft {

namespace {

/// Host memory that copies may use after the call has returned. Here all host memory would do; what makes it pinned is
/// that the program said so, and so expects to wait before it touches it.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* data = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    if (data != nullptr) {
      std::lock_guard lock(mutex_);
      ranges_[reinterpret_cast<std::uintptr_t>(data)] = bytes;
    }
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool contains(const void* data) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    std::lock_guard lock(mutex_);
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return false;
    --after;
    return address < after->first + after->second;
  }

 private:
  static void release(void* data);
  mutable std::mutex mutex_;  // a leaf
  std::map<std::uintptr_t, std::size_t> ranges_;
};

PinnedAllocator& pinned_allocator() {
  static auto* allocator = new PinnedAllocator;  // tensors may be freed until the process ends
  return *allocator;
}

void PinnedAllocator::release(void* data) {
  if (data == nullptr) return;
  {
    auto& self = pinned_allocator();
    std::lock_guard lock(self.mutex_);
    self.ranges_.erase(reinterpret_cast<std::uintptr_t>(data));
  }
  c10::GetDefaultCPUAllocator()->raw_deallocate(data);
}

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return Runtime::find() != nullptr; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex device) const override { check_ordinal({kSoft, device}); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    setCurrentDevice(device);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex /*device*/) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*device*/) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    check_ordinal({kSoft, device});
    return at::make_generator<SoftGenerator>();
  }
  at::Device getDeviceFromPtr(void* /*data*/) const override { return soft_device(); }
  bool isPinnedPtr(const void* data) const override { return pinned_allocator().contains(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const Launch launch = Runtime::get().begin_launch();
    auto data = soft_allocator()->allocate(bytes);
    const auto kept = std::min(bytes, storage.nbytes());
    if (kept > 0) {
      static const std::string name = "resize";
      launch_function({name, 1, 2 * kept},
                      [to = data.get(), from = storage.data(), kept] { std::memcpy(to, from, kept); });
    }
    storage.set_data_ptr_noswap(std::move(data));
    storage.set_nbytes(bytes);
  }
};

}  // namespace

void register_hooks() {
  static auto* hooks = new Hooks;
  at::RegisterPrivateUse1HooksInterface(hooks);
}

}  // namespace neaptide::soft
