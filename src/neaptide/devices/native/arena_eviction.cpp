// Moving a quiescent process's chunks to host memory and back to the same addresses.
#include <algorithm>
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
    ranges = heap_.ranges([this](auto chunk) { return !is_over(chunk); });
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
  const std::uint64_t bytes = heap_.held_chunks() * chunk_bytes_ - hollow_.bytes() - over_.bytes();
  stats_.evicted_bytes = bytes;
  for (const ChunkRange& range : ranges) {
    stats_.chunks_given += range.count;
    stats_.evicted_bytes += forget_over_locked(range);  // pages of chunks that were over the link only in part
  }
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
      hollow_.remove(heap_.address_of(chunk), heap_.address_of(chunk + 1));
      if (!is_over(chunk)) continue;
      driver_.unback(heap_.address_of(chunk), chunk_bytes_);
      forget_over_locked({chunk, 1});
      ++stats_.chunks_given;
    }
  }
  // If the capacity has become too small for the chunks, the gaps in them need no leases either.
  if (driver_.page_bytes() > 0 &&
      heap_.held_chunks() * chunk_bytes_ - hollow_.bytes() - over_.bytes() > member_.board().capacity_bytes())
    for (const auto& [key, pool] : heap_.pools())
      for (const FreeKey& entry : pool->free.entries())
        if (over_.within(entry.block->start, entry.block->end()) == 0)
          hollow_.add(entry.block->start, entry.block->end());
  stats_.evicted_bytes = heap_.held_chunks() * chunk_bytes_ - hollow_.bytes() - over_.bytes();
  count_held_locked();
  return heap_.ranges([this](auto chunk) { return !is_over(chunk); });
}

/// Puts memory behind chunks again. `over` of their bytes have no lease: whole chunks, from the last one on.
void Arena::Implementation::back_evicted(const Ranges& ranges, std::uint64_t bytes, std::uint64_t over) {
  std::vector<Span> away;  // one for each range
  for (std::uint64_t left = over; away.size() < ranges.size();) {
    const ChunkRange& range = ranges[ranges.size() - 1 - away.size()];
    std::uint32_t first = range.end();
    const auto without_memory = [&](std::uint32_t chunk) {
      return hollow_.within(heap_.address_of(chunk), heap_.address_of(chunk + 1));
    };
    for (; left > 0 && first > range.first; --first) left -= std::min(left, chunk_bytes_ - without_memory(first - 1));
    away.push_back({heap_.address_of(first), heap_.address_of(range.end())});
  }
  std::reverse(away.begin(), away.end());
  std::size_t backed = 0;
  try {
    for (; backed < ranges.size(); ++backed) back(ranges[backed], away[backed]);
  } catch (...) {
    for (std::size_t index = 0; index < backed; ++index)
      driver_.unback(heap_.address_of(ranges[index].first), heap_.bytes_of(ranges[index]));
    member_.give(bytes - over);
    member_.give_over(over);
    throw;
  }
  const Lock lock(mutex_);
  std::uint64_t added = 0;
  for (const Span& span : away)
    for (Address at = span.start; at < span.end; at += chunk_bytes_) {
      Address from = at;
      hollow_.each(at, at + chunk_bytes_, [&](Address start, Address end) {
        added += over_.add(from, start);
        from = end;
      });
      added += over_.add(from, at + chunk_bytes_);
    }
  if (added > over) member_.send_over(added - over);  // the last chunk is over the link as a whole
}

bool Arena::Implementation::restore(Deadline deadline) {
  member_.board().require_owner();
  const std::lock_guard eviction(eviction_mutex_);
  if (!evicted()) return true;

  Ranges ranges;
  std::uint64_t bytes = 0;
  Taken taken;
  std::optional<LeaseClaim> claim;
  for (;;) {
    const std::uint32_t epoch = member_.memory_epoch();
    {
      const Lock lock(mutex_);
      ranges = drop_empty_evicted_locked();
      bytes = stats_.evicted_bytes;
    }
    taken = take(bytes, chunk_bytes_);
    if (taken.lease == Lease::granted) break;
    if (claim)
      claim->resize(taken.need);
    else
      claim.emplace(member_, taken.need);
    bool in_time = false;
    run_blocking([&] { in_time = claim->wait(epoch, deadline); });
    if (!in_time) return false;
  }
  claim.reset();

  back_evicted(ranges, bytes, taken.over);
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
    for (const ChunkRange& range : ranges) stats_.chunks_taken += range.count;
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
