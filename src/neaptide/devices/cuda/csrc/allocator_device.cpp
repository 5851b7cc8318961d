// The device, statistics and private pools as torch asks for them.
#include <algorithm>

#include "../../native/launch/blocking.h"
#include "allocator.h"

namespace neaptide::cuda {
namespace {

constexpr const char* kNoSharing =
    "neaptide: CUDA memory cannot be passed to another process (CUDA IPC) while the device is shared: its pages move. "
    "Copy the tensor to the CPU first";

}  // namespace

double CudaAllocator::getMemoryFraction(c10::DeviceIndex device) {
  Runtime* const runtime = shared(device);
  if (runtime == nullptr) return own_.getMemoryFraction(device);
  const std::uint64_t limit = runtime->member().arena_limit_bytes();
  if (limit == kNoCeiling) return 1.0;
  return static_cast<double>(limit) / static_cast<double>(getMemoryInfo(device).second);
}

void CudaAllocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  Runtime* const runtime = shared(device);
  if (runtime == nullptr) return own_.setMemoryFraction(fraction, device);
  const auto total = static_cast<double>(getMemoryInfo(device).second);
  runtime->member().set_arena_limit(fraction >= 1.0 ? kNoCeiling : static_cast<std::uint64_t>(fraction * total));
}

void CudaAllocator::emptyCache(MempoolId_t pool) {
  own_.emptyCache(pool);
  Runtime* const runtime = Runtime::find();
  if (runtime == nullptr || runtime->capturing()) return;
  for (const Address address : pools_.take_unused()) runtime->arena().deallocate(address);
  blocking([&] { runtime->arena().empty_cache(); });
}

void CudaAllocator::cacheInfo(c10::DeviceIndex device, std::size_t* largest) {
  Runtime* const runtime = shared(device);
  if (runtime == nullptr) return own_.cacheInfo(device, largest);
  // Libraries ask how much they may use for scratch: what the budget has left now.
  const std::uint64_t capacity = runtime->board().capacity_bytes(), used = runtime->board().used_bytes();
  *largest = capacity - std::min(capacity, used);
}

void CudaAllocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex accessible) {
  Runtime* const runtime = shared(accessible);
  if (runtime != nullptr) runtime->driver().pages().add_peer(device);
  own_.enablePeerAccess(device, accessible);
}

std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> CudaAllocator::getExpandableSegmentSizes(
    c10::DeviceIndex device) {
  if (shared(device) == nullptr) return own_.getExpandableSegmentSizes(device);
  return {};
}

c10::cuda::CUDACachingAllocator::ShareableHandle CudaAllocator::shareIpcHandle(void* address) {
  Runtime* const runtime = Runtime::find();
  TORCH_CHECK(runtime == nullptr || !runtime->arena().contains(reinterpret_cast<Address>(address)), kNoSharing);
  return own_.shareIpcHandle(address);
}

std::shared_ptr<void> CudaAllocator::getIpcDevPtr(std::string handle) { return own_.getIpcDevPtr(std::move(handle)); }

// --- statistics

DeviceStats CudaAllocator::getDeviceStats(c10::DeviceIndex device) {
  Runtime* const runtime = shared(device);
  return runtime != nullptr ? book_.stats(runtime->arena().stats()) : own_.getDeviceStats(device);
}

void CudaAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  if (shared(device) == nullptr) return own_.resetAccumulatedStats(device);
  book_.reset_accumulated();
}

void CudaAllocator::resetPeakStats(c10::DeviceIndex device) {
  Runtime* const runtime = shared(device);
  if (runtime == nullptr) return own_.resetPeakStats(device);
  book_.reset_peaks();
  runtime->arena().reset_peaks();
}

c10::cuda::CUDACachingAllocator::SnapshotInfo CudaAllocator::snapshot(MempoolId_t pool, bool include_traces) {
  auto result = own_.snapshot(pool, include_traces);
  Runtime* const runtime = Runtime::find();
  if (runtime == nullptr) return result;
  for (auto& segment : book_.segments(runtime->arena().blocks()))
    if (pool == MempoolId_t{0, 0} || segment.owner_private_pool_id == pool)
      result.segments.push_back(std::move(segment));
  const auto device = static_cast<std::size_t>(runtime->ordinal());
  if (result.device_traces.size() <= device) result.device_traces.resize(device + 1);
  if (include_traces) result.device_traces[device] = book_.history();
  return result;
}

std::shared_ptr<c10::GatheredContext> CudaAllocator::getContextForPointer(const void* address) {
  if (const auto block = book_.find(address)) return block->context;
  return own_.getContextForPointer(address);
}

