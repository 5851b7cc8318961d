// Moving a quiescent process's chunks to host memory and back to the same addresses.
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "arena_implementation.h"

namespace neaptide {

std::size_t Arena::Implementation::evict(Deadline deadline) {
  member_.board().require_owner();
  const std::lock_guard eviction(eviction_mutex_);
  if (evicted()) return 0;
  bool drained = drain_streams(deadline);
  progress();
  std::size_t given = shed();
  drained = await_hand_backs(deadline) && drained;

  Ranges ranges;
  {
    const Lock lock(mutex_);
    if (!drained || heap_.waiting_chunks() > 0 || !drains_.empty())
      throw std::logic_error("evict: the process is not quiescent: work is still in flight");
    evicted_ = true;  // from here on no thread allocates
    ranges = heap_.ranges([](auto) { return true; });
  }
  std::vector<EvictedRange> copies;
  try {
    for (const ChunkRange& range : ranges) {
      copies.push_back({range, HostBuffer(range.bytes())});
      driver_.copy_to_host(copies.back().bytes.data(), heap_.address_of(range.first), range.bytes());
    }
  } catch (...) {
    const Lock lock(mutex_);
    evicted_ = false;
    throw;
  }
  std::uint64_t bytes = 0;
  for (const ChunkRange& range : ranges) {
    driver_.unback(heap_.address_of(range.first), range.bytes());
    bytes += range.bytes();
  }
  const Lock lock(mutex_);
  evicted_ranges_ = std::move(copies);
  stats_.evicted_bytes = bytes;
  stats_.chunks_given += bytes / kChunkBytes;
  member_.give(bytes);
  count_held_locked();
  return given + bytes;
}

/// Waits for a thread that ran a stream's last work and still hands chunks back, outside the lock: some microseconds.
bool Arena::Implementation::await_hand_backs(Deadline deadline) {
  for (;;) {
    {
      const Lock lock(mutex_);
      if (detached_chunks_ == 0) return true;
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::yield();
  }
}

/// Blocks may be freed while evicted: chunks that are empty by now need no lease and no copy. Returns the rest.
Arena::Implementation::Ranges Arena::Implementation::drop_empty_evicted_locked() {
  for (const ChunkRange& range : heap_.ranges([&](auto chunk) { return heap_.is_empty(chunk); })) {
    for (std::uint32_t chunk = range.first; chunk < range.end(); ++chunk) {
      heap_.remove({chunk, 1});
      heap_.put_back({chunk, 1});
    }
  }
  stats_.evicted_bytes = heap_.held_chunks() * kChunkBytes;
  return heap_.ranges([](auto) { return true; });
}

bool Arena::Implementation::restore(Deadline deadline) {
  member_.board().require_owner();
  const std::lock_guard eviction(eviction_mutex_);
  if (!evicted()) return true;

  Ranges ranges;
  std::uint64_t bytes = 0;
  std::optional<LeaseClaim> claim;
  for (;;) {
    const std::uint32_t epoch = member_.memory_epoch();
    {
      const Lock lock(mutex_);
      ranges = drop_empty_evicted_locked();
      bytes = stats_.evicted_bytes;
    }
    if (member_.try_take(bytes) == Lease::granted) break;
    if (claim)
      claim->resize(bytes);
    else
      claim.emplace(member_, bytes);
    bool in_time = false;
    run_blocking([&] { in_time = claim->wait(epoch, deadline); });
    if (!in_time) return false;
  }
  claim.reset();

  std::size_t backed = 0;
  try {
    for (; backed < ranges.size(); ++backed)
      driver_.back(heap_.address_of(ranges[backed].first), ranges[backed].bytes());
  } catch (...) {
    for (std::size_t index = 0; index < backed; ++index)
      driver_.unback(heap_.address_of(ranges[index].first), ranges[index].bytes());
    member_.give(bytes);
    throw;
  }
  // A range left over lies within one evicted range: neighbours were evicted together.
  std::size_t source = 0;
  for (const ChunkRange& range : ranges) {
    while (evicted_ranges_[source].chunks.end() < range.end()) ++source;
    const EvictedRange& from = evicted_ranges_[source];
    const std::size_t offset = std::size_t{range.first - from.chunks.first} * kChunkBytes;
    driver_.copy_to_device(heap_.address_of(range.first), from.bytes.data() + offset, range.bytes());
  }

  Ranges back;
  {
    const Lock lock(mutex_);
    evicted_ = false;
    evicted_ranges_.clear();
    stats_.evicted_bytes = 0;
    stats_.chunks_taken += bytes / kChunkBytes;
    count_held_locked();
    // Freed between the look and now: the streams are idle, so they can go back at once.
    for (const ChunkRange& range : heap_.ranges([&](auto chunk) { return heap_.is_empty(chunk); }))
      for (std::uint32_t chunk = range.first; chunk < range.end(); ++chunk) detach_locked(chunk, back);
  }
  if (!back.empty()) hand_back(back);
  wake_waiters();
  return true;
}

bool Arena::Implementation::evicted() const {
  const Lock lock = guard();
  return evicted_;
}

}  // namespace neaptide
