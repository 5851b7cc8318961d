#include "block_book.h"

#include <algorithm>
#include <utility>

namespace neaptide::cuda {
namespace {

using c10::CachingDeviceAllocator::StatArray;
using c10::CachingDeviceAllocator::StatType;

constexpr std::size_t kSmallBytes = std::size_t{1} << 20;  // torch counts blocks up to this as small

std::size_t pool_of(std::size_t bytes) {
  return static_cast<std::size_t>(bytes <= kSmallBytes ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

void increase(StatArray& stat, std::size_t pool, std::size_t amount) {
  stat[0].increase(amount);
  stat[pool].increase(amount);
}

void decrease(StatArray& stat, std::size_t pool, std::size_t amount) {
  stat[0].decrease(amount);
  stat[pool].decrease(amount);
}

void* pointer(StreamId stream) { return reinterpret_cast<void*>(stream); }

template <typename Change>
void each_array(DeviceStats& stats, Change change) {
  for (StatArray* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes})
    for (auto& stat : *array) change(stat);
}

}  // namespace

void BlockBook::add(void* address, BookedBlock block) {
  const std::lock_guard lock(mutex_);
  const std::size_t pool = pool_of(block.bytes);
  increase(stats_.allocation, pool, 1);
  increase(stats_.allocated_bytes, pool, block.bytes);
  increase(stats_.active, pool, 1);
  increase(stats_.active_bytes, pool, block.bytes);
  increase(stats_.requested_bytes, pool, block.requested);
  note_locked(TraceEntry::ALLOC, reinterpret_cast<std::size_t>(address), block.requested, block.stream, block.pool,
              block.context);
  blocks_[address] = std::move(block);
}

std::optional<BookedBlock> BlockBook::remove(void* address) {
  auto context = gather(RecordContext::ALL);
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return std::nullopt;
  BookedBlock block = std::move(found->second);
  blocks_.erase(found);
  const std::size_t pool = pool_of(block.bytes);
  decrease(stats_.allocation, pool, 1);
  decrease(stats_.allocated_bytes, pool, block.bytes);
  decrease(stats_.requested_bytes, pool, block.requested);
  note_locked(TraceEntry::FREE_REQUESTED, reinterpret_cast<std::size_t>(address), block.requested, block.stream,
              block.pool, std::move(context));
  return block;
}

void BlockBook::complete_free(void* address, const BookedBlock& block) {
  const std::lock_guard lock(mutex_);
  const std::size_t pool = pool_of(block.bytes);
  decrease(stats_.active, pool, 1);
  decrease(stats_.active_bytes, pool, block.bytes);
  note_locked(TraceEntry::FREE_COMPLETED, reinterpret_cast<std::size_t>(address), block.requested, block.stream,
              block.pool, nullptr);
}

std::optional<BookedBlock> BlockBook::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(const_cast<void*>(address));
  if (found == blocks_.end()) return std::nullopt;
  return found->second;
}

std::unordered_set<void*> BlockBook::live_in(MempoolId_t pool) const {
  const std::lock_guard lock(mutex_);
  std::unordered_set<void*> live;
  for (const auto& [address, block] : blocks_)
    if (block.pool == pool) live.insert(address);
  return live;
}

void BlockBook::count_out_of_memory(std::size_t bytes, std::size_t free_bytes) {
  auto context = gather(RecordContext::STATE);
  const std::lock_guard lock(mutex_);
  note_locked(TraceEntry::OOM, free_bytes, bytes, 0, {0, 0}, std::move(context));
}

DeviceStats BlockBook::stats(const ArenaStats& arena) const {
  const std::lock_guard lock(mutex_);
  DeviceStats copy = stats_;
  auto& reserved = copy.reserved_bytes[0];
  reserved.current = static_cast<std::int64_t>(arena.held);
  reserved.peak = static_cast<std::int64_t>(arena.held_peak);
  copy.num_alloc_retries = static_cast<std::int64_t>(arena.lease_waits);
  copy.num_ooms = static_cast<std::int64_t>(arena.out_of_memory);
  copy.num_device_alloc = static_cast<std::int64_t>(arena.chunks_taken);
  copy.num_device_free = static_cast<std::int64_t>(arena.chunks_given);
  copy.segment[0].current = copy.num_device_alloc - copy.num_device_free;
  auto& spare = copy.inactive_split_bytes[0];
  spare.current = reserved.current - std::min(reserved.current, copy.active_bytes[0].current);
  return copy;
}

void BlockBook::reset_peaks() {
  const std::lock_guard lock(mutex_);
  each_array(stats_, [](auto& stat) { stat.reset_peak(); });
}

void BlockBook::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  each_array(stats_, [](auto& stat) { stat.reset_accumulated(); });
}

