#include "sm_lane.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "../../../native/board_layout.h"
#include "../../../native/board_lock.h"
#include "../../../native/futex.h"
#include "../../../native/reaper.h"

namespace neaptide::soft {
namespace {

constexpr std::uint32_t kShortestSpin_ns = 1'000;
constexpr std::uint32_t kLongestSpin_ns = 20'000;

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

std::uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

SmLane::SmLane(Member& member) : member_(member), queue_(sm_region(member.board())) {
  BoardLayout& board = member_.board().layout();
  const BoardLock lock(board.lock, member_.board().path());
  const auto free = std::find_if(queue_.lanes.begin(), queue_.lanes.end(),
                                 [](const LaneLayout& lane) { return lane.owner.load() == 0; });
  if (free == queue_.lanes.end())
    throw BoardError("board " + member_.board().path() + ": all " + std::to_string(kLanes) + " SM lanes are taken");
  lane_ = &*free;
  index_ = static_cast<std::uint32_t>(free - queue_.lanes.begin());
  lane_->word.store(LaneWord{}.pack());
  queue_.lanes_high.store(std::max(queue_.lanes_high.load(), index_ + 1));
  lane_->owner.store(member_.slot() + 1);
  cores_for_all_ = queue_.sms.load() <= std::thread::hardware_concurrency();
}

SmLane::~SmLane() {
  if (member_.board().forked()) return;
  release();
  lane_->owner.store(0);  // the word is idle: a lane freed without the lock is as good as one freed with it
}

bool SmLane::acquire(std::uint32_t width, Deadline deadline) {
  member_.board().require_owner();
  if (width == 0 || width > queue_.sms.load(std::memory_order_relaxed))
    throw std::invalid_argument("a kernel of width " + std::to_string(width) + " on a device of " +
                                std::to_string(queue_.sms.load()) + " SMs");
  if (held() > 0) throw std::logic_error("the lane holds SM tokens already");
  for (;;) {
    const std::uint64_t ticket = enqueue(width);
    if (my_turn(ticket, width) && held() > 0) return true;
    switch (wait_for_turn(ticket, width, deadline)) {
      case Turn::mine:
        return true;
      case Turn::late:
        release();
        return false;
      case Turn::lost:
        break;
    }
  }
}

std::uint64_t SmLane::enqueue(std::uint32_t width) {
  std::uint64_t seen = queue_.tail.load();
  for (;;) {
    const TailWord tail = TailWord::unpack(seen);
    publish_ticket(queue_, tail);
    LaneWord word{LanePhase::choosing, width, tail.ticket + 1};
    lane_->word.store(word.pack(), std::memory_order_release);
    if (!queue_.tail.compare_exchange_weak(seen, TailWord{index_, word.ticket}.pack())) continue;
    publish_ticket(queue_, {index_, word.ticket});
    return word.ticket;
  }
}

bool SmLane::my_turn(std::uint64_t ticket, std::uint32_t width) const {
  return width_before(queue_, ticket) + width <= queue_.sms.load(std::memory_order_relaxed);
}

/// Spins for a moment, but only on a core that no token holder needs: when all requests ahead run and an SM is left
/// over. Only the first waiter can be in that place. The moment grows when it pays and shrinks when it does not.
bool SmLane::spin_for_turn(std::uint64_t ticket, std::uint32_t width) {
  if (!cores_for_all_ || width_before(queue_, ticket) >= queue_.sms.load()) return false;
  const std::uint64_t start = now_ns();
  do {
    for (int count = 0; count < 32; ++count) pause_core();
    if (my_turn(ticket, width)) {
      spin_ns_ = std::min(spin_ns_ * 2, kLongestSpin_ns);
      return held() > 0;
    }
  } while (now_ns() - start < spin_ns_);
  spin_ns_ = std::max(spin_ns_ / 2, kShortestSpin_ns);
  return false;
}

SmLane::Turn SmLane::wait_for_turn(std::uint64_t ticket, std::uint32_t width, Deadline deadline) {
  BoardLayout& board = member_.board().layout();
  if (spin_for_turn(ticket, width)) return Turn::mine;
  for (;;) {
    // Order: epoch, then the sleeping mark, then the look. A releaser empties its word, then looks for the mark.
    const std::uint32_t epoch = lane_->wake.load();
    std::uint64_t seen = lane_->word.load();
    LaneWord word = LaneWord::unpack(seen);
    if (!word.queued() || word.ticket != ticket) return Turn::lost;
    word.phase = LanePhase::asleep;
    if (!lane_->word.compare_exchange_strong(seen, word.pack())) return Turn::lost;
    if (my_turn(ticket, width)) {
      seen = word.pack();
      word.phase = LanePhase::ticket;
      return lane_->word.compare_exchange_strong(seen, word.pack()) ? Turn::mine : Turn::lost;
    }
    const Deadline now = std::chrono::steady_clock::now();
    if (now >= deadline) return Turn::late;
    futex_wait(lane_->wake, epoch, std::min(deadline, now + member_.board().patience()), Reach::all_processes);
    if (lane_->wake.load() != epoch) continue;
    if (pass_stopped_lanes(board, queue_, ticket)) reap_dead(board, member_.board().path(), Patience::skip_when_locked);
    wake_ready_lanes(queue_);
  }
}

void SmLane::release() {
  member_.board().require_owner();
  if (lane_->word.exchange(LaneWord{}.pack()) != LaneWord{}.pack()) wake_ready_lanes(queue_);
}

bool SmLane::renew(std::uint32_t width, std::uint64_t turn_ns) {
  const std::uint32_t tokens = held();
  if (tokens == width && !any_lane_waits(queue_)) return true;
  if (tokens >= width && turn_lasts(tokens - width, turn_ns)) return true;
  release();
  acquire(width);
  return false;
}

bool SmLane::turn_lasts(std::uint32_t spare, std::uint64_t turn_ns) {
  if (turn_ns == 0) return false;
  const std::uint64_t mine = LaneWord::unpack(lane_->word.load()).ticket;
  const FirstInLine first = first_in_line(queue_, mine);
  if (spare >= first.lacks) return false;
  const std::uint64_t now = now_ns();
  if (first.ticket != std::exchange(first_in_line_, first.ticket)) seen_there_ns_ = now;
  return now - seen_there_ns_ < (first.served_by_elders ? 2 * turn_ns : turn_ns);
}

std::uint32_t SmLane::held() const {
  member_.board().require_owner();
  const LaneWord word = LaneWord::unpack(lane_->word.load(std::memory_order_relaxed));
  return word.queued() ? word.width : 0;
}

}  // namespace neaptide::soft
