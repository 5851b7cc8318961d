// Freeing blocks, and handing chunks back in the order of the streams.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "arena_implementation.h"

namespace neaptide {

void Arena::Implementation::deallocate(Address address) {
  if (member_.board().forked()) return;
  Ranges back;
  {
    const Lock lock(mutex_);
    Block* const block = heap_.find(address);
    if (block == nullptr || block->state != BlockState::live)
      throw std::invalid_argument("no block starts at address " + std::to_string(address));
    ++stats_.deallocations;
    stats_.needed -= block->bytes;
    count_needed_locked();
    Drain drain{block, {}};
    if (!reuse_at_launch_.load()) block->users.push_back(block->pool->stream);
    for (const StreamId stream : block->users)
      if (const Event event = driver_.record(stream); !driver_.passed(event)) drain.events.push_back(event);
    if (drain.events.empty()) {
      free_block_locked(*block, back);
    } else {
      block->state = BlockState::draining;
      drains_.push_back(std::move(drain));
      if (rearm_locked()) settle_locked(back);
    }
  }
  if (!back.empty()) hand_back(back);
  wake_waiters();
}

void Arena::Implementation::record_stream(Address address, StreamId stream) {
  const Lock lock = guard();
  Block* const block = heap_.find(address);
  if (block == nullptr) throw std::invalid_argument("no block starts at address " + std::to_string(address));
  auto& users = block->users;
  if (stream != block->pool->stream && std::find(users.begin(), users.end(), stream) == users.end())
    users.push_back(stream);
}

void Arena::Implementation::free_block_locked(Block& block, Ranges& back) {
  const StreamId stream = block.pool->stream;
  const ChunkRange emptied = heap_.release(block);
  if (emptied.count == 0 || evicted_) return;  // restore() drops what is empty by then
  const Event event = driver_.record(stream);
  const std::uint64_t serial = next_serial_++;
  for (std::uint32_t chunk = emptied.first; chunk < emptied.end(); ++chunk) heap_.mark_emptied(chunk, serial);
  if (driver_.passed(event)) {
    driver_.drop(event);
    sort_out_locked(emptied, serial, back);
    return;
  }
  auto& queue = returns_[stream];
  const bool armed = !queue.empty();
  queue.push_back({event, emptied, serial});
  if (armed || !driver_.arm(event)) return;
  queue.pop_back();  // the event passed while it was armed: the listener will not be called
  driver_.drop(event);
  sort_out_locked(emptied, serial, back);
}

/// The stream has passed the chunks' last use: those still empty go back, or are kept.
void Arena::Implementation::sort_out_locked(ChunkRange chunks, std::uint64_t serial, Ranges& back) {
  const std::uint64_t keep = member_.others_wait() ? 0 : options_.keep_bytes.value_or(chunk_bytes_) / chunk_bytes_;
  if (keep == 0) drop_kept_locked(back);
  for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
    if (heap_.chunk(chunk).emptied != serial) continue;
    if (heap_.kept_chunks() < keep && over_.within(heap_.address_of(chunk), heap_.address_of(chunk + 1)) == 0)
      heap_.mark_emptied(chunk, Heap::kKept);
    else
      detach_locked(chunk, back);
  }
}

void Arena::Implementation::detach_locked(std::uint32_t chunk, Ranges& back) {
  heap_.remove({chunk, 1});
  ++detached_chunks_;
  if (!back.empty() && back.back().end() == chunk)
    ++back.back().count;
  else
    back.push_back({chunk, 1});
}

bool Arena::Implementation::finish_returns_locked(Ranges& back) {
  bool any = false;
  for (auto& [stream, queue] : returns_) {
    while (!queue.empty() && driver_.passed(queue.front().event)) {
      const Return done = queue.front();
      queue.pop_front();
      driver_.drop(done.event);
      sort_out_locked(done.chunks, done.serial, back);
      any = true;
    }
  }
  return any;
}

