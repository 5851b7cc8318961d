// A block of the arena's address range, and the two indexes that find one: by start, and by size among the free.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "arena.h"

namespace neaptide {

struct Block;
struct Pool;

/// Key of a free block: best fit first; among equals the one nearest its pool's end of the range.
struct FreeKey {
  std::uint64_t bytes;
  std::uint64_t rank;
  Block* block;
  bool operator<(const FreeKey& other) const { return bytes != other.bytes ? bytes < other.bytes : rank < other.rank; }
};

/// The free blocks of one pool. Keeps the nodes of removed entries, so that a steady state allocates nothing.
class FreeIndex {
 public:
  using Entries = std::set<FreeKey>;
  using Position = Entries::iterator;

  Position insert(const FreeKey& key) {
    if (spare_.empty()) return entries_.insert(key).first;
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.value() = key;
    return entries_.insert(std::move(node)).position;
  }
  void erase(Position position) {
    if (spare_.size() < kSpares)
      spare_.push_back(entries_.extract(position));
    else
      entries_.erase(position);
  }
  /// The smallest block of at least `bytes`; null when there is none.
  Block* fit(std::uint64_t bytes) const {
    const auto found = entries_.lower_bound({bytes, 0, nullptr});
    return found == entries_.end() ? nullptr : found->block;
  }
  const Entries& entries() const { return entries_; }

 private:
  static constexpr std::size_t kSpares = 64;
  Entries entries_;
  std::vector<Entries::node_type> spare_;
};

/// The chunks of one stream at one end of the range.
struct Pool {
  StreamId stream = 0;
  Hint hint = Hint::ephemeral;
  FreeIndex free;
};

/// draining: the program is done with it, but other streams than its own may still use it.
enum class BlockState : std::uint8_t { free, live, draining };

struct Block {
  Address start = 0;
  std::uint64_t bytes = 0;
  Pool* pool = nullptr;
  Block* previous = nullptr;  // address neighbours within the pool's contiguous chunks
  Block* next = nullptr;
  BlockState state = BlockState::free;
  FreeIndex::Position position{};  // valid while free
  std::vector<StreamId> users;     // streams of record_stream()

  Address end() const { return start + bytes; }
};

/// Blocks by their start address: open addressing with linear probing, at most half full.
class BlockTable {
 public:
  BlockTable() : cells_(1024) {}

  Block* find(Address start) const {
    for (std::size_t cell = home(start);; cell = next(cell)) {
      if (cells_[cell].block == nullptr) return nullptr;
      if (cells_[cell].start == start) return cells_[cell].block;
    }
  }
  void insert(Block* block) {
    if (2 * ++size_ > cells_.size()) grow();
    place({block->start, block});
  }
  void erase(Address start) {
    std::size_t hole = home(start);
    while (cells_[hole].start != start || cells_[hole].block == nullptr) hole = next(hole);
    // Move later entries of the run into the hole, unless that would put one before its home.
    for (std::size_t cell = next(hole); cells_[cell].block != nullptr; cell = next(cell)) {
      const std::size_t from_home = (cell - home(cells_[cell].start)) & (cells_.size() - 1);
      const std::size_t from_hole = (cell - hole) & (cells_.size() - 1);
      if (from_home < from_hole) continue;
      cells_[hole] = cells_[cell];
      hole = cell;
    }
    cells_[hole] = {};
    --size_;
  }
  std::size_t size() const { return size_; }
  template <typename Visit>
  void each(Visit visit) const {
    for (const Cell& cell : cells_)
      if (cell.block != nullptr) visit(*cell.block);
  }

 private:
  struct Cell {
    Address start = 0;
    Block* block = nullptr;
  };
  std::size_t home(Address start) const { return (start >> 9) * 0x9e3779b97f4a7c15 >> 20 & (cells_.size() - 1); }
  std::size_t next(std::size_t cell) const { return (cell + 1) & (cells_.size() - 1); }
  void place(const Cell& entry) {
    std::size_t cell = home(entry.start);
    while (cells_[cell].block != nullptr) cell = next(cell);
    cells_[cell] = entry;
  }
  void grow() {
    std::vector<Cell> old(cells_.size() * 2);
    old.swap(cells_);
    for (const Cell& cell : old)
      if (cell.block != nullptr) place(cell);
  }

  std::vector<Cell> cells_;
  std::size_t size_ = 0;
};

}  // namespace neaptide
