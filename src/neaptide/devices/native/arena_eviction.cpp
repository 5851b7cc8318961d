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
    copies = copy_out(ranges);
  } catch (...) {
    {
      const Lock lock(mutex_);
      evicted_ = false;
    }
    wake_waiters();
    throw;
  }
  const Lock lock(mutex_);
  evicted_ranges_ = std::move(copies);
  const std::uint64_t bytes = heap_.held_chunks() * chunk_bytes_ - hollow_.bytes();
  stats_.evicted_bytes = bytes;
  stats_.chunks_given += heap_.held_chunks();
  member_.give(bytes);
  count_held_locked();
  return given + bytes;
}

/// Copies chunks to host memory and unbacks them. If it throws (there is no host memory), everything is still in place.
std::vector<Arena::Implementation::EvictedRange> Arena::Implementation::copy_out(const Ranges& ranges) {
  std::vector<EvictedRange> copies;
  for (const ChunkRange& range : ranges) {
    copies.push_back({range, HostBuffer(driver_, heap_.bytes_of(range))});
    driver_.copy_to_host(copies.back().bytes.data(), heap_.address_of(range.first), heap_.bytes_of(range));
  }
  driver_.finish_copies();
  std::size_t moved = 0;
  try {
    for (; moved < ranges.size(); ++moved)
      driver_.unback(heap_.address_of(ranges[moved].first), heap_.bytes_of(ranges[moved]));
  } catch (...) {
    for (std::size_t index = 0; index < moved; ++index) {
      driver_.back(heap_.address_of(ranges[index].first), heap_.bytes_of(ranges[index]));
      driver_.copy_to_device(heap_.address_of(ranges[index].first), copies[index].bytes.data(),
                             heap_.bytes_of(ranges[index]));
    }
    driver_.finish_copies();
    throw;
  }
  return copies;
}

/// Waits while a thread that has run a stream's last work still hands chunks back, outside the lock: some microseconds.
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
      hollow_.remove(heap_.address_of(chunk), heap_.address_of(chunk + 1), [](Address, Address) {});
    }
  }
  // If the capacity has become too small for the chunks, the gaps in them need no leases either.
  if (driver_.page_bytes() > 0 &&
      heap_.held_chunks() * chunk_bytes_ - hollow_.bytes() > member_.board().capacity_bytes())
    for (const auto& [key, pool] : heap_.pools())
      for (const FreeKey& entry : pool->free.entries())
        hollow_.add(entry.block->start, entry.block->end(), [](Address, Address) {});
  stats_.evicted_bytes = heap_.held_chunks() * chunk_bytes_ - hollow_.bytes();
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
      driver_.back(heap_.address_of(ranges[backed].first), heap_.bytes_of(ranges[backed]));
  } catch (...) {
    for (std::size_t index = 0; index < backed; ++index)
      driver_.unback(heap_.address_of(ranges[index].first), heap_.bytes_of(ranges[index]));
    member_.give(bytes);
    throw;
  }
  // A range left over lies within one evicted range: neighbours were evicted together.
  std::size_t source = 0;
  for (const ChunkRange& range : ranges) {
    while (evicted_ranges_[source].chunks.end() < range.end()) ++source;
    const EvictedRange& from = evicted_ranges_[source];
    const std::size_t offset = std::size_t{range.first - from.chunks.first} * chunk_bytes_;
    driver_.copy_to_device(heap_.address_of(range.first), from.bytes.data() + offset, heap_.bytes_of(range));
  }
  driver_.finish_copies();
  for (const ChunkRange& range : ranges)
    hollow_.each(heap_.address_of(range.first), heap_.address_of(range.end()),
                 [this](Address start, Address end) { driver_.unback_pages(start, end - start); });

  Ranges back;
  {
    const Lock lock(mutex_);
    evicted_ = false;
    evicted_ranges_.clear();
    stats_.evicted_bytes = 0;
    stats_.chunks_taken += heap_.held_chunks();
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
