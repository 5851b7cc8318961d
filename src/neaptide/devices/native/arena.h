// The device memory of one process: blocks for tensors, in chunks leased from the board.
//
// - Best fit with the lowest address, among the free space of chunks that are held; else the fewest new chunks.
// - A chunk belongs to one stream while it is held. A freed block is reusable on its stream at once (the stream's order
//   makes that safe); an empty chunk goes back to the board when the stream has passed its last use, and from there to
//   any stream or process.
// - Ephemeral blocks grow from the low end of the range, persistent ones from the high end.
//
// - A process that alone would not fit the device because of the gaps between its blocks gives the gaps' pages back
//   (page_runs.h). So it can always hold what its blocks need, to the page.
// - An allocation fails only if the process, alone, would need more than the largest capacity that the device has had
//   since the process took its slot. A capacity that was lowered makes it wait.
//
// - What the process may not lease, because of its limit or under a policy that oversubscribes, is over the link where
//   the driver can put host memory behind chunks: allocations do not wait for it (arena_overflow.cpp).
//
// Lock order: (driver's listener lock) -> arena mutex -> driver calls and board atomics. The arena mutex is never held
// while waiting for leases or streams, nor while chunks are unbacked or copied.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "driver.h"
#include "member.h"

namespace neaptide {

/// Where a block is placed: at the low end, or with what outlives the iteration at the high end.
enum class Hint : std::uint8_t { ephemeral, persistent };

/// No memory before the deadline, or more asked than the device has.
class OutOfMemory : public std::runtime_error {
 public:
  OutOfMemory(const std::string& message, std::uint64_t need, std::uint64_t held, std::uint64_t capacity)
      : std::runtime_error(message), need_bytes(need), held_bytes(held), capacity_bytes(capacity) {}
  std::uint64_t need_bytes;      // this allocation
  std::uint64_t held_bytes;      // leased by this process
  std::uint64_t capacity_bytes;  // of the device, or the process's ceiling when that is lower
};

/// What an attempt to allocate came to. `evicted`: the process's memory is in host memory. `over_capacity`: the
/// process would hold more bytes than the device has had at any time since the process began to use it.
enum class Allocation : std::uint32_t { granted, full, reserved, ceiling, over_capacity, evicted };

struct AllocationAttempt {
  Allocation outcome = Allocation::granted;
  Address address = 0;           // when granted
  std::uint64_t need_bytes = 0;  // leases that would have made it succeed
};

struct ArenaOptions {
  /// Address range to reserve; 0 means four times the board's capacity, at least 1 GiB and at most 4 TiB. The arena
  /// makes do with less where the process may not have so many addresses.
  std::uint64_t range_bytes = 0;
  /// How long an allocation waits for a lease before OutOfMemory.
  std::chrono::nanoseconds wait = std::chrono::seconds(60);
  /// Empty chunks that the streams have passed are handed back, but for this many bytes: a process that frees its only
  /// temporary block and allocates the next should not go through the driver each time. Unset: one
  /// chunk; 0 keeps none. Nothing is kept while another process waits for memory.
  std::optional<std::uint64_t> keep_bytes;
  /// Runs every wait of the arena: the place to release the interpreter lock. Unset: the wait runs as it is.
  std::function<void(const std::function<void()>&)> blocking;
  /// Called without locks, once per wait, by a thread that waits although no other process holds what it lacks: with
  /// the bytes that the process would hold.
  std::function<void(std::uint64_t)> on_too_small;
  /// Called without locks when the process alone does not fit: gives back what it leases for memory that is not there
  /// yet. False: there is none.
  std::function<bool()> give_allowance;
  /// Called without locks by a thread that waits for memory when the daemon has asked that the process's memory leave
  /// the device. It returns when the memory is back. The claim on memory is withdrawn meanwhile.
  std::function<void(Request)> on_request;
  /// Called without locks, now and then, by a thread that waits for memory; what it throws ends the allocation. Unset:
  /// nothing is done.
  std::function<void()> look_for_interrupts;
};

/// Counters; bytes unless they say otherwise. `needed` counts live blocks, rounded; `held` counts leases, `over` what
/// is over the link: together they are what the blocks lie in.
struct ArenaStats {
  std::uint64_t needed = 0;
  std::uint64_t needed_peak = 0;
  std::uint64_t held = 0;
  std::uint64_t held_peak = 0;
  std::uint64_t over = 0;
  std::uint64_t over_peak = 0;
  std::uint64_t spare_peak = 0;     // most free bytes in chunks in use when a lease was taken because no gap fitted
  std::uint64_t allocations = 0;    // calls so far
  std::uint64_t deallocations = 0;  // calls so far
  std::uint64_t needed_total = 0;   // ever allocated
  std::uint64_t chunks_taken = 0;   // chunks ever backed
  std::uint64_t chunks_given = 0;   // chunks ever unbacked
  std::uint64_t lease_waits = 0;    // allocations that had to wait
  std::uint64_t out_of_memory = 0;  // allocations that failed
  std::uint64_t evicted_bytes = 0;  // on the host now
  std::uint64_t live_blocks = 0;
};

/// The most bytes needed at once in some span of time, and all that were allocated in it.
struct RecentNeeds {
  std::uint64_t peak = 0;
  std::uint64_t allocated = 0;
};

/// One change of needed or held bytes; time on the steady clock.
struct MemorySample {
  std::uint64_t time_ns = 0;
  std::uint64_t needed = 0;
  std::uint64_t held = 0;
};

/// A block of the memory that the arena holds, free or not.
struct HeldBlock {
  Address address = 0;
  std::uint64_t bytes = 0;
  StreamId stream = 0;
  bool free = false;
};

/// Thread-safe. In a forked child allocate() throws BoardError and deallocate() does nothing.
/// The driver and the member must outlive it; its destructor waits for nothing: drain the streams first.
class Arena {
 public:
  Arena(Driver& driver, Member& member, ArenaOptions options = {});
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// A block of at least `bytes` (rounded up to 512, at least 512), to be used first on `stream`. When no lease can be
  /// had it reclaims what the streams have passed, then waits. Throws OutOfMemory, DriverError or BoardError.
  Address allocate(std::size_t bytes, StreamId stream, Hint hint = Hint::ephemeral);
  /// As allocate(), but never waits and never throws OutOfMemory. The caller that means to try again keeps a
  /// LeaseClaim.
  AllocationAttempt try_allocate(std::size_t bytes, StreamId stream, Hint hint = Hint::ephemeral);
  /// The program is done with the block: work launched later may overwrite it. An address that no block starts at
  /// throws std::invalid_argument, changing nothing.
  void deallocate(Address address);
  /// Work launched so far on `stream` uses the block too: after deallocate() it stays untouched until all such streams
  /// have passed the work launched on them by then. `address` is the block's start.
  void record_stream(Address address, StreamId stream);

