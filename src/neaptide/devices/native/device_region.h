// Words at the end of the board file that belong to the device, not to the board: soft keeps its SM queue there.
//
// The board does not know what they mean. A device describes its region with functions that the board calls when a
// board is made and when a slot is vacated, also by a process that reaps a dead one. So that every process that can
// reap also can clear the region, opening a board whose region is not linked into the program is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "board_layout.h"

namespace neaptide {

struct DeviceRegion {
  const char* name;    // of the device
  std::uint32_t kind;  // a number of its own for each region; never 0
  std::size_t bytes;
  /// Fills a region of zeros; `setting` is what the creator of the board chose. Throws BoardError.
  void (*initialise)(void* region, std::uint64_t setting);
  /// Takes back what a slot has there. The slot's lock (slot_locks.h) is held; safe to repeat after a crash in the
  /// middle.
  void (*vacate)(void* region, std::uint32_t slot);
  /// Wakes the processes that can use what was taken back. No lock is held.
  void (*wake)(void* region);
  /// Whether the device still has memory of a process that is gone; its leases are returned when it has not. Null: it
  /// never has. No lock is held but the dead process's own.
  bool (*lingers)(std::uint64_t setting, std::int32_t pid) = nullptr;
};

/// Makes a region known to this program; the file that defines a region does this once, when it is loaded.
struct LinkedRegion {
  explicit LinkedRegion(const DeviceRegion& region);
};

/// The region of this kind or name; null when it is not linked.
const DeviceRegion* find_region(std::uint32_t kind);
const DeviceRegion* find_region(const std::string& name);

/// The board's region; the words of a board without one must not be touched.
inline void* region_of(BoardLayout& board) { return &board + 1; }
inline const void* region_of(const BoardLayout& board) { return &board + 1; }

}  // namespace neaptide
