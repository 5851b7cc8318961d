#include "heap.h"

#include <algorithm>
#include <cassert>

namespace neaptide {

Heap::Heap(Address base, std::uint32_t chunks, std::uint64_t chunk_bytes)
    : base_(base), shift_(static_cast<std::uint32_t>(__builtin_ctzll(chunk_bytes))), chunks_(chunks) {
  if (chunks > 0) runs_[0] = chunks;
}

Pool& Heap::pool(StreamId stream, Hint hint) {
  if (recent_ != nullptr && recent_->stream == stream && recent_->hint == hint) return *recent_;
  auto& pool = pools_[{stream, hint}];
  if (!pool) {
    pool = std::make_unique<Pool>();
    pool->stream = stream;
    pool->hint = hint;
  }
  recent_ = pool.get();
  return *pool;
}

Block& Heap::new_block(Pool& pool, Address start, std::uint64_t bytes) {
  Block* block = nullptr;
  if (retired_.empty()) {
    block = &blocks_.emplace_back();
  } else {
    block = retired_.back();
    retired_.pop_back();
  }
  block->start = start;
  block->bytes = bytes;
  block->pool = &pool;
  block->previous = block->next = nullptr;
  block->state = BlockState::free;
  return *block;
}

void Heap::retire(Block& block) {
  block.pool = nullptr;
  retired_.push_back(&block);
}

void Heap::index(Block& block) {
  const std::uint64_t rank = block.pool->hint == Hint::ephemeral ? block.start : ~block.start;
  block.position = block.pool->free.insert({block.bytes, rank, &block});
}

void Heap::set_edges(Block& block, Address from, Address to) {
  for (std::uint32_t chunk = chunk_of(from), end = chunk_of(to - 1) + 1; chunk < end; ++chunk) {
    if (address_of(chunk) >= from) chunks_[chunk].first = &block;
    if (address_of(chunk + 1) <= to) chunks_[chunk].last = &block;
  }
}

void Heap::reuse(std::uint32_t first, std::uint32_t end) {
  for (std::uint32_t chunk = first; chunk < end; ++chunk) {
    std::uint64_t& emptied = chunks_[chunk].emptied;
    if (emptied == 0) continue;
    --(emptied == kKept ? kept_ : waiting_);
    emptied = 0;
  }
}

Block& Heap::carve(Block& free, std::uint64_t bytes) {
  assert(free.state == BlockState::free && free.bytes >= bytes);
  free.pool->free.erase(free.position);
  Block* live = &free;
  if (free.bytes > bytes) {
    // The rest stays the same object, so that only the edges under the new block change.
    const bool low = free.pool->hint == Hint::ephemeral;
    live = &new_block(*free.pool, low ? free.start : free.end() - bytes, bytes);
    free.bytes -= bytes;
    if (low) {
      free.start += bytes;
      live->previous = free.previous;
      live->next = &free;
    } else {
      live->previous = &free;
      live->next = free.next;
    }
    if (live->previous != nullptr) live->previous->next = live;
    if (live->next != nullptr) live->next->previous = live;
    index(free);
    set_edges(*live, live->start, live->end());
  }
  live->state = BlockState::live;
  table_.insert(live);
  reuse(chunk_of(live->start), chunk_of(live->end() - 1) + 1);
  return *live;
}

Block& Heap::join(Block& block) {
  Block* const left = block.previous != nullptr && block.previous->state == BlockState::free ? block.previous : nullptr;
  Block* const right = block.next != nullptr && block.next->state == BlockState::free ? block.next : nullptr;
  // The largest part absorbs the others: only their edges change.
  Block* whole = &block;
  for (Block* part : {left, right})
    if (part != nullptr && part->bytes > whole->bytes) whole = part;
  const Address start = (left != nullptr ? left : &block)->start;
  const Address end = (right != nullptr ? right : &block)->end();
  Block* const before = (left != nullptr ? left : &block)->previous;
  Block* const after = (right != nullptr ? right : &block)->next;
  for (Block* part : {left, &block, right}) {
    if (part == nullptr) continue;
    if (part != &block) part->pool->free.erase(part->position);
    if (part == whole) continue;
    set_edges(*whole, part->start, part->end());
    retire(*part);
  }
  whole->start = start;
  whole->bytes = end - start;
  whole->previous = before;
  whole->next = after;
  if (before != nullptr) before->next = whole;
  if (after != nullptr) after->previous = whole;
  index(*whole);
  return *whole;
}

ChunkRange Heap::release(Block& block) {
  assert(block.state != BlockState::free);
  table_.erase(block.start);
  const std::uint32_t from = chunk_of(block.start), to = chunk_of(block.end() - 1) + 1;
  block.state = BlockState::free;
  block.users.clear();
  const Block& whole = join(block);
  const std::uint32_t first = address_of(from) >= whole.start ? from : from + 1;
  const std::uint32_t end = address_of(to) <= whole.end() ? to : to - 1;
  return end > first ? ChunkRange{first, end - first} : ChunkRange{};
}

bool Heap::is_empty(std::uint32_t index) const {
  const Chunk& chunk = chunks_[index];
  return chunk.pool != nullptr && chunk.first == chunk.last && chunk.first->state == BlockState::free;
}

void Heap::mark_emptied(std::uint32_t index, std::uint64_t serial) {
  assert(is_empty(index));
  reuse(index, index + 1);
  chunks_[index].emptied = serial;
  ++(serial == kKept ? kept_ : waiting_);
}

}  // namespace neaptide
