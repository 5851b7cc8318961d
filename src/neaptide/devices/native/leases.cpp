#include "leases.h"

#include <algorithm>

#include "futex.h"

namespace neaptide {
namespace {

/// Brackets one lease operation of a slot, so that a reaper can tell that it was cut short.
class Transit {
 public:
  explicit Transit(SlotLayout& slot) : slot_(slot) { slot_.begun.fetch_add(1); }
  Transit(const Transit&) = delete;
  Transit& operator=(const Transit&) = delete;
  ~Transit() { slot_.ended.fetch_add(1); }

 private:
  SlotLayout& slot_;
};

void raise(Word64& mark, std::uint64_t value) {
  std::uint64_t seen = mark.load(std::memory_order_relaxed);
  while (seen < value && !mark.compare_exchange_weak(seen, value)) {
  }
}

/// Bytes that a slot waits for; 0 when even a device of its own would not have them: nobody should wait for that.
std::uint64_t claimed(const BoardLayout& board, const SlotLayout& slot) {
  const std::uint64_t wanted = slot.wanted.load();
  if (wanted == 0) return 0;
  const std::uint64_t capacity = board.capacity.load(), held = slot.held.load();
  return held <= capacity && wanted <= capacity - held ? wanted : 0;
}

/// Bytes that are kept for a slot from younger ones: what it waits for, or what its iteration is foreseen to take yet.
/// So the oldest iteration can always end, the next one after it, and so on: nobody waits for ever (a banker's rule).
std::uint64_t due(const BoardLayout& board, const SlotLayout& slot) {
  const std::uint64_t wanted = claimed(board, slot);
  if (slot.age.load() == kNoIteration) return wanted;
  const std::uint64_t foreseen = std::min(slot.foreseen.load(), board.capacity.load()), held = slot.held.load();
  return std::max(wanted, foreseen - std::min(foreseen, held));
}

std::uint64_t reserved_before(const BoardLayout& board, std::uint32_t slot, std::uint64_t claim) {
  std::uint64_t bytes = 0;
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
    const SlotLayout& other = board.slots[index];
    if (index != slot && claim_of(other) < claim) bytes += due(board, other);
  }
  return bytes;
}

}  // namespace

std::uint64_t claim_of(const SlotLayout& slot) { return slot.wanted.load() > 0 ? slot.claim.load() : slot.age.load(); }

std::vector<std::uint32_t> elders_of(const BoardLayout& board, std::uint32_t slot, std::uint64_t claim) {
  std::vector<std::uint32_t> elders;
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
    const SlotLayout& other = board.slots[index];
    if (index != slot && claim_of(other) < claim && due(board, other) > 0) elders.push_back(index);
  }
  return elders;
}

Lease take_lease(BoardLayout& board, std::uint32_t index, std::uint64_t bytes) {
  SlotLayout& slot = board.slots[index];
  const std::uint64_t ceiling = slot.ceiling.load();
  const std::uint64_t held = slot.held.load();
  if (held > ceiling || bytes > ceiling - held) return Lease::ceiling;
  const std::uint64_t reserved = reserved_before(board, index, claim_of(slot));

  const Transit transit(slot);
  const std::uint64_t capacity = board.capacity.load();
  std::uint64_t used = board.used.load();
  do {
    if (used > capacity || bytes > capacity - used) return Lease::full;
    if (reserved > capacity - used - bytes) return Lease::reserved;
  } while (!board.used.compare_exchange_weak(used, used + bytes));
  slot.held.fetch_add(bytes);
  raise(board.high_water, used + bytes);
  return Lease::granted;
}

bool give_lease(BoardLayout& board, std::uint32_t index, std::uint64_t bytes) {
  SlotLayout& slot = board.slots[index];
  {
    const Transit transit(slot);
    std::uint64_t held = slot.held.load();
    do {
      if (bytes > held) return false;
    } while (!slot.held.compare_exchange_weak(held, held - bytes));
    board.used.fetch_sub(bytes);
  }
  wake_memory_waiters(board);
  return true;
}

void wake_memory_waiters(BoardLayout& board) {
  struct Waiter {
    std::uint64_t claim, wanted;
    SlotLayout* slot;
  };
  std::array<Waiter, kSlots> waiters;
  std::uint32_t count = 0;
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
    SlotLayout& slot = board.slots[index];
    if (const std::uint64_t wanted = claimed(board, slot)) waiters[count++] = {slot.claim.load(), wanted, &slot};
  }
  if (count == 0) return;
  std::sort(waiters.begin(), waiters.begin() + count, [](auto& a, auto& b) { return a.claim < b.claim; });
  const std::uint64_t capacity = board.capacity.load();
  std::uint64_t left = capacity - std::min(capacity, board.used.load());
  for (std::uint32_t rank = 0; rank < count && waiters[rank].wanted <= left; ++rank) {
    left -= waiters[rank].wanted;
    futex_wake(waiters[rank].slot->memory_epoch, Reach::all_processes);
  }
}

}  // namespace neaptide
