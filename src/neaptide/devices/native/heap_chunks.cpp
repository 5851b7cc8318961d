// Chunks entering and leaving the heap.
#include <algorithm>
#include <cassert>
#include <iterator>

#include "heap.h"

namespace neaptide {

std::uint32_t Heap::chunks_for(std::uint64_t bytes) const {
  return static_cast<std::uint32_t>((bytes + (std::uint64_t{1} << shift_) - 1) >> shift_);
}

std::uint64_t Heap::free_before(const Pool& pool, std::uint32_t chunk) const {
  if (chunk == 0 || chunks_[chunk - 1].pool != &pool) return 0;
  const Block& last = *chunks_[chunk - 1].last;
  return last.state == BlockState::free ? last.bytes : 0;
}

std::uint64_t Heap::free_after(const Pool& pool, std::uint32_t chunk) const {
  if (chunk == chunks_.size() || chunks_[chunk].pool != &pool) return 0;
  const Block& first = *chunks_[chunk].first;
  return first.state == BlockState::free ? first.bytes : 0;
}

std::optional<ChunkRange> Heap::plan(const Pool& pool, std::uint64_t bytes) const {
  const bool low = pool.hint == Hint::ephemeral;
  std::optional<ChunkRange> best;
  const auto consider = [&](ChunkRange range) {
    if (!best || range.count < best->count) best = range;
  };
  const auto visit = [&](std::uint32_t first, std::uint32_t count) {
    // Free space of the pool on either side of the run saves chunks.
    const std::uint64_t before = free_before(pool, first), after = free_after(pool, first + count);
    const std::uint32_t upwards = chunks_for(bytes - std::min(bytes - 1, before));
    const std::uint32_t downwards = chunks_for(bytes - std::min(bytes - 1, after));
    if (low && upwards <= count) consider({first, upwards});
    if (downwards <= count) consider({first + count - downwards, downwards});
    if (!low && upwards <= count) consider({first, upwards});
    if (before + after + (std::uint64_t{count} << shift_) >= bytes) consider({first, count});
  };
  if (low)
    for (auto run = runs_.begin(); run != runs_.end(); ++run) visit(run->first, run->second);
  else
    for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) visit(run->first, run->second);
  return best;
}

Block& Heap::add(Pool& pool, ChunkRange range) {
  auto run = std::prev(runs_.upper_bound(range.first));
  const ChunkRange whole{run->first, run->second};
  assert(range.count > 0 && whole.first <= range.first && range.end() <= whole.end());
  runs_.erase(run);
  if (whole.first < range.first) runs_[whole.first] = range.first - whole.first;
  if (range.end() < whole.end()) runs_[range.end()] = whole.end() - range.end();

  Block& block = new_block(pool, address_of(range.first), bytes_of(range));
  for (std::uint32_t chunk = range.first; chunk < range.end(); ++chunk) chunks_[chunk] = {&pool, &block, &block, 0};
  held_ += range.count;
  if (range.first > 0 && chunks_[range.first - 1].pool == &pool) {
    block.previous = chunks_[range.first - 1].last;
    block.previous->next = &block;
  }
  if (range.end() < chunks_.size() && chunks_[range.end()].pool == &pool) {
    block.next = chunks_[range.end()].first;
    block.next->previous = &block;
  }
  return join(block);
}

void Heap::remove(ChunkRange range) {
  Block& block = *chunks_[range.first].first;
  assert(is_empty(range.first) && chunks_[range.end() - 1].last == &block);
  const Address start = address_of(range.first), end = address_of(range.end());
  block.pool->free.erase(block.position);
  Block* const after = block.next;
  if (block.end() > end) {
    Block& rest = new_block(*block.pool, end, block.end() - end);
    rest.next = after;
    if (after != nullptr) after->previous = &rest;
    set_edges(rest, rest.start, rest.end());
    index(rest);
  } else if (after != nullptr) {
    after->previous = nullptr;
  }
  block.next = nullptr;
  if (block.start < start) {
    block.bytes = start - block.start;
    index(block);
  } else {
    if (block.previous != nullptr) block.previous->next = nullptr;
    retire(block);
  }
  reuse(range.first, range.end());
  for (std::uint32_t chunk = range.first; chunk < range.end(); ++chunk) chunks_[chunk] = {};
  held_ -= range.count;
}

void Heap::put_back(ChunkRange range) {
  auto after = runs_.lower_bound(range.first);
  if (after != runs_.end() && after->first == range.end()) {
    range.count += after->second;
    after = runs_.erase(after);
  }
  if (after != runs_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == range.first) {
      before->second += range.count;
      return;
    }
  }
  runs_[range.first] = range.count;
}

}  // namespace neaptide
