// The bookkeeping of an address range in chunks and blocks: pure arithmetic, no memory, no driver, no locks.
//
// A held chunk belongs to one pool (a stream and an end of the range). Blocks tile the contiguous chunks of a pool and
// may span several; no two neighbours are both free. The chunks that are not held form runs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "block.h"

namespace neaptide {

struct ChunkRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t end() const { return first + count; }
};

struct Chunk {
  Pool* pool = nullptr;    // null: not held
  Block* first = nullptr;  // block over the chunk's first byte
  Block* last = nullptr;   // block over its last byte
  /// While the chunk is empty: serial of the return that will hand it back, or kKept. 0: in use.
  std::uint64_t emptied = 0;
};

class Heap {
 public:
  static constexpr std::uint64_t kKept = ~std::uint64_t{0};

  /// `chunk_bytes` is a power of two.
  Heap(Address base, std::uint32_t chunks, std::uint64_t chunk_bytes);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Pool& pool(StreamId stream, Hint hint);
  /// The live or draining block that starts here, or null. Changes nothing.
  Block* find(Address start) const { return table_.find(start); }
  /// The pool's best free block for `bytes`, or null. Changes nothing.
  Block* fit(const Pool& pool, std::uint64_t bytes) const { return pool.free.fit(bytes); }
  /// Makes the near end of a free block a live one; its chunks are in use again.
  Block& carve(Block& free, std::uint64_t bytes);
  /// Frees a block and joins it with free neighbours; returns the chunks that this emptied.
  ChunkRange release(Block& block);

  /// The chunks to take so that the pool can hold `bytes` more: the fewest, nearest its end. Changes nothing.
  std::optional<ChunkRange> plan(const Pool& pool, std::uint64_t bytes) const;
  /// Adds chunks that are not held to a pool; returns the free block over them.
  Block& add(Pool& pool, ChunkRange range);
  /// Takes empty chunks out of their pool. No pool has them until put_back().
  void remove(ChunkRange range);
  /// Makes removed chunks available to plan() again.
  void put_back(ChunkRange range);

  /// Marks an empty chunk as waiting for a return, or as kept.
  void mark_emptied(std::uint32_t chunk, std::uint64_t serial);
  bool is_empty(std::uint32_t chunk) const;
  /// Maximal ranges of held chunks for which `wanted` holds.
  template <typename Wanted>
  std::vector<ChunkRange> ranges(Wanted wanted) const {
    std::vector<ChunkRange> found;
    for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      if (chunks_[chunk].pool == nullptr || !wanted(chunk)) continue;
      if (!found.empty() && found.back().end() == chunk)
        ++found.back().count;
      else
        found.push_back({chunk, 1});
    }
    return found;
  }

  /// Visits every block over held chunks, in the order of their addresses. Changes nothing.
  template <typename Visit>
  void each_block(Visit visit) const {
    const Block* last = nullptr;
    for (const Chunk& chunk : chunks_) {
      if (chunk.pool == nullptr) continue;
      for (const Block* block = chunk.first; block != nullptr; block = block == chunk.last ? nullptr : block->next) {
        if (block == last) continue;
        visit(*block);
        last = block;
      }
    }
  }

  const Chunk& chunk(std::uint32_t index) const { return chunks_[index]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(chunks_.size()); }
  std::uint32_t chunk_of(Address address) const { return static_cast<std::uint32_t>((address - base_) >> shift_); }
  Address address_of(std::uint32_t chunk) const { return base_ + (std::uint64_t{chunk} << shift_); }
  std::uint64_t bytes_of(ChunkRange range) const { return std::uint64_t{range.count} << shift_; }
  std::uint64_t held_chunks() const { return held_; }
  std::uint64_t waiting_chunks() const { return waiting_; }  // empty, a return is under way
  std::uint64_t kept_chunks() const { return kept_; }
  std::size_t blocks_in_use() const { return table_.size(); }
  const std::map<std::pair<StreamId, Hint>, std::unique_ptr<Pool>>& pools() const { return pools_; }

  /// Verifies that blocks, chunks, indexes and counters agree; throws std::logic_error. `live` gets the live bytes.
  void check(std::uint64_t& live) const;

 private:
  Block& new_block(Pool& pool, Address start, std::uint64_t bytes);
  void retire(Block& block);
  void index(Block& block);
  void set_edges(Block& block, Address from, Address to);
  Block& join(Block& block);
  void reuse(std::uint32_t first, std::uint32_t end);
  std::uint64_t free_before(const Pool& pool, std::uint32_t chunk) const;
  std::uint64_t free_after(const Pool& pool, std::uint32_t chunk) const;
  std::uint64_t check_span(std::uint32_t& chunk, std::size_t& free_blocks) const;

  std::uint32_t chunks_for(std::uint64_t bytes) const;

  Address base_;
  std::uint32_t shift_;  // a chunk has 2^shift bytes
  std::vector<Chunk> chunks_;
  std::map<std::uint32_t, std::uint32_t> runs_;  // chunks that are available: first -> count
  std::map<std::pair<StreamId, Hint>, std::unique_ptr<Pool>> pools_;
  Pool* recent_ = nullptr;
  BlockTable table_;
  std::deque<Block> blocks_;  // owns them all
  std::vector<Block*> retired_;
  std::uint64_t held_ = 0;
  std::uint64_t waiting_ = 0;
  std::uint64_t kept_ = 0;
};

}  // namespace neaptide
