// One kernel-running thread's place in the device's queue for SM tokens.
//
// Requests of deadline jobs are served before those of other jobs. Within a class they are served strictly in the order
// of their tickets, across processes: a wide one is not overtaken by narrow ones. A lane may run when its width, the
// widths of all requests that run, and the widths of all that go before it fit the SMs together; so the shared state is
// one word per lane, and a dead process's tokens come back by clearing its lanes' words.
#pragma once

#include <cstdint>

#include "../../../native/driver.h"
#include "../../../native/member.h"
#include "sm_queue.h"

namespace neaptide::soft {

/// Used by one thread at a time. Must not outlive its Member. In a forked child every call throws BoardError.
class SmLane {
 public:
  /// Opens a lane. Throws BoardError when all are taken.
  explicit SmLane(Member& member);
  SmLane(const SmLane&) = delete;
  SmLane& operator=(const SmLane&) = delete;
  /// Releases what is held and closes the lane.
  ~SmLane();

  /// Takes `width` tokens (1 .. sms, else std::invalid_argument), waiting for its turn. Uncontended: atomics only.
  /// False when the deadline came first; the place in the queue is lost then. Holding tokens already: std::logic_error.
  bool acquire(std::uint32_t width, Deadline deadline = Deadline::max());
  /// Gives the tokens back and wakes those whose turn it is. Without tokens: does nothing.
  void release();
  /// Ends one kernel and begins the next; true when the lane kept its tokens, which saves a handover. It keeps them if
  ///   - nobody waits, or the first in line has waited less than `turn_ns`, or less than twice that when lanes that
  ///     have run longer can make room for it;
  ///   - and, for a narrower kernel, the tokens that it could spare would not be enough for the first in line.
  /// Otherwise it releases and acquires. With turn_ns = 0 the order is strictly first come, first served. A lane of a
  /// deadline job keeps its tokens however long others wait; another lane gives them up at once for a deadline job.
  bool renew(std::uint32_t width, std::uint64_t turn_ns = 0);

  /// Tokens held by this lane; 0 after a stop (SIGSTOP) in which others took them over. Changes nothing.
  std::uint32_t held() const;

 private:
  enum class Turn { mine, late, lost };

  void raise_lanes_high();
  LaneWord enqueue(std::uint32_t width);
  bool my_turn(const LaneWord& request) const;
  bool begin(const LaneWord& request);
  bool spin_for_turn(const LaneWord& request);
  bool turn_lasts(std::uint32_t spare, std::uint64_t turn_ns);
  Turn wait_for_turn(const LaneWord& request, Deadline deadline);

  Member& member_;
  SmRegion& queue_;
  const std::uint32_t sms_;
  LaneLayout* lane_ = nullptr;
  std::uint32_t index_ = 0;
  std::uint64_t ticket_ = 0;         // of the request in the queue; 0: there is none
  std::uint32_t width_ = 0;          // of that request
  std::uint64_t first_in_line_ = 0;  // the ticket last seen there
  std::uint64_t seen_there_ns_ = 0;  // and since when
  std::uint32_t spin_ns_ = 5'000;
  bool cores_for_all_ = false;
};

}  // namespace neaptide::soft
