#include "reaper.h"

#include <optional>

#include "board_lock.h"
#include "device_region.h"
#include "leases.h"
#include "process.h"

namespace neaptide {
namespace {

bool is_dead(const SlotLayout& slot) {
  return slot.use.load() == SlotUse::taken && probe({slot.pid.load(), slot.start_time.load()}) == ProcessState::gone;
}

bool has_work(const BoardLayout& board) {
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
    const SlotLayout& slot = board.slots[index];
    if (slot.use.load() == SlotUse::leaving || is_dead(slot)) return true;
  }
  return false;
}

std::uint32_t slots_in(const BoardLayout& board, SlotUse use) {
  std::uint32_t count = 0;
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index)
    count += board.slots[index].use.load() == use;
  return count;
}

}  // namespace

void vacate(BoardLayout& board, std::uint32_t index) {
  SlotLayout& slot = board.slots[index];
  // A slot that is leaving already was left half vacated by another reaper: treat it as in transit.
  const bool in_transit = slot.use.exchange(SlotUse::leaving) == SlotUse::leaving || slot.begun != slot.ended;
  if (const DeviceRegion* device = find_region(board.region_kind.load())) device->vacate(region_of(board), index);
  slot.wanted.store(0);
  slot.age.store(kNoIteration);  // keep no room for what its iteration was expected to take
  board.used.fetch_sub(slot.held.exchange(0));
  if (!in_transit) slot.use.store(SlotUse::free);
}

void wake_device_waiters(BoardLayout& board) {
  if (const DeviceRegion* device = find_region(board.region_kind.load())) device->wake(region_of(board));
}

bool settle(BoardLayout& board) {
  if (slots_in(board, SlotUse::leaving) == 0) return true;
  std::uint64_t lost = 0;
  const bool exact = look_at_rest(board, [&] {
    std::uint64_t held = 0;
    const std::uint64_t used = board.used.load();
    for (const SlotLayout& slot : board.slots) held += slot.held.load();
    lost = used - held;
  });
  if (!exact) return false;
  // What is lost stays lost until it is returned here, so the look need not still be fresh.
  board.used.fetch_sub(lost);
  for (SlotLayout& slot : board.slots) {
    if (slot.use.load() != SlotUse::leaving) continue;
    slot.ended.store(slot.begun.load());
    slot.use.store(SlotUse::free);
  }
  return true;
}

std::uint32_t reap_dead(BoardLayout& board, const std::string& path, Patience patience) {
  if (!has_work(board)) return 0;
  std::uint32_t freed = 0;
  {
    std::optional<BoardLock> lock;
    if (patience == Patience::wait_for_lock)
      lock.emplace(board.lock, path);
    else
      lock.emplace(board.lock, path, std::try_to_lock);
    if (!lock->owns()) return 0;
    const std::uint32_t free_before = slots_in(board, SlotUse::free);
    for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
      const SlotLayout& slot = board.slots[index];
      if (slot.use.load() == SlotUse::leaving || is_dead(slot)) vacate(board, index);
    }
    settle(board);
    freed = slots_in(board, SlotUse::free) - free_before;
  }
  wake_memory_waiters(board);
  wake_device_waiters(board);
  return freed;
}

}  // namespace neaptide
