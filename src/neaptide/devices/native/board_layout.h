// The words of the board file, and which processes may write them. Everything is an atomic: several processes map it.
//
// Leases. `used` counts granted bytes, a slot's `held` its share. Between the two updates of one operation bytes are in
// transit: counted in `used`, but in no `held`. Taking raises `used` first, giving lowers `held` first, so at every
// instant  sum(held) <= used,  and  used <= capacity  unless the capacity was just lowered. A process killed in between
// leaves its bytes in transit, until settle() returns them: `begun` and `ended` bracket each operation, and when they
// agree and stand still on all live slots,  used - sum(held)  is exactly what the dead left.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "board.h"

namespace neaptide {

inline constexpr std::uint64_t kBoardMagic = 0x4452414f42504e00;  // "\0NPBOARD" in little-endian order
inline constexpr std::uint32_t kBoardVersion = 4;
inline constexpr std::uint32_t kSlots = 64;
inline constexpr std::uint32_t kJobWords = 8;

using Word32 = std::atomic<std::uint32_t>;
using Word64 = std::atomic<std::uint64_t>;
static_assert(Word32::is_always_lock_free && Word64::is_always_lock_free);

/// free -> taken -> leaving -> free, changed under the board lock. `leaving`: the owner is gone or going, and what it
/// had in transit may not be settled yet.
enum class SlotUse : std::uint32_t { free, taken, leaving };

struct alignas(64) SlotLayout {
  // Identity: written under the board lock while the slot is free.
  std::atomic<SlotUse> use;
  std::atomic<std::int32_t> pid;
  Word64 start_time;
  Word64 generation;  // counts owners
  std::array<Word64, kJobWords> job;

  // Leases: written by the owner, or by a reaper when it is gone.
  alignas(64) Word64 begun;
  Word64 ended;
  Word64 held;
  Word64 wanted;  // bytes waited for
  Word64 claim;   // order among waiters: lower goes first; valid while wanted > 0
  Word64 age;
  Word32 memory_epoch;  // futex

  // Progress: written by the owner.
  alignas(64) Word64 needed;
  Word64 expected_leases;  // the most bytes that the running iteration is expected to hold until it ends; 0: unknown
  Word64 rest;             // bytes held when it began, which it is expected to hold when it has ended
  Word64 iteration;
  Word64 launched;
  Word64 done;
  std::atomic<SlotState> state;

  // Controls: written by a controller; the owner clears the request.
  alignas(64) Word64 ceiling;
  Word32 permit;
  Word32 heavy_open;
  Word32 inflight_cap;
  std::atomic<Request> request;
  Word32 control_epoch;  // futex
};

/// The device's region follows it in the file (device_region.h).
struct BoardLayout {
  Word64 magic;  // written last: a board without it was never finished
  Word32 version;
  Word32 layout_bytes;
  Word64 boot;
  Word32 region_kind;  // 0: there is no region
  Word32 region_bytes;
  Word64 region_setting;  // what the region was made with
  Word64 pid_namespace;
  Word32 slots_high;  // slots from here on were never used
  Word64 next_age;
  Word64 next_claim;
  pthread_mutex_t lock;  // robust, shared

  alignas(64) Word64 capacity;
  alignas(64) Word64 used;
  Word64 high_water;

  std::array<SlotLayout, kSlots> slots;
};
static_assert(sizeof(BoardLayout) % 64 == 0);  // so that the region is aligned

}  // namespace neaptide
