// Heap::check: every invariant of the heap, verified by brute force. Tests call it.
#include <stdexcept>
#include <string>

#include "heap.h"

namespace neaptide {
namespace {

void require(bool holds, const char* invariant) {
  if (!holds) throw std::logic_error(std::string("arena: broken invariant: ") + invariant);
}

}  // namespace

/// Walks the blocks over one pool's contiguous chunks from `chunk` on; moves `chunk` behind them, returns live bytes.
std::uint64_t Heap::check_span(std::uint32_t& chunk, std::size_t& free_blocks) const {
  const Pool* const pool = chunks_[chunk].pool;
  const Address start = address_of(chunk);
  while (chunk < chunks_.size() && chunks_[chunk].pool == pool) ++chunk;
  const Address end = address_of(chunk);
  std::uint64_t live = 0;
  Address at = start;
  const Block* previous = nullptr;
  for (const Block* block = chunks_[chunk_of(start)].first; block != nullptr; block = block->next) {
    require(block->start == at && block->bytes > 0 && block->end() <= end, "blocks tile a pool's chunks");
    require(block->pool == pool && block->previous == previous, "neighbours link to each other");
    require(block->bytes % 512 == 0, "blocks are multiples of 512 bytes");
    const bool free = block->state == BlockState::free;
    require(!free || previous == nullptr || previous->state != BlockState::free, "no two free neighbours");
    require(free == (table_.find(block->start) == nullptr), "the table holds exactly the blocks in use");
    require(!free || block->position->block == block, "a free block is indexed");
    require(!free || block->position->bytes == block->bytes, "a free block is indexed by its size");
    free_blocks += free;
    if (block->state == BlockState::live) live += block->bytes;
    for (std::uint32_t under = chunk_of(at); under <= chunk_of(block->end() - 1); ++under) {
      require(address_of(under) < at || chunks_[under].first == block, "a chunk knows its first block");
      require(address_of(under + 1) > block->end() || chunks_[under].last == block, "a chunk knows its last block");
    }
    at = block->end();
    previous = block;
  }
  require(at == end, "blocks reach the end of a pool's chunks");
  return live;
}

void Heap::check(std::uint64_t& live) const {
  live = 0;
  std::uint64_t held = 0, waiting = 0, kept = 0, available = 0;
  std::size_t free_blocks = 0, indexed = 0;
  for (std::uint32_t chunk = 0; chunk < chunks_.size();) {
    if (chunks_[chunk].pool == nullptr)
      ++chunk;
    else
      live += check_span(chunk, free_blocks);
  }
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    held += chunks_[chunk].pool != nullptr;
    kept += chunks_[chunk].emptied == kKept;
    waiting += chunks_[chunk].emptied != 0 && chunks_[chunk].emptied != kKept;
    require(chunks_[chunk].emptied == 0 || is_empty(chunk), "a chunk to be handed back is empty");
  }
  require(held == held_ && kept == kept_ && waiting == waiting_, "chunk counters");
  std::uint32_t last_end = 0;
  for (const auto& [first, count] : runs_) {
    require(count > 0 && (available == 0 || first > last_end), "runs are apart from each other");
    for (std::uint32_t chunk = first; chunk < first + count; ++chunk)
      require(chunks_[chunk].pool == nullptr, "an available chunk is not held");
    available += count;
    last_end = first + count;
  }
  require(available + held <= chunks_.size(), "a chunk is held or available");
  for (const auto& [key, pool] : pools_) indexed += pool->free.entries().size();
  require(indexed == free_blocks, "an index holds nothing but free blocks");
}

}  // namespace neaptide
