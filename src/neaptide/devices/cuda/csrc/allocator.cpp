// Blocks: taking them from the arena, and giving them back.
#include "allocator.h"

#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <thread>

#include "../../native/launch/blocking.h"
#include "region/cuda_region.h"

namespace neaptide::cuda {
namespace {

// How long an allocation that has its leases waits for the device to have the memory: a killed process's memory returns
// within seconds.
constexpr auto kDeviceTime = std::chrono::seconds(20);
constexpr auto kDeviceLook = std::chrono::milliseconds(20);

std::atomic<Hint> current_hint{Hint::ephemeral};
CudaAllocator* installed = nullptr;

void delete_block(void* address) { installed->raw_delete(address); }
StreamId id_of(cudaStream_t stream) { return reinterpret_cast<StreamId>(stream); }
void* pointer(Address address) { return reinterpret_cast<void*>(address); }

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

c10::DeviceIndex current_device() {
  c10::DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

}  // namespace

void set_hint(Hint hint) { current_hint.store(hint); }
Hint hint() { return current_hint.load(std::memory_order_relaxed); }

void install_allocator() {
  if (installed != nullptr) return;
  auto& own = *c10::cuda::CUDACachingAllocator::get();
  if (own.initialized()) throw std::runtime_error("the program uses CUDA already");
  installed = new CudaAllocator(own);  // blocks may be freed until the process ends
  c10::cuda::CUDACachingAllocator::allocator.store(installed);
  c10::SetAllocator(c10::DeviceType::CUDA, installed, 1);
}

Runtime* CudaAllocator::shared(c10::DeviceIndex device) {
  Runtime* const runtime = Runtime::find();
  return runtime != nullptr && runtime->ordinal() == device ? runtime : nullptr;
}

void CudaAllocator::init(int device_count) {
  own_.init(device_count);
  Runtime::first_use();
  if (Runtime* const runtime = Runtime::find()) book_.set_device(static_cast<c10::DeviceIndex>(runtime->ordinal()));
  initialized_ = true;
}

c10::DataPtr CudaAllocator::allocate(std::size_t bytes) {
  const c10::DeviceIndex device = current_device();
  Runtime* const runtime = shared(device);
  if (runtime == nullptr) return own_.allocate(bytes);
  void* const address = take(*runtime, bytes, c10::cuda::getCurrentCUDAStream(device).stream());
  return {address, address, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
}

c10::DeleterFnPtr CudaAllocator::raw_deleter() const { return &delete_block; }

void CudaAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

void* CudaAllocator::raw_alloc(std::size_t bytes) {
  return raw_alloc_with_stream(bytes, c10::cuda::getCurrentCUDAStream(current_device()).stream());
}

void* CudaAllocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  Runtime* const runtime = shared(current_device());
  return runtime != nullptr ? take(*runtime, bytes, stream) : own_.raw_alloc_with_stream(bytes, stream);
}

void* CudaAllocator::take(Runtime& runtime, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  BookedBlock block;
  block.requested = bytes;
  block.stream = id_of(stream);
  block.context = book_.gather(RecordContext::STATE);
  Address address = 0;
  if (const auto pool = pools_.pool_for(stream)) {
    block.pool = *pool;
    if (const auto kept = pools_.take(*pool, block.stream, bytes)) {
      address = kept->first;
      block.bytes = kept->second;
    } else {
      address = take_from_arena(runtime, bytes, block.stream);
      pools_.add(*pool);
    }
  } else {
    address = take_from_arena(runtime, bytes, block.stream);
  }
  if (block.bytes == 0) block.bytes = runtime.arena().block_bytes(address);
  const auto size = static_cast<std::int64_t>(block.bytes);
  book_.add(pointer(address), std::move(block));
  if (c10::memoryProfilingEnabled()) {
    const ArenaStats stats = runtime.arena().stats();
    c10::reportMemoryUsageToProfiler(
        pointer(address), size, stats.needed, stats.held,
        c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(runtime.ordinal())));
  }
  return pointer(address);
}

Address CudaAllocator::take_from_arena(Runtime& runtime, std::size_t bytes, StreamId stream) {
  const auto& keepers = cuda_region(runtime.board()).generation;
  std::uint32_t keeper = keepers.load();
  auto deadline = std::chrono::steady_clock::now() + kDeviceTime;
  for (;;) {
    try {
      return runtime.arena().allocate(bytes, stream, hint());
    } catch (const DeviceFull&) {
      // The pages of a keeper that died are made anew by the next one: then the wait begins again.
      if (const std::uint32_t now = keepers.load(); now != keeper) {
        keeper = now;
        deadline = std::chrono::steady_clock::now() + kDeviceTime;
      }
      if (std::chrono::steady_clock::now() >= deadline)
        fail(runtime, bytes,
             "the budget has room, but the device has no memory: programs that neaptide does not share " +
                 std::string("the device with hold it; lower the budget (neaptide budget)"));
      blocking([] { std::this_thread::sleep_for(kDeviceLook); });
    } catch (const OutOfMemory& error) {
      const std::string text = error.what(), prefix = "out of memory: ";
      fail(runtime, bytes, text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text);
    } catch (const LaunchRefused& refusal) {
      fail(runtime, bytes, refusal.what());
    }
  }
}

void CudaAllocator::fail(Runtime& runtime, std::size_t bytes, const std::string& why) {
  const std::uint64_t capacity = runtime.board().capacity_bytes(), used = runtime.board().used_bytes();
  const std::uint64_t free_bytes = capacity - std::min(capacity, used);
  book_.count_out_of_memory(bytes, free_bytes);
  std::vector<c10::cuda::CUDACachingAllocator::OutOfMemoryObserver> observers;
  {
    const std::lock_guard lock(observers_mutex_);
    observers = observers_;
  }
  for (const auto& observer : observers) observer(runtime.ordinal(), bytes, capacity, free_bytes);
  const std::string job = runtime.board().slot(runtime.member().slot()).job.text;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", mebibytes(bytes),
                   ". neaptide: job ", job, ", budget ", mebibytes(capacity), ": ", why);
}

