// What torch is told of the device's blocks: statistics, snapshots and the history, as its own allocator keeps them.
//
// Thread-safe. Its mutex is a leaf, but for functions that watch the history, which torch's rules forbid to lock.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../../native/arena.h"

namespace neaptide::cuda {

using c10::MempoolId_t;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::SegmentInfo;
using c10::CachingDeviceAllocator::TraceEntry;

/// One live block.
struct BookedBlock {
  std::size_t bytes = 0;      // rounded
  std::size_t requested = 0;  // by the program
  StreamId stream = 0;
  MempoolId_t pool{0, 0};
  std::shared_ptr<c10::GatheredContext> context;
};

/// What recordHistory() asked for.
struct HistoryOptions {
  bool enabled = false;
  c10::CachingDeviceAllocator::CreateContextFn gather = nullptr;
  std::size_t entries = 0;
  RecordContext when = RecordContext::NEVER;
  std::unordered_set<int> skipped;  // actions
};

class BlockBook {
 public:
  /// What entries of the history and segments name. Set before the first block is added.
  void set_device(c10::DeviceIndex device) { device_ = device; }

  void add(void* address, BookedBlock block);
  /// Removes a block; nothing when none starts there.
  std::optional<BookedBlock> remove(void* address);
  /// The block that starts here. Changes nothing.
  std::optional<BookedBlock> find(const void* address) const;
  /// Addresses of the live blocks of a pool. Changes nothing.
  std::unordered_set<void*> live_in(MempoolId_t pool) const;
  /// A block that was freed can be used again: other streams had to pass it first.
  void complete_free(void* address, const BookedBlock& block);
  void count_out_of_memory(std::size_t bytes, std::size_t free_bytes);

  /// Statistics; `arena` has what is leased. Changes nothing.
  DeviceStats stats(const ArenaStats& arena) const;
  void reset_peaks();
  void reset_accumulated();

  /// All memory that is held, as torch shows it. Changes nothing.
  std::vector<SegmentInfo> segments(const std::vector<HeldBlock>& held) const;
  std::vector<TraceEntry> history() const;
  void record_history(HistoryOptions options, bool clear);
  bool history_enabled() const;
  /// Calls this with every entry of the history, whether it is kept or not.
  void watch(c10::CachingDeviceAllocator::AllocatorTraceTracker watcher);
  /// The stack of the program when a block is allocated, if the history keeps it.
  std::shared_ptr<c10::GatheredContext> gather(RecordContext level) const;

 private:
  void note_locked(TraceEntry::Action action, std::size_t address, std::size_t bytes, StreamId stream, MempoolId_t pool,
                   std::shared_ptr<c10::GatheredContext> context);

  c10::DeviceIndex device_ = 0;
  mutable std::mutex mutex_;
  std::unordered_map<void*, BookedBlock> blocks_;
  DeviceStats stats_;
  HistoryOptions options_;
  std::deque<TraceEntry> history_;
  std::vector<c10::CachingDeviceAllocator::AllocatorTraceTracker> watchers_;
};

}  // namespace neaptide::cuda
