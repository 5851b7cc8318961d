#include "leases.h"

#include <algorithm>
#include <optional>

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

std::uint64_t capacity_of(const BoardLayout& board) { return board.capacity.load().value_or(0); }

/// Bytes that a slot waits for; 0 when it could not have them even alone, so that nothing is kept for it.
std::uint64_t claimed(const BoardLayout& board, const SlotLayout& slot) {
  const std::uint64_t wanted = slot.wanted.load();
  if (wanted == 0 || slot.use.load() != SlotUse::taken) return 0;
  const std::uint64_t capacity = capacity_of(board), held = slot.held.load().value_or(0);
  return held <= capacity && wanted <= capacity - held ? wanted : 0;
}

/// The most that the slot's iteration is expected to lease; 0: nothing is known.
std::uint64_t expected_of(const BoardLayout& board, const SlotLayout& slot) {
  const std::uint64_t expected = std::min(slot.expected_leases.load(), capacity_of(board));
  if (expected == 0) return 0;
  const std::uint64_t within = std::min(expected, std::max<std::uint64_t>(limit_of(board, slot), 1));
  // Where nobody waits, what is over the link already will not be leased. At a limit it may be: when it is given back,
  // the iteration takes other bytes within its limit.
  return board.oversubscribed.load() == 1 ? within - std::min(within - 1, slot.over.load()) : within;
}

/// An iteration, as memory_grant.h counts it.
struct Iteration {
  std::uint64_t rank;
  std::int64_t due, returns;
};

/// The iteration of a slot. Without an expectation only what it waits for is due, and nothing is counted on to return.
Iteration iteration_of(const BoardLayout& board, const SlotLayout& slot, std::uint64_t rank) {
  const auto held = static_cast<std::int64_t>(slot.held.load().value_or(0));
  const auto wanted = static_cast<std::int64_t>(claimed(board, slot));
  const auto expected = static_cast<std::int64_t>(expected_of(board, slot));
  if (expected == 0) return {rank, wanted, 0};
  const std::int64_t peak = std::max(expected, held + wanted);
  const auto rest = static_cast<std::int64_t>(std::min(slot.rest.load(), static_cast<std::uint64_t>(peak)));
  return {rank, peak - held, held - rest};
}

/// Whether an iteration that needs nothing now stands still: nobody waits for its end.
bool stands_still(const SlotLayout& slot) {
  const SlotState state = slot.state.load(std::memory_order_relaxed);
  return state == SlotState::waiting_permit || state == SlotState::suspended || state == SlotState::evicted;
}

/// An iteration in a lane.
struct LaneIteration {
  std::int64_t used;  // beyond its bytes at rest
  std::int64_t due;
  std::int64_t away;  // bytes at rest that it has given back and will take again
};

LaneIteration lane_iteration_of(const BoardLayout& board, const SlotLayout& slot) {
  const std::uint64_t capacity = capacity_of(board);
  const auto held = static_cast<std::int64_t>(slot.held.load().value_or(0));
  const auto wanted = static_cast<std::int64_t>(claimed(board, slot));
  const auto expected = static_cast<std::int64_t>(expected_of(board, slot));
  const auto rest = static_cast<std::int64_t>(std::min(slot.rest.load(), capacity));
  const std::int64_t used = std::max<std::int64_t>(held - rest, 0);
  const std::int64_t peak = std::max(expected, held + wanted);
  // Without an expectation its memory may be on the host, and nothing is kept for it.
  const std::int64_t away = expected == 0 ? 0 : std::max<std::int64_t>(rest - held, 0);
  return {used, std::max<std::int64_t>(peak - rest - used, 0), away};
}

/// What lanes have of the board. While the daemon is silent there are none: nobody sizes them.
class Lanes {
 public:
  explicit Lanes(const BoardLayout& board) : count_(lanes_high(board)) {
    if (count_ > 0 && daemon_silent(board)) count_ = 0;
    if (count_ == 0) return;
    const std::uint64_t capacity = capacity_of(board);
    for (std::uint32_t lane = 1; lane <= count_; ++lane) {
      size_[lane] = static_cast<std::int64_t>(std::min(board.lane_bytes[lane - 1].load(), capacity));
      used_[lane] = 0;
    }
    for (std::uint32_t index = 0, high = slots_high(board); index < high; ++index) {
      const SlotLayout& slot = board.slots[index];
      const std::uint32_t lane = claim_of(slot) < kOutsideIterations ? of(slot) : 0;
      if (lane == 0) continue;
      const LaneIteration iteration = lane_iteration_of(board, slot);
      used_[lane] += iteration.used;
      kept_ += iteration.away;
    }
    for (std::uint32_t lane = 1; lane <= count_; ++lane) kept_ += get(lane).unused();
  }

