// This process's slot on a board: its leases, its place in line for memory, and what the daemon allows it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "board.h"
#include "driver.h"
#include "process.h"

namespace neaptide {

struct SlotLayout;

/// Why a lease was or was not granted. `reserved`: the bytes are there, but an older iteration
/// waits for them or is expected to need them. `limit`: more than the process is to have on the device.
enum class Lease { granted, full, reserved, ceiling, limit };

/// Membership of the calling process; the slot is left in the destructor, or reaped when the process dies without it.
/// Thread-safe; no call waits for another process unless it says so. In a forked child every call throws BoardError,
/// and the destructor leaves the parent's slot alone.
///
/// What the slot says on the board is a copy: a Member knows what it holds, waits for and runs, and writes the words
/// again when they were damaged.
class Member {
 public:
  /// Takes a slot, reaping dead ones first. `job` is cut to 63 bytes. Throws BoardFull when there is none, and
  /// BoardReplaced when the board's path names another file by now.
  Member(std::shared_ptr<Board> board, const std::string& job);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member();

  Board& board() const { return *board_; }
  std::uint32_t slot() const { return slot_; }

  // Leases.
  /// Takes a lease if the capacity, the ceiling and the memory grant (memory_grant.h) allow it; never waits. All bytes
  /// or none.
  Lease try_take(std::uint64_t bytes);
  /// As try_take, but waits: retries whenever bytes return, until the deadline. Oldest iteration first.
  Lease take(std::uint64_t bytes, Deadline deadline);
  /// Gives leased bytes back and wakes processes that can use them. More than is held throws std::logic_error, changing
  /// nothing.
  void give(std::uint64_t bytes);
  /// Bytes leased now, those for memory outside the arena among them. Changes nothing.
  std::uint64_t held_bytes() const;

  // Bytes over the link: in host memory, where kernels reach them. They hold no lease.
  /// Whether a process whose lease was refused for this reason takes the bytes over the link instead of waiting.
  bool overflows(Lease refused) const;
  /// What it could lease at most, by its limit and, where nobody waits, by the free capacity.
  std::uint64_t room_bytes() const;
  /// So many bytes more, or fewer, are over the link.
  void take_over(std::uint64_t bytes);
  void give_over(std::uint64_t bytes);
  /// Leases bytes that were over the link and outlive iterations; false, changing nothing, when they are not granted.
  bool bring_back(std::uint64_t bytes);
  /// Gives the lease of bytes that are over the link from now on.
  void send_over(std::uint64_t bytes);
  /// Leased bytes that should be over the link: beyond the limit or, where the device is oversubscribed, beyond a
  /// capacity that was lowered.
  std::uint64_t excess_bytes() const;
  std::uint64_t over_bytes() const { return over_bytes_.load(std::memory_order_relaxed); }
  /// Whether over_the_link_ns() can be more than 0. Cheap.
  bool may_pay_for_link() const { return over_bytes() > 0 || board_->oversubscribed(); }
  /// How much longer a kernel takes that moves so many bytes (core/rules/over_the_link.h); bytes per second.
  double over_the_link_ns(std::uint64_t moved_bytes, double link_bandwidth) const;

  // Memory of the process on the device that its arena does not manage: a GPU's context and buffers of libraries.
  /// Leases so many bytes for it before it is there; waits for them as long as it takes.
  void take_outside(std::uint64_t bytes);
  /// As take_outside(), but never waits: false, changing nothing, when they are not granted now. Ceilings are for
  /// tensors and do not count.
  bool try_take_outside(std::uint64_t bytes);
  /// So many bytes are there now. They are leased even if that is more than the capacity: then nothing is granted until
  /// enough was given back.
  void set_outside(std::uint64_t bytes);
  /// What is leased for it. Changes nothing.
  std::uint64_t outside_bytes() const { return outside_bytes_.load(std::memory_order_relaxed); }
  /// What is leased besides. Changes nothing.
  std::uint64_t arena_bytes() const;

  /// The largest capacity that the board has had since this process took its slot, also while the process looked at
  /// nothing; 0: the capacity has been damaged all the time.
  std::uint64_t largest_capacity_bytes();
  /// Whether another process waits for memory. Changes nothing.
  bool others_wait() const;
  /// Counts up whenever memory may have become available to this process, or a request came.
  std::uint32_t memory_epoch() const;
  /// Wakes this process's own memory waiters (a block came free inside the process).
  void poke();

  // Iterations.
  /// An iteration begins: it gets the next age ticket. Returns its number, 0 for the first.
  std::uint64_t begin_iteration();
  /// The iteration of this number was let in; it runs from now on.
  void enter_iteration(std::uint64_t iteration);
  /// The running iteration, if there is one, gets a new age ticket: it is the youngest now.
  void renew_age();
  /// The running iteration ends. Until the next one begins, the process's requests rank after those of iterations.
  void end_iteration();
  /// The running iteration will hold at most this much from now on; 0: no forecast. Younger ones leave it that room.
  void set_expected_leases(std::uint64_t bytes);
  /// The process's memory was moved to the host: what its threads still wait for is no longer kept from others.
  void demote_claim();
  void set_state(SlotState state);
  /// What the process's live blocks need; for display.
  void publish_needed(std::uint64_t bytes);
  void count_launched(std::uint64_t kernels = 1);
  void count_done(std::uint64_t kernels = 1);

