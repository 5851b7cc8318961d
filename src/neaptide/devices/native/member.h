// This process's slot on a board: its leases, its place in line for memory, and what a controller allows it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "board.h"
#include "driver.h"

namespace neaptide {

struct SlotLayout;

/// Why a lease was or was not granted. `reserved`: the bytes are there, but an older iteration
/// waits for them or is expected to need them.
enum class Lease { granted, full, reserved, ceiling };

/// Membership of the calling process; the slot is left in the destructor, or reaped when the process dies without it.
/// Thread-safe and lock-free but for joining and leaving. In a forked child every call throws BoardError, and the
/// destructor leaves the parent's slot alone.
class Member {
 public:
  /// Takes a slot, reaping dead ones first. `job` is cut to 63 bytes. Throws BoardError when the board is full.
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
  /// Bytes leased now. Changes nothing.
  std::uint64_t held_bytes() const;

  /// Whether another process waits for memory. Changes nothing.
  bool others_wait() const;
  /// Counts up whenever memory may have become available to this process, or a request came.
  std::uint32_t memory_epoch() const;
  /// Wakes this process's own memory waiters (a block came free inside the process).
  void poke();

  // Iterations.
  /// An iteration begins: it gets the next age ticket. Returns its number, 0 for the first.
  std::uint64_t begin_iteration();
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

  // Controls, set through Board. Reading changes nothing.
  bool permitted(std::uint64_t iteration) const;
  bool heavy_open() const;
  std::uint32_t inflight_cap() const;
  std::uint64_t ceiling_bytes() const;
  Request request() const;
  /// The process has done what was asked.
  void clear_request();
  /// The process has done this; a newer request stays. False when there is one.
  bool finish_request(Request request);
  /// Wait until iteration number `iteration` may start, or the heavy gate is open; false at the deadline.
  bool wait_permit(std::uint64_t iteration, Deadline deadline);
  bool wait_heavy_open(Deadline deadline);
  /// Waits until `ready` holds, testing it after every change of this slot's controls; false at the deadline.
  bool wait_control(const std::function<bool()>& ready, Deadline deadline);
  /// Wakes this process's own waiters for controls, to test again.
  void poke_controls();

 private:
  friend class LeaseClaim;
  SlotLayout& words() const;

  std::shared_ptr<Board> board_;
  std::uint32_t slot_ = kNoSlot;
};

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
