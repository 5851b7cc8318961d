// The lease arithmetic on the board's words; board_layout.h says why it survives a kill at any instruction.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "board_layout.h"
#include "member.h"

namespace neaptide {

/// Claims of processes without an iteration come after all ages, first come first served.
inline constexpr std::uint64_t kOutsideIterations = std::uint64_t{1} << 63;
/// Claim of a waiter for which nothing is kept: it is stopped, or its memory is on the host.
inline constexpr std::uint64_t kDemoted = ~std::uint64_t{0};

/// Takes bytes for a slot, all or none, if its ceiling allows and memory_grant.h grants them. Lock-free.
Lease take_lease(BoardLayout& board, std::uint32_t slot, std::uint64_t bytes);
/// Gives bytes back and wakes the waiters that get them; false, changing nothing, when the slot holds fewer. Lock-free.
bool give_lease(BoardLayout& board, std::uint32_t slot, std::uint64_t bytes);
/// Wakes the memory waiters that would be granted their bytes, oldest first, as far as the free bytes reach.
void wake_memory_waiters(BoardLayout& board);
/// Slots that rank before `slot` and for which bytes are kept; `claim` is the rank of `slot`.
std::vector<std::uint32_t> elders_of(const BoardLayout& board, std::uint32_t slot, std::uint64_t claim);
/// A slot's place among claims: its waiting claim, or the age of its iteration.
std::uint64_t claim_of(const SlotLayout& slot);

/// Runs `look` while no lease moves, so that it sees the lease words of all slots at one instant. False when traffic
/// never paused; `look` may have run then, and must be harmless to repeat.
template <typename Look>
bool look_at_rest(const BoardLayout& board, Look look) {
  constexpr int kAttempts = 1000;
  using Moves = std::array<std::uint64_t, kSlots>;
  const auto count_moves = [&board](Moves& moves) {
    for (std::uint32_t index = 0, high = board.slots_high.load(); index < high; ++index) {
      const SlotLayout& slot = board.slots[index];
      if (slot.use.load() != SlotUse::taken) continue;
      moves[index] = slot.ended.load() + 1;
      if (slot.begun.load() + 1 != moves[index]) return false;
    }
    return true;
  };
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Moves before{}, after{};
    if (!count_moves(before)) continue;
    look();
    if (count_moves(after) && before == after) return true;
  }
  return false;
}

}  // namespace neaptide
