#include "allocator.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime.h"

namespace neaptide::soft {

namespace {

std::atomic<Hint> current_hint{Hint::ephemeral};

/// What a storage owns.
struct Block {
  Address address;
  std::size_t bytes;
  c10::Storage host;  // made once, so that an alias of a tensor costs one object
};

void no_delete(void* /*unused*/) {}

c10::Storage host_storage_at(void* data, std::size_t bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, c10::DataPtr(data, nullptr, &no_delete, c10::Device(c10::kCPU)),
      /*allocator=*/nullptr, /*resizable=*/false));
}

void delete_block(void* context) {
  std::unique_ptr<Block> block(static_cast<Block*>(context));
  auto* runtime = Runtime::find();
  if (runtime == nullptr) return;  // a forked child, or the device has been stopped
  runtime->arena().deallocate(block->address);
}

/// In the words of torch's own allocator for CUDA: libraries look for them before they try a smaller batch.
[[noreturn]] void fail(Runtime& runtime, std::size_t bytes, const std::string& why) {
  constexpr std::string_view kPrefix = "out of memory: ";
  const std::string job = runtime.board().slot(runtime.member().slot()).job.text;
  const std::uint64_t budget_mib = runtime.board().capacity_bytes() >> 20;
  const std::size_t tried_mib = std::max<std::size_t>((bytes + (1 << 19)) >> 20, 1);  // to the nearest, as below
  const bool as_cuda = soft_device().str().rfind("cuda", 0) == 0;
  TORCH_CHECK_WITH(OutOfMemoryError, false, as_cuda ? "CUDA" : "soft", " out of memory. Tried to allocate ", tried_mib,
                   " MiB. neaptide: job ", job, ", budget ", budget_mib,
                   " MiB: ", why.rfind(kPrefix, 0) == 0 ? why.substr(kPrefix.size()) : why);
}

Address take(Runtime& runtime, std::size_t bytes) {
  try {
    return runtime.arena().allocate(bytes, HostDriver::current(), hint());
  } catch (const OutOfMemory& error) {
    fail(runtime, bytes, error.what());
  } catch (const LaunchRefused& refusal) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, refusal.what());
  }
}

class SoftAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &no_delete, soft_device()};
    auto& runtime = Runtime::get();
    const auto address = take(runtime, bytes);
    auto* data = reinterpret_cast<void*>(address);  // NOLINT: on this driver an address is a pointer
    auto block = std::make_unique<Block>(Block{address, bytes, host_storage_at(data, bytes)});
    return {data, block.release(), &delete_block, soft_device()};
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    Runtime::get().synchronize();
    std::memcpy(to, from, bytes);
  }

  bool initialized() override { return Runtime::find() != nullptr; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    if (Runtime::find() != nullptr) blocking([] { Runtime::get().arena().empty_cache(); });
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (data.get_deleter() != &delete_block || data.get_context() == nullptr) return;
    Runtime::get().arena().record_stream(static_cast<Block*>(data.get_context())->address,
                                         static_cast<StreamId>(stream.id()));
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    auto* runtime = Runtime::find();
    const auto stats = runtime != nullptr ? runtime->arena().stats() : ArenaStats{};
    c10::CachingDeviceAllocator::DeviceStats result;
    auto& allocated = result.allocated_bytes[0];
    allocated.current = static_cast<std::int64_t>(stats.needed);
    allocated.peak = static_cast<std::int64_t>(stats.needed_peak);
    allocated.allocated = static_cast<std::int64_t>(stats.needed_total);
    allocated.freed = static_cast<std::int64_t>(stats.needed_total - stats.needed);
    result.active_bytes = result.allocated_bytes;
    auto& reserved = result.reserved_bytes[0];
    reserved.current = static_cast<std::int64_t>(stats.held + stats.over);
    reserved.peak = static_cast<std::int64_t>(stats.held_peak + stats.over_peak);  // at most
    auto& count = result.allocation[0];
    count.current = static_cast<std::int64_t>(stats.live_blocks);
    count.allocated = static_cast<std::int64_t>(stats.allocations);
    count.freed = static_cast<std::int64_t>(stats.deallocations);
    result.num_ooms = static_cast<std::int64_t>(stats.out_of_memory);
    result.num_alloc_retries = static_cast<std::int64_t>(stats.lease_waits);
    return result;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {
    if (auto* runtime = Runtime::find()) runtime->arena().reset_peaks();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex /*device*/) override {
    auto& board = Runtime::get().board();
    const auto capacity = board.capacity_bytes();
    const auto used = board.used_bytes();
    return {used < capacity ? capacity - used : 0, capacity};
  }
};

}  // namespace

c10::DeviceAllocator* soft_allocator() {
  static auto* allocator = new SoftAllocator;  // storages may be freed until the process ends
  return allocator;
}

c10::Storage host_storage(const c10::Storage& storage) {
  const auto& data = storage.data_ptr();
  if (data.get_deleter() == &delete_block && data.get_context() != nullptr) {
    const auto& block = *static_cast<Block*>(data.get_context());
    if (block.bytes == storage.nbytes()) return block.host;
  }
  return host_storage_at(data.get(), storage.nbytes());
}

void set_hint(Hint hint) { current_hint.store(hint); }
Hint hint() { return current_hint.load(std::memory_order_relaxed); }

void reserve_scratch(std::size_t bytes) {
  auto& runtime = Runtime::get();
  runtime.arena().deallocate(take(runtime, bytes));
}

REGISTER_ALLOCATOR(kSoft, soft_allocator())

}  // namespace neaptide::soft