  /// The lane of a slot, counted from 1; 0: none.
  std::uint32_t of(const SlotLayout& slot) const {
    const std::uint32_t lane = count_ == 0 ? 0 : slot.lane.load();
    return lane > 0 && lane <= count_ && size_[lane] > 0 ? lane : 0;
  }
  Lane get(std::uint32_t lane) const { return {used_[lane], size_[lane], {}}; }
  /// Bytes that are not held and belong to lanes and their iterations.
  std::int64_t kept_bytes() const { return kept_; }

 private:
  std::uint32_t count_;
  std::array<std::int64_t, kBoardLanes + 1> size_, used_;  // up to count_; those of lane 0 are not used
  std::int64_t kept_ = 0;
};

/// Iterations in the order of their ages.
class ByAge {
 public:
  void add(const Iteration& iteration) {
    std::uint32_t place = count_++;  // an insertion sort: there are few
    for (; place > 0 && iterations_[place - 1].rank > iteration.rank; --place)
      iterations_[place] = iterations_[place - 1];
    iterations_[place] = iteration;
  }
  OlderIterations older() const {
    OlderIterations found;
    for (std::uint32_t place = 0; place < count_; ++place)
      found.add(iterations_[place].due, iterations_[place].returns);
    return found;
  }

 private:
  std::array<Iteration, kSlots> iterations_;
  std::uint32_t count_ = 0;
};

/// Everything on the board that a request must leave bytes to.
struct Precedence {
  OlderIterations in_lane;
  OlderIterations common;
  bool oldest = true;
  std::int64_t reserved = 0;
};

Precedence precedence_over(const BoardLayout& board, const Lanes& lanes, std::uint32_t slot, std::uint64_t rank) {
  ByAge in_lane, common;
  Precedence found;
  const std::uint32_t own_lane = lanes.of(board.slots[slot]);
  for (std::uint32_t index = 0, high = slots_high(board); index < high; ++index) {
    const SlotLayout& other = board.slots[index];
    const std::uint64_t other_rank = claim_of(other);
    if (index == slot || other_rank == kDemoted) continue;
    if (other_rank >= kOutsideIterations) {
      if (rank < kOutsideIterations || other_rank < rank)
        found.reserved += static_cast<std::int64_t>(claimed(board, other));
      continue;
    }
    const bool older = other_rank < rank;
    const std::uint32_t lane = lanes.of(other);
    const Iteration iteration = iteration_of(board, other, other_rank);
    if (iteration.due == 0 && stands_still(other)) continue;
    found.oldest = found.oldest && !older;
    if (lane == 0) {
      if (older || own_lane != 0) common.add(iteration);
    } else if (lane == own_lane && older) {
      const LaneIteration its = lane_iteration_of(board, other);
      // One that holds nothing of the lane and needs nothing is on the host, or done.
      if (its.due > 0 || its.used > 0) in_lane.add({other_rank, its.due, its.used});
    } else if (own_lane == 0 && older) {
      common.add({other_rank, 0, 0});  // its lane has its bytes
    }
  }
  found.in_lane = in_lane.older();
  found.common = common.older();
  return found;
}

