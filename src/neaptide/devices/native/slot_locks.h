// Which slots have an owner: locks of the kernel on bytes of the board's file, one for each slot.
//
// A process holds the lock of its slot as long as it has the slot. The kernel drops the lock when the process dies and
// when it becomes another program (exec), however that happens, and no damage to the file touches it. A reaper takes
// the lock of a slot that has no owner for as long as it empties the slot. Nobody waits for a lock.
//
// The locks belong to one opening of the file. A forked child would keep them, so it closes the file
// (board_mappings.h). A process that closes the file by mistake keeps its own lock, because the mapping holds the file
// open; it takes no other lock from then on, since the number may name another file, on which every lock is free.
#pragma once

#include <cstdint>
#include <mutex>

#include "board_layout.h"
#include "file_identity.h"

namespace neaptide {

/// The lock of whoever counts all leases together (reaper.cpp).
inline constexpr std::uint32_t kAuditLock = kSlots;

class SlotLocks {
 public:
  explicit SlotLocks(int file) : file_(file), identity_(FileIdentity::of(file)) {}
  SlotLocks(const SlotLocks&) = delete;
  SlotLocks& operator=(const SlotLocks&) = delete;

  /// Takes a lock; false when it is held, also through this object, or when the file was closed.
  bool take(std::uint32_t slot);
  void drop(std::uint32_t slot);

 private:
  const int file_;
  const FileIdentity identity_;
  std::mutex mutex_;  // a leaf
  std::array<bool, kSlots + 1> own_{};
};

/// Whether a process has a slot on the board in this open file, whatever the file holds. Changes nothing.
bool any_slot_owned(int file);

}  // namespace neaptide