std::vector<SegmentInfo> BlockBook::segments(const std::vector<HeldBlock>& held) const {
  const std::lock_guard lock(mutex_);
  std::vector<SegmentInfo> found;
  for (const HeldBlock& block : held) {
    const bool follows = !found.empty() && found.back().address + found.back().total_size == block.address &&
                         found.back().stream == pointer(block.stream);
    if (!follows) {
      SegmentInfo segment;
      segment.device = device_;
      segment.address = block.address;
      segment.stream = pointer(block.stream);
      segment.is_large = true;
      segment.is_expandable = true;
      found.push_back(std::move(segment));
    }
    SegmentInfo& segment = found.back();
    c10::CachingDeviceAllocator::BlockInfo info;
    info.size = block.bytes;
    const auto booked = blocks_.find(reinterpret_cast<void*>(block.address));
    info.allocated = booked != blocks_.end();
    info.active = !block.free;
    if (info.allocated) {
      info.requested_size = booked->second.requested;
      info.context_when_allocated = booked->second.context;
      segment.owner_private_pool_id = booked->second.pool;
    }
    segment.total_size += info.size;
    segment.requested_size += info.requested_size;
    segment.allocated_size += info.allocated ? info.size : 0;
    segment.active_size += info.active ? info.size : 0;
    segment.blocks.push_back(std::move(info));
  }
  return found;
}

std::vector<TraceEntry> BlockBook::history() const {
  const std::lock_guard lock(mutex_);
  return {history_.begin(), history_.end()};
}

void BlockBook::record_history(HistoryOptions options, bool clear) {
  const std::lock_guard lock(mutex_);
  options_ = std::move(options);
  if (clear || !options_.enabled) history_.clear();
  while (history_.size() > options_.entries) history_.pop_front();
}

bool BlockBook::history_enabled() const {
  const std::lock_guard lock(mutex_);
  return options_.enabled;
}

void BlockBook::watch(c10::CachingDeviceAllocator::AllocatorTraceTracker watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.push_back(std::move(watcher));
}

std::shared_ptr<c10::GatheredContext> BlockBook::gather(RecordContext level) const {
  c10::CachingDeviceAllocator::CreateContextFn function = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (options_.enabled && options_.when >= level) function = options_.gather;
  }
  return function != nullptr ? function() : nullptr;  // it may take the interpreter lock
}

void BlockBook::note_locked(TraceEntry::Action action, std::size_t address, std::size_t bytes, StreamId stream,
                            MempoolId_t pool, std::shared_ptr<c10::GatheredContext> context) {
  if (!options_.enabled && watchers_.empty()) return;
  if (options_.when < RecordContext::ALLOC) context = nullptr;
  TraceEntry entry(action, device_, address, bytes, pointer(stream), pool, c10::getApproximateTime(),
                   std::move(context));
  for (const auto& watcher : watchers_) watcher(entry);
  if (!options_.enabled || options_.entries == 0 || options_.skipped.count(action) != 0) return;
  if (history_.size() >= options_.entries) history_.pop_front();
  history_.push_back(std::move(entry));
}

}  // namespace neaptide::cuda
