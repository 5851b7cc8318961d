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

/// Takes bytes for a slot that holds `held`, all or none, if memory_grant.h grants them. Only the owner calls it, one
/// thread at a time; other processes are not waited for.
Lease take_lease(BoardLayout& board, std::uint32_t slot, std::uint64_t held, std::uint64_t bytes);
/// Takes bytes that the slot's process has on the device already, whatever the capacity. Called as take_lease().
void charge_lease(BoardLayout& board, std::uint32_t slot, std::uint64_t held, std::uint64_t bytes);
/// Gives back bytes of a slot, which then holds `held`, and wakes the waiters that get them. Called as take_lease(), or
/// by a reaper that has the slot's lock.
void give_lease(BoardLayout& board, std::uint32_t slot, std::uint64_t bytes, std::uint64_t held);
/// Wakes the memory waiters that would be granted their bytes, oldest first, as far as the free bytes reach.
void wake_memory_waiters(BoardLayout& board);
/// Slots that rank before `slot` and for which bytes are kept; `claim` is the rank of `slot`.
std::vector<std::uint32_t> elders_of(const BoardLayout& board, std::uint32_t slot, std::uint64_t claim);
/// The limit of a slot's leases, beyond which its bytes are over the link; kNoCeiling while the daemon is silent.
std::uint64_t limit_of(const BoardLayout& board, const SlotLayout& slot);
/// As Board::daemon_silent.
bool daemon_silent(const BoardLayout& board, std::uint64_t since_ns = 0);
/// A slot's place among claims: its waiting claim, or the age of its iteration.
std::uint64_t claim_of(const SlotLayout& slot);

/// Runs `look` while no lease of the slots that `counts` chooses moves, so that it sees their lease words at one
/// instant. False when traffic never paused; `look` may have run then, and must be harmless to repeat.
template <typename Counts, typename Look>
bool look_at_rest(const BoardLayout& board, Counts counts, Look look) {
  constexpr int kAttempts = 1000;
  using Moves = std::array<std::uint64_t, kSlots>;
  const auto count_moves = [&](Moves& moves) {
    for (std::uint32_t index = 0; index < kSlots; ++index) {
      if (!counts(index)) continue;
      const SlotLayout& slot = board.slots[index];
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
