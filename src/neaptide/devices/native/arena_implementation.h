// The arena's state and its parts: allocation (arena_allocation.cpp), stream-ordered return (arena_return.cpp),
// eviction (arena_eviction.cpp), bytes over the link (arena_overflow.cpp). Functions ending in _locked must be called
// with the mutex held, the others without it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "arena.h"
#include "heap.h"
#include "host_buffer.h"
#include "page_runs.h"
#include "series.h"

namespace neaptide {

struct AddressRange {
  Address start;
  std::uint64_t bytes;
  bool few;  // fewer than were wanted
};

class Arena::Implementation {
 public:
  Implementation(Driver& driver, Member& member, ArenaOptions options);
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  ~Implementation();

  Address allocate(std::size_t bytes, StreamId stream, Hint hint);
  AllocationAttempt try_allocate(std::size_t bytes, StreamId stream, Hint hint);
  void deallocate(Address address);
  void record_stream(Address address, StreamId stream);
  void set_reuse_at_launch(bool reuse) { reuse_at_launch_.store(reuse); }
  bool contains(Address address) const { return address - base_ < range_bytes_; }
  std::size_t block_bytes(Address address) const;
  std::size_t progress();
  std::size_t empty_cache();
  ArenaStats stats() const;
  void reset_peaks();
  RecentNeeds take_recent();
  void record_series(std::size_t samples);
  std::vector<MemorySample> series() const;
  void rebalance();
  std::size_t evict(Deadline deadline);
  bool restore(Deadline deadline);
  bool evicted() const;
  std::vector<HeldBlock> blocks() const;
  void check_integrity() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  /// Takes the mutex; in a forked child, where it may be held for ever, throws BoardError.
  Lock guard() const {
    member_.board().require_owner();
    return Lock(mutex_);
  }

  /// What an attempt to allocate came to. `need`: bytes of leases that would have made it succeed.
  struct Attempt {
    std::optional<Address> address;
    std::uint64_t need = 0;
    Lease lease = Lease::granted;
    bool busy = false;          // the process alone would not fit while its streams have work in flight
    std::uint64_t alone = 0;    // what it would hold without, when that is more than the capacity is now
    bool hopeless = false;      // that is more than the device has had since the process began
    bool no_addresses = false;  // no gap in the address range is wide enough
  };
  /// What a new chunk is leased for: all of it, or only the pages that the block touches.
  enum class Growth : std::uint8_t { chunks, pages };
  /// What a request for leases came to. When granted, `over` of its bytes are to be over the link; otherwise `need`
  /// bytes of leases are waited for.
  struct Taken {
    Lease lease = Lease::granted;
    std::uint64_t over = 0;
    std::uint64_t need = 0;
  };
  struct Span {
    Address start;
    Address end;
  };
  /// Empty chunks on their way back: handed back when the stream has passed the event, unless in use again by then.
  struct Return {
    Event event;
    ChunkRange chunks;
    std::uint64_t serial = 0;
  };
  /// A block that other streams than its own may still use.
  struct Drain {
    Block* block = nullptr;
    std::vector<Event> events;
  };
  struct EvictedRange {
    ChunkRange chunks;
    HostBuffer bytes;
  };
  using Ranges = std::vector<ChunkRange>;

  Attempt attempt_locked(std::uint64_t bytes, StreamId stream, Hint hint, Growth growth);
  Attempt take_block_locked(Block& free, std::uint64_t bytes);
  Attempt grow_and_take_locked(Pool& pool, ChunkRange range, std::uint64_t bytes, Growth growth);
  void remove_chunks_locked(ChunkRange range);
  Taken take(std::uint64_t bytes, std::uint64_t unit);
  void back(ChunkRange range, Span over);
  std::uint64_t forget_over_locked(ChunkRange range);
  bool is_over(std::uint32_t chunk) const;
  std::uint64_t chunks_here_locked() const;
  void bring_back_locked();
  void send_over_locked(std::uint64_t bytes);
  std::uint64_t send_chunk_over_locked(std::uint32_t chunk);
  Attempt attempt_after_return(std::uint64_t bytes, StreamId stream, Hint hint);
  Address allocate_slowly(std::uint64_t bytes, StreamId stream, Hint hint);
  std::uint64_t alone_locked(const Attempt& attempt) const;
  bool give_gaps_locked();
  [[noreturn]] void fail(std::uint64_t bytes, const Attempt& attempt, bool waited);

  /// Frees a block; chunks that can go back at once are added to `back`.
  void free_block_locked(Block& block, Ranges& back);
  void sort_out_locked(ChunkRange chunks, std::uint64_t serial, Ranges& back);
  bool finish_drains_locked(Ranges& back);
  bool finish_returns_locked(Ranges& back);
  bool rearm_locked();
  bool settle_locked(Ranges& back);
  void drop_kept_locked(Ranges& back);
  void detach_locked(std::uint32_t chunk, Ranges& back);
  std::size_t hand_back(const Ranges& ranges);
  std::size_t shed();
  bool drain_streams(Deadline deadline);
  void wake_waiters();

  void count_needed_locked();
  void count_held_locked();
  void run_blocking(const std::function<void()>& wait) const;
  bool await_hand_backs(Deadline deadline);
  Ranges drop_empty_evicted_locked();
  void back_evicted(const Ranges& ranges, std::uint64_t bytes, std::uint64_t over);
  std::vector<EvictedRange> copy_out(const Ranges& ranges);

  Driver& driver_;
  Member& member_;
  const ArenaOptions options_;
  const std::uint64_t chunk_bytes_;
  const AddressRange range_;
  const std::uint64_t range_bytes_;
  const Address base_;

  // Lock order: eviction_mutex_ -> mutex_. eviction_mutex_ is held through a whole evict() or restore().
  std::mutex eviction_mutex_;
  mutable std::mutex mutex_;
  Heap heap_;
  std::map<StreamId, std::deque<Return>> returns_;
  std::vector<Drain> drains_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t detached_chunks_ = 0;  // removed from the heap, lease not yet given back
  PageRuns hollow_;
  PageRuns over_;  // the link; while evicted, whole chunks
  bool evicted_ = false;
  std::vector<EvictedRange> evicted_ranges_;
  ArenaStats stats_;
  RecentNeeds recent_;  // its peak; what had been allocated when it began
  Series series_;
  std::atomic<std::uint32_t> waiters_{0};
  std::atomic<bool> reuse_at_launch_{true};
};

}  // namespace neaptide