void CudaAllocator::raw_delete(void* address) {
  if (Runtime::forked()) return;  // the parent's memory
  Runtime* const runtime = Runtime::find();
  if (runtime != nullptr && runtime->arena().contains(reinterpret_cast<Address>(address)))
    free(*runtime, address);
  else if (runtime == nullptr && book_.find(address))
    static_cast<void>(book_.remove(address));  // the device was stopped
  else
    own_.raw_delete(address);
}

void CudaAllocator::free(Runtime& runtime, void* address) {
  const auto block = book_.remove(address);
  TORCH_CHECK(block.has_value(), "no block of CUDA memory starts at address ", address);
  const auto at = reinterpret_cast<Address>(address);
  if (c10::memoryProfilingEnabled()) {
    const ArenaStats stats = runtime.arena().stats();
    c10::reportMemoryUsageToProfiler(
        address, -static_cast<std::int64_t>(block->bytes), stats.needed, stats.held,
        c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(runtime.ordinal())));
  }
  book_.complete_free(address, *block);
  if (block->pool != MempoolId_t{0, 0} && pools_.give(block->pool, block->stream, at, block->bytes)) return;
  give_back(runtime, at);
}

void CudaAllocator::give_back(Runtime& runtime, Address address) {
  if (runtime.capturing()) {  // no event can be recorded now
    const std::lock_guard lock(deferred_mutex_);
    deferred_.push_back(address);
    return;
  }
  runtime.arena().deallocate(address);
}

void CudaAllocator::recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) {
  Runtime* const runtime = shared(stream.device_index());
  const auto address = reinterpret_cast<Address>(data.get_context());
  if (runtime == nullptr || !runtime->arena().contains(address)) {
    if (data.get_deleter() == own_.raw_deleter()) own_.recordStream(data, stream);
    return;  // memory of another library: its own affair, as in torch
  }
  runtime->arena().record_stream(address, id_of(stream.stream()));
}

void* CudaAllocator::getBaseAllocation(void* address, std::size_t* bytes) {
  Runtime* const runtime = Runtime::find();
  if (runtime == nullptr || !runtime->arena().contains(reinterpret_cast<Address>(address)))
    return own_.getBaseAllocation(address, bytes);
  if (bytes != nullptr) *bytes = runtime->arena().block_bytes(reinterpret_cast<Address>(address));
  return address;
}

cudaError_t CudaAllocator::memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                       cudaStream_t stream, bool p2p_enabled) {
  // Mapped memory of two devices without access to each other needs the call for peers.
  if (p2p_enabled || to_device == from_device)
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

c10::DataPtr CudaAllocator::allocateWithAddress(std::size_t bytes, void* address) {
  TORCH_CHECK(false, "neaptide places CUDA memory itself: ", bytes, " bytes at address ", address, " cannot be had");
}

}  // namespace neaptide::cuda
