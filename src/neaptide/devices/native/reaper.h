// Taking back the leases, claims and device words of slots that have no owner.
#pragma once

#include <cstdint>

#include "board_layout.h"

namespace neaptide {

class Board;

/// Whether the words of a slot without an owner are as a new owner must find them. Changes nothing.
bool is_empty(const SlotLayout& slot);

/// Empties the slots of all processes that are gone, wakes those that can use what came back, and counts anew what is
/// used if that was damaged. Returns the number of slots freed. Waits for nothing: an operation that another process
/// has begun, and what cannot be counted because leases move all the time, is left to a later call. Safe to repeat
/// after a crash anywhere.
std::uint32_t reap_dead(Board& board);

/// Wakes the processes that wait for what the device's region gives out.
void wake_device_waiters(Board& board);

}  // namespace neaptide
