// Taking back a slot's leases, claims and device words: when its process leaves, and when it is found dead.
#pragma once

#include <cstdint>
#include <string>

#include "board_layout.h"

namespace neaptide {

/// Empties a slot. The board lock must be held. When the slot was cut short in a lease operation it stays `leaving`
/// until settle() finds out what was in transit. Safe to repeat after a crash in the middle.
void vacate(BoardLayout& board, std::uint32_t slot);
/// Returns the bytes that vacated slots had in transit and frees those slots; false when other slots' traffic never
/// paused: try again later. The board lock must be held.
bool settle(BoardLayout& board);

enum class Patience { wait_for_lock, skip_when_locked };

/// Wakes the processes that wait for what the device's region gives out.
void wake_device_waiters(BoardLayout& board);

/// Vacates the slots of all dead processes and wakes those that can use what came back. Returns the number of slots
/// freed. Takes the board lock only when there is something to do.
std::uint32_t reap_dead(BoardLayout& board, const std::string& path, Patience patience);

}  // namespace neaptide
