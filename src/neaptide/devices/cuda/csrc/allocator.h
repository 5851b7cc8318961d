// torch's allocator of CUDA memory, over the arena. It replaces torch's own, with all that programs ask of it.
//
// One GPU of the process is shared; for the others, and before the device has started, torch's own allocator does the
// work. Lock order: deferred mutex -> arena; book and pools are leaves.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>
#include <vector>

#include "block_book.h"
#include "private_pools.h"
#include "runtime.h"

namespace neaptide::cuda {

using c10::cuda::CUDACachingAllocator::CUDAAllocator;

class CudaAllocator final : public CUDAAllocator {
 public:
  explicit CudaAllocator(CUDAAllocator& own) : own_(own) {}

  // Blocks.
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* address) override;
  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override;
  void* getBaseAllocation(void* address, std::size_t* bytes) override;
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                          cudaStream_t stream, bool p2p_enabled) override;
  c10::DataPtr allocateWithAddress(std::size_t bytes, void* address) override;

  // The device.
  void init(int device_count) override;
  bool initialized() override { return initialized_; }
  void enable(bool value) override { own_.enable(value); }
  bool isEnabled() const override { return own_.isEnabled(); }
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  void emptyCache(MempoolId_t pool) override;
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex accessible) override;
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override;
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* address) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  std::string name() override { return "neaptide"; }

  // Statistics and history.
  DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(MempoolId_t pool, bool include_traces) override;
  bool isHistoryEnabled() override { return book_.history_enabled() || own_.isHistoryEnabled(); }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* address) override;
  void recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn gather, std::size_t entries,
                     RecordContext when, bool clear, const std::vector<std::string>& skipped) override;
  void attachOutOfMemoryObserver(c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override;
  void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) override;
  void attachAllocatorTraceTracker(c10::CachingDeviceAllocator::AllocatorTraceTracker watcher) override;

  // Private pools.
  void beginAllocateToPool(c10::DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, MempoolId_t pool) override;
  void markCaptureBegin(c10::DeviceIndex device) override;
  void markCaptureEnd(c10::DeviceIndex device) override;
  void releasePool(c10::DeviceIndex device, MempoolId_t pool) override;
  int getPoolUseCount(c10::DeviceIndex device, MempoolId_t pool) override;
  void createOrIncrefPool(c10::DeviceIndex device, MempoolId_t pool, std::shared_ptr<CUDAAllocator> allocator) override;
  void setUseOnOOM(c10::DeviceIndex device, MempoolId_t pool, bool use_on_oom) override;
  void setNoSplit(c10::DeviceIndex device, MempoolId_t pool) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override;
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                                                      MempoolId_t pool) override;
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override;

 private:
  /// The runtime if the device is the shared one, else null.
  static Runtime* shared(c10::DeviceIndex device);
  void* take(Runtime& runtime, std::size_t bytes, cudaStream_t stream);
  Address take_from_arena(Runtime& runtime, std::size_t bytes, StreamId stream);
  void free(Runtime& runtime, void* address);
  void give_back(Runtime& runtime, Address address);
  [[noreturn]] void fail(Runtime& runtime, std::size_t bytes, const std::string& why);

  CUDAAllocator& own_;  // torch's
  bool initialized_ = false;
  BlockBook book_;
  PrivatePools pools_;
  std::mutex deferred_mutex_;
  std::vector<Address> deferred_;  // freed while a graph was captured; they go back when the capture ends
  std::mutex observers_mutex_;     // a leaf
  std::vector<c10::cuda::CUDACachingAllocator::OutOfMemoryObserver> observers_;
};

/// Puts the allocator in the place of torch's. Throws std::runtime_error when the program uses CUDA already.
void install_allocator();
/// Where blocks that are allocated from now on go.
void set_hint(Hint hint);
Hint hint();

}  // namespace neaptide::cuda