  /// Whether a freed block can be taken again at once by what is launched later on its stream (the default), or only
  /// when the stream has passed its last use. The latter wastes memory; it is there to show what launching ahead costs.
  void set_reuse_at_launch(bool reuse);

  /// Whether the address lies in the arena's range. Changes nothing, takes no lock.
  bool contains(Address address) const;
  /// Usable bytes of the block that starts here; 0 when none does. Changes nothing.
  std::size_t block_bytes(Address address) const;

  /// Hands back what the streams have passed; the driver's listener calls it. Returns bytes handed back.
  std::size_t progress();
  /// Waits for the streams and hands every empty chunk back. Returns bytes handed back.
  std::size_t empty_cache();

  /// Changes nothing.
  ArenaStats stats() const;
  /// Peaks start again from what is needed and held now.
  void reset_peaks();
  /// What happened since the last call, or since the start.
  RecentNeeds take_recent();
  /// Keeps the last `samples` changes from now on; 0 stops and forgets.
  void record_series(std::size_t samples);
  /// The kept samples, oldest first. Changes nothing.
  std::vector<MemorySample> series() const;

  /// An iteration begins: what is over the link comes to the device as far as leases are granted. If more is leased
  /// than the limit, or under a policy that oversubscribes than a capacity that was lowered, chunks go over the link
  /// instead.
  void rebalance();

  /// Copies the chunks to host memory, but for those over the link, which stay, and gives their leases back; returns
  /// bytes given back. The process must be quiescent: nothing launched but not done, nothing launching. Waits for the
  /// streams to be drained; throws std::logic_error when they are not by the deadline, changing nothing. Until
  /// restore(), allocate() waits and no block may be touched; deallocate() is fine.
  std::size_t evict(Deadline deadline);
  /// Takes the leases again and brings the chunks back at their addresses, contents bit-identical. Waits for leases;
  /// false at the deadline, still evicted. Without an eviction: true.
  bool restore(Deadline deadline);
  bool evicted() const;

  /// All blocks, in the order of their addresses; neighbours of one stream meet. Changes nothing.
  std::vector<HeldBlock> blocks() const;
  /// Verifies every invariant; throws std::logic_error that names the broken one. Changes nothing.
  void check_integrity() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace neaptide