bool Arena::Implementation::finish_drains_locked(Ranges& back) {
  bool any = false;
  for (std::size_t index = 0; index < drains_.size();) {
    auto& events = drains_[index].events;
    const auto passed = [&](const Event& event) { return driver_.passed(event); };
    events.erase(std::remove_if(events.begin(), events.end(), passed), events.end());
    if (!events.empty()) {
      ++index;
      continue;
    }
    Block& block = *drains_[index].block;
    std::swap(drains_[index], drains_.back());
    drains_.pop_back();
    free_block_locked(block, back);
    any = true;
  }
  return any;
}

/// Asks to be called for the next event of every stream. True when one has passed meanwhile.
bool Arena::Implementation::rearm_locked() {
  bool passed = false;
  for (const auto& [stream, queue] : returns_)
    if (!queue.empty()) passed |= driver_.arm(queue.front().event);
  for (const Drain& drain : drains_)
    for (const Event& event : drain.events) passed |= driver_.arm(event);
  return passed;
}

/// Deals with every event that has passed; afterwards the next one of each stream will call.
bool Arena::Implementation::settle_locked(Ranges& back) {
  bool any = false;
  do {
    any |= finish_drains_locked(back);
    any |= finish_returns_locked(back);
  } while (rearm_locked());
  return any;
}

std::size_t Arena::Implementation::progress() {
  if (member_.board().forked()) return 0;
  Ranges back;
  bool any = false;
  {
    const Lock lock(mutex_);
    any = settle_locked(back);
  }
  const std::size_t bytes = back.empty() ? 0 : hand_back(back);
  if (any) wake_waiters();
  return bytes;
}

void Arena::Implementation::drop_kept_locked(Ranges& back) {
  if (heap_.kept_chunks() == 0) return;
  for (const ChunkRange& range : heap_.ranges([&](auto chunk) { return heap_.chunk(chunk).emptied == Heap::kKept; }))
    for (std::uint32_t chunk = range.first; chunk < range.end(); ++chunk) detach_locked(chunk, back);
}

std::size_t Arena::Implementation::shed() {
  Ranges back;
  {
    const Lock lock(mutex_);
    if (!evicted_) drop_kept_locked(back);
  }
  return back.empty() ? 0 : hand_back(back);
}

/// Unbacks detached chunks and gives their leases back. The mutex is free meanwhile: no pool has the chunks.
std::size_t Arena::Implementation::hand_back(const Ranges& ranges) {
  std::uint64_t bytes = 0;
  for (const ChunkRange& range : ranges) {
    driver_.unback(heap_.address_of(range.first), heap_.bytes_of(range));
    bytes += heap_.bytes_of(range);
  }
  const Lock lock(mutex_);
  detached_chunks_ -= bytes / chunk_bytes_;
  stats_.chunks_given += bytes / chunk_bytes_;
  for (const ChunkRange& range : ranges) {
    heap_.put_back(range);
    bytes -= hollow_.remove(heap_.address_of(range.first), heap_.address_of(range.end()));
    bytes -= forget_over_locked(range);
  }
  member_.give(bytes);
  count_held_locked();
  return bytes;
}

bool Arena::Implementation::drain_streams(Deadline deadline) {
  std::vector<StreamId> streams;
  {
    const Lock lock(mutex_);
    for (const auto& [key, pool] : heap_.pools()) streams.push_back(key.first);
    for (const Drain& drain : drains_)
      for (const Event& event : drain.events) streams.push_back(event.stream);
  }
  bool drained = true;
  run_blocking([&] {
    for (const StreamId stream : streams) {
      const Event event = driver_.record(stream);
      drained = drained && driver_.wait(event, deadline);
      driver_.drop(event);
    }
  });
  return drained;
}

std::size_t Arena::Implementation::empty_cache() {
  member_.board().require_owner();
  drain_streams(Deadline::max());
  std::size_t bytes = progress();
  return bytes += shed();
}

void Arena::Implementation::wake_waiters() {
  if (waiters_.load() > 0) member_.poke();
}

}  // namespace neaptide