  // Controls, set through Board. Reading changes nothing. While the daemon is silent, permits, gates and ceilings
  // are open. A cap stays as it is: a launch that waits for it waits for the device alone.
  bool permitted(std::uint64_t iteration) const;
  /// Whether iterations may begin that no policy has started.
  bool runs_ahead() const;
  /// Until when the gate before kernels is open, on the device's clock; 0: it is closed, kAlways: no end is set.
  std::uint64_t heavy_until_ns() const;
  bool heavy_open() const { return heavy_until_ns() != 0; }
  /// Whether light kernels wait before the gate, too.
  bool gate_holds_light() const;
  bool in_deadline_class() const;
  /// The share of the device's SM time that the process may use: more than 0, at most 1.
  double share() const;
  std::uint32_t inflight_cap() const;
  /// Whether no control but the cap holds a launch, whatever it is: no request waits, and the gate is open without an
  /// end.
  bool unhindered() const;
  /// Whether no other process has a slot on the board.
  bool alone() const;
  std::uint64_t ceiling_bytes() const;
  /// The most that the process may lease; what it needs beyond goes over the link.
  std::uint64_t limit_bytes() const;
  /// The most that the program itself lets this process lease for its arena. Nobody else sets or lifts it.
  std::uint64_t arena_limit_bytes() const { return arena_limit_bytes_.load(std::memory_order_relaxed); }
  void set_arena_limit(std::uint64_t bytes) { arena_limit_bytes_.store(bytes); }
  /// The most that the process may lease by that limit, with what it has outside its arena.
  std::uint64_t own_limit_bytes() const {
    const std::uint64_t limit = arena_limit_bytes();
    return limit < kNoCeiling - outside_bytes() ? limit + outside_bytes() : kNoCeiling;
  }
  Request request() const;
  bool daemon_silent() const { return board_->daemon_silent(); }
  /// The process has done what was asked.
  /// The process has done this; a newer request stays. False when there is one.
  bool finish_request(Request request);
  /// Waits until iteration number `iteration` may start; false at the deadline.
  bool wait_permit(std::uint64_t iteration, Deadline deadline);
  /// Waits until `ready` holds, testing it after every change of this slot's controls; false at the deadline.
  bool wait_control(const std::function<bool()>& ready, Deadline deadline);
  /// Wakes this process's own waiters for controls, to test again.
  void poke_controls();
  /// Writes the words of the slot again where they were damaged. Every wait here does it, and every lease.
  void mend();

 private:
  friend class LeaseClaim;
  friend class Waits;
  friend class Stalls;
  /// What the slot should say.
  struct Truth {
    std::uint64_t held = 0;
    std::uint64_t over = 0;
    std::uint64_t wanted = 0;
    std::uint64_t age = kNoIteration;
    std::uint64_t iteration = 0;
    std::uint64_t entered = 0;
    std::uint64_t largest_capacity = 0;
  };

  void take_slot();
  void leave();
  void mend_locked();
  void learn_capacity_locked();
  std::uint64_t new_claim_locked() const;
  void count_over_locked(std::uint64_t bytes);
  SlotLayout& words() const {
    if (guard_.forked()) board_->require_owner();
    return *words_;
  }

  std::shared_ptr<Board> board_;
  const std::string job_;
  const ProcessId self_ = this_process();
  const ForkGuard guard_;
  std::uint32_t slot_ = kNoSlot;
  SlotLayout* words_ = nullptr;  // of the slot
  std::mutex waits_mutex_;       // innermost
  std::uint32_t waiting_threads_ = 0;
  std::atomic<std::uint64_t> arena_limit_bytes_{kNoCeiling};
  std::atomic<std::uint64_t> outside_bytes_{0};
  std::atomic<std::uint64_t> over_bytes_{0};
  std::uint64_t waited_ns_ = 0;
  std::uint64_t waits_since_ns_ = 0;
  std::uint32_t stalled_threads_ = 0;
  std::uint64_t stalled_ns_ = 0;
  std::uint64_t stalls_since_ns_ = 0;
  mutable std::mutex mutex_;  // guards the truth and the words that copy it; a leaf
  Truth truth_;
};

/// While it lives, its thread cannot go on because of other jobs: it waits for a permit, at a gate, for memory, or for
/// its memory to return. The board counts the time; while several threads wait, it counts once.
class Waits {
 public:
  explicit Waits(Member& member);
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;
  ~Waits();

 private:
  Member& member_;
};

/// A wait for memory. If it begins inside an iteration the job stalls, and the board also counts the time by itself.
class Stalls {
 public:
  explicit Stalls(Member& member);
  Stalls(const Stalls&) = delete;
  Stalls& operator=(const Stalls&) = delete;
  ~Stalls();

 private:
  const Waits waits_;
  Member& member_;
  const bool counts_;
};

/// Opens a board and takes a slot on it; opens it again when it was replaced meanwhile. Throws BoardError.
std::unique_ptr<Member> join(const std::function<std::shared_ptr<Board>()>& open, const std::string& job);

/// A published claim on bytes: while it lives, younger processes may not take what it waits for. One thread's own.
///
///   LeaseClaim claim(member, bytes);
///   for (;;) {
///     auto epoch = member.memory_epoch();      // before the attempt, so that no wake-up is lost
///     if (attempt()) break;
///     if (!claim.wait(epoch, deadline)) fail();
///   }
class LeaseClaim {
 public:
  LeaseClaim(Member& member, std::uint64_t bytes);
  LeaseClaim(const LeaseClaim&) = delete;
  LeaseClaim& operator=(const LeaseClaim&) = delete;
  ~LeaseClaim();

  /// Changes how many bytes are waited for.
  void resize(std::uint64_t bytes);
  /// Sleeps until memory_epoch() differs from `epoch`, or for a while as a safety net against a waker that died (dead
  /// processes are reaped then). False when the deadline has come.
  bool wait(std::uint32_t epoch, Deadline deadline);

 private:
  Member& member_;
  std::uint64_t bytes_;
};

}  // namespace neaptide
