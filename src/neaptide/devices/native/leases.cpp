#include "leases.h"

#include <algorithm>

#include "../../core/rules/memory_grant.h"
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

/// Bytes that a slot waits for; 0 when it could not have them even alone, so that nothing is kept for it.
std::uint64_t claimed(const BoardLayout& board, const SlotLayout& slot) {
  const std::uint64_t wanted = slot.wanted.load();
  if (wanted == 0) return 0;
  const std::uint64_t capacity = board.capacity.load(), held = slot.held.load();
  return held <= capacity && wanted <= capacity - held ? wanted : 0;
}

/// An iteration, as memory_grant.h counts it.
struct Iteration {
  std::uint64_t rank;
  std::int64_t due, returns;
};

/// The iteration of a slot. Without an expectation only what it waits for is due, and nothing is counted on to return.
Iteration iteration_of(const BoardLayout& board, const SlotLayout& slot, std::uint64_t rank) {
  const auto held = static_cast<std::int64_t>(slot.held.load());
  const auto wanted = static_cast<std::int64_t>(claimed(board, slot));
  const auto expected = static_cast<std::int64_t>(std::min(slot.expected_leases.load(), board.capacity.load()));
  if (expected == 0) return {rank, wanted, 0};
  const std::int64_t peak = std::max(expected, held + wanted);
  const std::int64_t rest = std::min(static_cast<std::int64_t>(slot.rest.load()), peak);
  return {rank, peak - held, held - rest};
}

/// Everything on the board that a request must leave bytes to.
struct Precedence {
  OlderIterations older;
  std::int64_t reserved = 0;
};

Precedence precedence_over(const BoardLayout& board, std::uint32_t slot, std::uint64_t rank) {
  std::array<Iteration, kSlots> iterations;
  std::uint32_t count = 0;
  Precedence found;
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
    const SlotLayout& other = board.slots[index];
    const std::uint64_t other_rank = claim_of(other);
    if (index == slot || other_rank == kDemoted) continue;
    if (other_rank >= kOutsideIterations) {
      if (rank < kOutsideIterations || other_rank < rank)
        found.reserved += static_cast<std::int64_t>(claimed(board, other));
    } else if (other_rank < rank) {
      std::uint32_t place = count++;  // an insertion sort: there are few
      for (; place > 0 && iterations[place - 1].rank > other_rank; --place) iterations[place] = iterations[place - 1];
      iterations[place] = iteration_of(board, other, other_rank);
    }
  }
  for (std::uint32_t place = 0; place < count; ++place)
    found.older.add(iterations[place].due, iterations[place].returns);
  return found;
}

/// Decides a request while `used` bytes are leased. The words of other slots are read now, after `used` was.
Grant decide(const BoardLayout& board, std::uint32_t index, std::uint64_t bytes, std::uint64_t used) {
  const std::uint64_t rank = claim_of(board.slots[index]), capacity = board.capacity.load();
  if (used > capacity || bytes > capacity - used) return Grant::full;
  const Precedence precedence = precedence_over(board, index, rank);
  const MemoryRequest request{static_cast<std::int64_t>(bytes), rank < kOutsideIterations, precedence.reserved};
  return decide_grant(request, precedence.older, static_cast<std::int64_t>(used), static_cast<std::int64_t>(capacity));
}

}  // namespace

std::uint64_t claim_of(const SlotLayout& slot) { return slot.wanted.load() > 0 ? slot.claim.load() : slot.age.load(); }

std::vector<std::uint32_t> elders_of(const BoardLayout& board, std::uint32_t slot, std::uint64_t claim) {
  std::vector<std::uint32_t> elders;
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
    const SlotLayout& other = board.slots[index];
    const std::uint64_t rank = claim_of(other);
    if (index == slot || rank == kDemoted) continue;
    const bool outside = rank >= kOutsideIterations;
    const bool before = rank < claim || (outside && claim < kOutsideIterations);
    if (before && (outside ? claimed(board, other) > 0 : iteration_of(board, other, rank).due > 0))
      elders.push_back(index);
  }
  return elders;
}

Lease take_lease(BoardLayout& board, std::uint32_t index, std::uint64_t bytes) {
  SlotLayout& slot = board.slots[index];
  const std::uint64_t ceiling = slot.ceiling.load();
  const std::uint64_t held = slot.held.load();
  if (held > ceiling || bytes > ceiling - held) return Lease::ceiling;

  const Transit transit(slot);
  std::uint64_t used = board.used.load();
  // Every attempt decides anew. `used` does not change from before the decision to the grant, so a slot that leases in
  // between is noticed, unless another gives back exactly as much at the same moment. Then a younger iteration may get
  // bytes that an older one was to have; the capacity holds in any case.
  do {
    const Grant grant = decide(board, index, bytes, used);
    if (grant != Grant::granted) return grant == Grant::full ? Lease::full : Lease::reserved;
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
    std::uint64_t rank, wanted;
    std::uint32_t slot;
  };
  std::array<Waiter, kSlots> waiters;
  std::uint32_t count = 0;
  for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
    const SlotLayout& slot = board.slots[index];
    if (const std::uint64_t wanted = claimed(board, slot)) waiters[count++] = {slot.claim.load(), wanted, index};
  }
  if (count == 0) return;
  std::sort(waiters.begin(), waiters.begin() + count, [](auto& a, auto& b) { return a.rank < b.rank; });
  // A waiter leaves room to those before it, woken or not, so `used` need not count what they will take.
  const std::uint64_t used = board.used.load();
  for (std::uint32_t place = 0; place < count; ++place) {
    const Waiter& waiter = waiters[place];
    if (decide(board, waiter.slot, waiter.wanted, used) == Grant::granted)
      futex_wake(board.slots[waiter.slot].memory_epoch, Reach::all_processes);
  }
}

}  // namespace neaptide