/// Decides a request while `used` bytes are leased. The words of other slots are read now, after `used` was.
Grant decide(const BoardLayout& board, std::uint32_t index, std::uint64_t bytes, std::uint64_t used) {
  const SlotLayout& slot = board.slots[index];
  const std::uint64_t rank = claim_of(slot), capacity = capacity_of(board);
  if (used > capacity || bytes > capacity - used) return Grant::full;
  const Lanes lanes(board);
  const Precedence precedence = precedence_over(board, lanes, index, rank);
  MemoryRequest request{static_cast<std::int64_t>(bytes), rank < kOutsideIterations, precedence.reserved};
  const std::int64_t free = static_cast<std::int64_t>(capacity - used) - lanes.kept_bytes();
  const std::uint32_t lane = lanes.of(slot);
  if (lane == 0) {
    const Grant grant = decide_grant(request, precedence.common, 0, free);
    return grant == Grant::full ? Grant::reserved : grant;  // the bytes are there, but lanes have them
  }
  if (request.iterates && precedence.oldest) request.reserved = 0;
  Lane own = lanes.get(lane);
  own.older = precedence.in_lane;
  const std::int64_t away = request.iterates ? lane_iteration_of(board, slot).away : 0;
  return decide_grant_in_lane(request, own, away, precedence.common, free + own.unused() + away);
}

}  // namespace

std::uint64_t claim_of(const SlotLayout& slot) {
  if (slot.use.load() != SlotUse::taken)
    return kDemoted;  // its other words may be damaged, and nobody writes them again
  return slot.wanted.load() > 0 ? slot.claim.load() : slot.age.load();
}

std::uint64_t limit_of(const BoardLayout& board, const SlotLayout& slot) {
  const std::uint64_t limit = slot.limit.load();
  return limit == kNoCeiling || daemon_silent(board) ? kNoCeiling : limit;
}

std::vector<std::uint32_t> elders_of(const BoardLayout& board, std::uint32_t slot, std::uint64_t claim) {
  std::vector<std::uint32_t> elders;
  for (std::uint32_t index = 0, high = slots_high(board); index < high; ++index) {
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

Lease take_lease(BoardLayout& board, std::uint32_t index, std::uint64_t held, std::uint64_t bytes) {
  SlotLayout& slot = board.slots[index];
  const Transit transit(slot);
  std::uint64_t seen = board.used.word();
  std::optional<std::uint64_t> used;
  // Every attempt decides anew. `used` does not change from before the decision to the grant, so a slot that leases in
  // between is noticed, unless another gives back exactly as much at the same moment. Then a younger iteration may get
  // bytes that an older one was to have; the capacity holds in any case.
  do {
    used = Sealed::open(seen);
    if (!used) return Lease::full;  // damaged: nothing is granted until a reaper has counted anew
    const Grant grant = decide(board, index, bytes, *used);
    if (grant != Grant::granted) return grant == Grant::full ? Lease::full : Lease::reserved;
  } while (!board.used.replace(seen, *used + bytes));
  slot.held.store(held + bytes);
  board.high_water.raise(*used + bytes);
  return Lease::granted;
}

void charge_lease(BoardLayout& board, std::uint32_t index, std::uint64_t held, std::uint64_t bytes) {
  SlotLayout& slot = board.slots[index];
  const Transit transit(slot);
  board.used.add(static_cast<std::int64_t>(bytes));
  slot.held.store(held + bytes);
  board.high_water.raise(board.used.load().value_or(0));
}

void give_lease(BoardLayout& board, std::uint32_t index, std::uint64_t bytes, std::uint64_t held) {
  SlotLayout& slot = board.slots[index];
  {
    const Transit transit(slot);
    slot.held.store(held);
    board.used.subtract(bytes);
  }
  wake_memory_waiters(board);
}

void wake_memory_waiters(BoardLayout& board) {
  struct Waiter {
    std::uint64_t rank, wanted;
    std::uint32_t slot;
  };
  std::array<Waiter, kSlots> waiters;
  std::uint32_t count = 0;
  for (std::uint32_t index = 0, high = slots_high(board); index < high; ++index) {
    const SlotLayout& slot = board.slots[index];
    if (const std::uint64_t wanted = claimed(board, slot)) waiters[count++] = {slot.claim.load(), wanted, index};
  }
  if (count == 0) return;
  std::sort(waiters.begin(), waiters.begin() + count, [](auto& a, auto& b) { return a.rank < b.rank; });
  // A waiter leaves room to those before it, woken or not, so `used` need not count what they will take.
  const std::uint64_t used = board.used.load().value_or(Sealed::kMost);
  for (std::uint32_t place = 0; place < count; ++place) {
    const Waiter& waiter = waiters[place];
    if (decide(board, waiter.slot, waiter.wanted, used) == Grant::granted)
      futex_wake(board.slots[waiter.slot].memory_epoch, Reach::all_processes);
  }
}

}  // namespace neaptide
