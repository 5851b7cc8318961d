// The words of the board file, and which processes may write them. Everything is an atomic: several processes map it.
//
// Leases. `used` counts granted bytes, a slot's `held` its share. Between the two updates of one operation bytes are in
// transit: counted in `used`, but in no `held`. Taking raises `used` first, giving lowers `held` first, so at every
// instant  sum(held) <= used,  and  used <= capacity  unless the capacity was just lowered. A process killed in between
// leaves its bytes in transit, until a reaper returns them: `begun` and `ended` bracket each operation, and when they
// agree and stand still on all other slots,  used - sum(held)  is exactly what the dead left.
//
// Bytes over the link (`over`) hold no lease: they are counted per slot, and nothing is granted or kept by that count.
//
// Lanes (memory_grant.h) need no count of their own, and so no repair: what a lane's iterations hold is computed from
// `held` and `rest` of its slots whenever a request is decided. A process that dies takes its part out with its slot.
//
// Damage. The words can be overwritten by any program of the same user. No word is believed blindly: the counts that
// keep the budget are sealed (sealed.h), every number is bounded before it is used, each process knows what its own
// slot should say and the daemon what its controls and the capacity should say; both write it again (Member::mend,
// Board::beat). Whether a slot has an owner is not in the file at all (slot_locks.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "board.h"
#include "sealed.h"

namespace neaptide {

inline constexpr std::uint64_t kBoardMagic = 0x4452414f42504e00;  // "\0NPBOARD" in little-endian order
inline constexpr std::uint32_t kBoardVersion = 11;
inline constexpr std::uint32_t kSlots = 64;
inline constexpr std::uint32_t kBoardLanes = kSlots;  // each job may have its own
inline constexpr std::uint32_t kJobWords = 8;

using Word32 = std::atomic<std::uint32_t>;
using Word64 = std::atomic<std::uint64_t>;
static_assert(Word32::is_always_lock_free && Word64::is_always_lock_free);

/// Changed by the process that has the slot's lock (slot_locks.h).
enum class SlotUse : std::uint32_t { free, taken };

struct alignas(64) SlotLayout {
  // Identity: written by the owner.
  std::atomic<SlotUse> use;
  std::atomic<std::int32_t> pid;
  Word64 start_time;
  std::array<Word64, kJobWords> job;

  // Leases: written by the owner, or by a reaper when it is gone.
  alignas(64) Word64 begun;
  Word64 ended;
  Sealed held;
  Word64 wanted;  // bytes waited for
  Word64 claim;   // order among waiters: lower goes first; valid while wanted > 0
  Word64 age;
  Word32 memory_epoch;  // futex

  // The largest capacity since the slot was taken. The present capacity need not be in it. Whoever changes the capacity
  // first raises the mark of every slot to the old capacity. So a process that reads the capacity and then the mark
  // misses no capacity, wherever the other is stopped or killed, and no mark names a capacity that there was not.
  Sealed largest_capacity;

  // Progress: written by the owner.
  alignas(64) Word64 needed;
  Word64 expected_leases;  // the most bytes that the running iteration is expected to hold until it ends; 0: unknown
  Word64 over;             // bytes over the link
  Word64 rest;             // bytes held when its iteration was let in; the same are expected when it has ended
  Word64 iteration;        // iterations begun, the one that waits for its permit too
  Word64 entered;          // iterations that were let in: by a permit, or because the daemon was silent
  Word64 launched;
  Word64 done;
  Word64 waited_ns;       // time in which a thread could not go on because of others; without the wait that goes on
  Word64 waits_since_ns;  // on the monotonic clock; 0: no thread waits
  Word64 stalled_ns;      // of waited_ns, the time in which a launch inside an iteration waited for memory
  std::atomic<SlotState> state;

  // Controls: written by the daemon; the owner clears the request.
  alignas(64) Word64 ceiling;
  Word64 limit;  // of leased bytes: what goes beyond is over the link
  Word32 lane;   // of its iterations, counted from 1; 0: none
  Word32 permit;
  Word32 inflight_cap;
  Word32 deadline_class;    // 1: kernels of this process go before those of others that have not begun
  Word32 share;             // of the device's SM time, in millionths
  Word64 gate_until_ns;     // until when the gate before kernels is open, on the device's clock; 0: it is closed
  Word32 gate_holds_light;  // 1: light kernels wait before it, too
  std::atomic<Request> request;
  Word32 control_epoch;  // futex
};

/// The device's region follows it in the file (device_region.h).
struct BoardLayout {
  Word64 magic;
  Word32 version;
  Word32 layout_bytes;
  Word32 region_kind;  // 0: there is no region
  Word32 region_bytes;
  Word64 region_setting;  // what the region was made with
  Word64 chunk_bytes;
  Word64 pid_namespace;
  Word32 slots_high;      // slots from here on were never used
  Word32 lanes_high;      // lanes from here on never had a size
  Word32 oversubscribed;  // 1: what the capacity does not grant is over the link, and nobody waits for it
  Word64 next_age;
  Word64 next_claim;
  Word64 heartbeat_ns;  // when the daemon last said that it lives, on the monotonic clock; 0: there is none

  alignas(64) Sealed capacity;
  alignas(64) Sealed used;
  Sealed high_water;
  alignas(64) std::array<Word64, kBoardLanes> lane_bytes;  // the size of each lane; written by the daemon

  std::array<SlotLayout, kSlots> slots;
};
static_assert(sizeof(BoardLayout) % 64 == 0);  // so that the region is aligned

inline std::uint32_t slots_high(const BoardLayout& board) { return std::min(board.slots_high.load(), kSlots); }
inline std::uint32_t lanes_high(const BoardLayout& board) { return std::min(board.lanes_high.load(), kBoardLanes); }

}  // namespace neaptide
