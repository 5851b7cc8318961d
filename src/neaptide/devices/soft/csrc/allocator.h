// Device memory for torch: storages over the arena.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdint>

#include "../../native/arena.h"
#include "../../native/launch/kernel_log.h"

namespace neaptide::soft {

inline constexpr auto kSoft = c10::DeviceType::PrivateUse1;
inline c10::Device soft_device() { return {kSoft, 0}; }

/// Throws, as CUDA does, when a device is asked for that does not exist: there is one.
inline void check_ordinal(c10::Device device) {
  TORCH_CHECK(device.index() <= 0, "invalid device ordinal: ", device, " was asked for, and there is one device, ",
              soft_device());
}

c10::DeviceAllocator* soft_allocator();

/// A storage on the host device over the same memory, which it does not own.
c10::Storage host_storage(const c10::Storage& storage);

/// Where blocks that are allocated from now on go.
void set_hint(Hint hint);
Hint hint();

/// Reserves scratch for the kernel that is launched next on the current stream, and only for it: the block is free for
/// what is launched later, which runs later.
void reserve_scratch(std::size_t bytes);

}  // namespace neaptide::soft
