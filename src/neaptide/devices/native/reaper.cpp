#include "reaper.h"

#include <array>

#include "board.h"
#include "device_region.h"
#include "leases.h"
#include "slot_locks.h"

namespace neaptide {
namespace {

// A slot is torn when its owner was cut short in a lease operation or its words are damaged: what it had is not what
// they say.

/// Clears what a slot has besides leases. Its lock must be held.
void clear(Board& board, std::uint32_t index) {
  SlotLayout& slot = board.layout().slots[index];
  if (const DeviceRegion* device = board.region()) device->vacate(region_of(board.layout()), index);
  slot.wanted.store(0);
  slot.over.store(0);
  slot.waits_since_ns.store(0);
  slot.age.store(kNoIteration);  // keep no room for what its iteration was expected to take
}

/// Counts the leases of all slots that are not torn, while none moves, and corrects `used` by what is in no slot. What
/// is lost stays lost until it is returned here, so the look need not still be fresh. The audit lock must be held.
bool settle(BoardLayout& board, const std::array<bool, kSlots>& torn) {
  std::uint64_t used_word = 0, held = 0;
  bool whole = true;
  const bool exact = look_at_rest(
      board, [&](std::uint32_t index) { return !torn[index]; },
      [&] {
        used_word = board.used.word();
        held = 0;
        whole = true;
        for (std::uint32_t index = 0; index < kSlots; ++index) {
          if (torn[index]) continue;
          const auto bytes = board.slots[index].held.load();
          whole = whole && bytes;
          held += bytes.value_or(0);
        }
      });
  if (!exact || !whole) return false;
  if (const auto used = Sealed::open(used_word)) {
    board.used.add(static_cast<std::int64_t>(held) - static_cast<std::int64_t>(*used));
    return true;
  }
  // While the count is damaged nothing is granted, but what is given back meanwhile is not counted: count once more.
  while (!board.used.replace(used_word, held))
    if (Sealed::open(used_word)) return false;
  return settle(board, torn);
}

/// Frees the torn slots, whose locks are held; how many.
std::uint32_t free_torn(Board& board, const std::array<bool, kSlots>& torn) {
  BoardLayout& layout = board.layout();
  SlotLocks& locks = board.locks();
  if (!locks.take(kAuditLock)) return 0;
  std::uint32_t freed = 0;
  if (settle(layout, torn)) {
    for (std::uint32_t index = 0; index < kSlots; ++index) {
      if (!torn[index]) continue;
      SlotLayout& slot = layout.slots[index];
      slot.held.store(0);
      slot.ended.store(slot.begun.load());
      slot.use.store(SlotUse::free);
      ++freed;
    }
  }
  locks.drop(kAuditLock);
  return freed;
}

}  // namespace

bool is_empty(const SlotLayout& slot) {
  return slot.use.load() == SlotUse::free && slot.begun.load() == slot.ended.load() && slot.held.load() == 0U;
}

std::uint32_t reap_dead(Board& board) {
  BoardLayout& layout = board.layout();
  SlotLocks& locks = board.locks();
  std::array<bool, kSlots> torn{};
  bool any_torn = false;
  std::uint32_t freed = 0;
  for (std::uint32_t index = 0; index < kSlots; ++index) {
    SlotLayout& slot = layout.slots[index];
    if (is_empty(slot) || !locks.take(index)) continue;
    if (is_empty(slot)) {  // another reaper was faster
      locks.drop(index);
      continue;
    }
    if (const DeviceRegion* device = board.region(); device != nullptr && device->lingers != nullptr &&
                                                     slot.held.load() != 0U &&
                                                     device->lingers(board.region_setting(), slot.pid.load())) {
      locks.drop(index);
      continue;
    }
    clear(board, index);
    const auto held = slot.held.load();
    if (!held || slot.begun.load() != slot.ended.load()) {
      torn[index] = any_torn = true;
      continue;
    }
    give_lease(layout, index, *held, 0);
    slot.use.store(SlotUse::free);
    locks.drop(index);
    ++freed;
  }
  if (any_torn || !layout.used.load()) freed += free_torn(board, torn);
  for (std::uint32_t index = 0; index < kSlots; ++index)
    if (torn[index]) locks.drop(index);
  if (freed > 0) {
    wake_memory_waiters(layout);
    wake_device_waiters(board);
  }
  return freed;
}

void wake_device_waiters(Board& board) {
  if (const DeviceRegion* device = board.region()) device->wake(region_of(board.layout()));
}

}  // namespace neaptide