void CudaAllocator::recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn gather,
                                  std::size_t entries, RecordContext when, bool clear,
                                  const std::vector<std::string>& skipped) {
  own_.recordHistory(enabled, gather, entries, when, clear, skipped);
  HistoryOptions options{enabled, gather, entries, when, {}};
  for (const std::string& action : skipped)
    options.skipped.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
  book_.record_history(std::move(options), clear);
}

void CudaAllocator::attachOutOfMemoryObserver(c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) {
  own_.attachOutOfMemoryObserver(observer);
  const std::lock_guard lock(observers_mutex_);
  observers_.push_back(std::move(observer));
}

void CudaAllocator::attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) {
  own_.attachOomRejectionObserver(std::move(observer));  // nothing is rejected before it was tried here
}

void CudaAllocator::attachAllocatorTraceTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker watcher) {
  own_.attachAllocatorTraceTracker(watcher);
  book_.watch(std::move(watcher));
}

// --- private pools

void CudaAllocator::beginAllocateToPool(c10::DeviceIndex device, MempoolId_t pool,
                                        std::function<bool(cudaStream_t)> filter) {
  if (shared(device) == nullptr) return own_.beginAllocateToPool(device, pool, std::move(filter));
  pools_.begin(pool, std::move(filter));
}

void CudaAllocator::endAllocateToPool(c10::DeviceIndex device, MempoolId_t pool) {
  if (shared(device) == nullptr) return own_.endAllocateToPool(device, pool);
  pools_.end(pool);
}

void CudaAllocator::markCaptureBegin(c10::DeviceIndex device) {
  Runtime* const runtime = shared(device);
  if (runtime == nullptr) return own_.markCaptureBegin(device);
  runtime->driver().streams().flush();
  runtime->set_capturing(true);
}

void CudaAllocator::markCaptureEnd(c10::DeviceIndex device) {
  Runtime* const runtime = shared(device);
  if (runtime == nullptr) return own_.markCaptureEnd(device);
  runtime->set_capturing(false);
  if (runtime->capturing()) return;
  std::vector<Address> freed;
  {
    const std::lock_guard lock(deferred_mutex_);
    freed.swap(deferred_);
  }
  for (const Address address : freed) runtime->arena().deallocate(address);
}

void CudaAllocator::releasePool(c10::DeviceIndex device, MempoolId_t pool) {
  Runtime* const runtime = shared(device);
  if (runtime == nullptr) return own_.releasePool(device, pool);
  for (const Address address : pools_.release(pool)) give_back(*runtime, address);
}

int CudaAllocator::getPoolUseCount(c10::DeviceIndex device, MempoolId_t pool) {
  return shared(device) != nullptr ? pools_.users(pool) : own_.getPoolUseCount(device, pool);
}

void CudaAllocator::createOrIncrefPool(c10::DeviceIndex device, MempoolId_t pool,
                                       std::shared_ptr<CUDAAllocator> allocator) {
  if (shared(device) == nullptr) return own_.createOrIncrefPool(device, pool, std::move(allocator));
  TORCH_CHECK(
      allocator == nullptr,
      "neaptide: a memory pool with an allocator of its own cannot be used while the device is shared: its memory "
      "would not count against the budget");
  pools_.use(pool);
}

void CudaAllocator::setUseOnOOM(c10::DeviceIndex device, MempoolId_t pool, bool use_on_oom) {
  if (shared(device) == nullptr) own_.setUseOnOOM(device, pool, use_on_oom);  // ours waits for memory instead
}

void CudaAllocator::setNoSplit(c10::DeviceIndex device, MempoolId_t pool) {
  if (shared(device) == nullptr) own_.setNoSplit(device, pool);  // ours never splits a pool's blocks
}

bool CudaAllocator::checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t pool,
                                             const std::unordered_set<void*>& expected) {
  if (shared(device) == nullptr) return own_.checkPoolLiveAllocations(device, pool, expected);
  return book_.live_in(pool) == expected;
}

std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> CudaAllocator::getCheckpointState(
    c10::DeviceIndex device, MempoolId_t pool) {
  TORCH_CHECK(shared(device) == nullptr,
              "neaptide: torch.compile's CUDA graph trees (mode reduce-overhead) are not supported while the device is "
              "shared; use the default mode");
  return own_.getCheckpointState(device, pool);
}

c10::cuda::CUDACachingAllocator::CheckpointDelta CudaAllocator::setCheckpointPoolState(
    c10::DeviceIndex device, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) {
  return own_.setCheckpointPoolState(device, std::move(state));
}

}  // namespace neaptide::cuda
