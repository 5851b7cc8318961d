#include "sm_lane.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "../../../native/board_layout.h"
#include "../../../native/futex.h"

namespace neaptide::soft {
namespace {

constexpr std::uint32_t kShortestSpin_ns = 1'000;
constexpr std::uint32_t kLongestSpin_ns = 20'000;
/// A request that has been the first for so long is passed: its word may be damaged. A kernel that does take so long
/// then shares its SMs.
constexpr auto kLongestKernel = std::chrono::seconds(10);

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

SmLane::SmLane(Member& member) : member_(member), queue_(sm_region(member.board())), sms_(sms_of(queue_)) {
  for (index_ = 0; index_ < kLanes; ++index_) {
    std::uint32_t nobody = 0;
    if (queue_.lanes[index_].owner.compare_exchange_strong(nobody, member_.slot() + 1)) break;
  }
  if (index_ == kLanes)
    throw BoardError("board " + member_.board().path() + ": all " + std::to_string(kLanes) + " SM lanes are taken");
  lane_ = &queue_.lanes[index_];
  lane_->word.store(LaneWord{}.pack());
  raise_lanes_high();
  cores_for_all_ = sms_ <= std::thread::hardware_concurrency();
}

void SmLane::raise_lanes_high() {
  for (std::uint32_t high = queue_.lanes_high.load(); high <= index_;)
    if (queue_.lanes_high.compare_exchange_weak(high, index_ + 1)) return;
}

SmLane::~SmLane() {
  if (member_.board().forked()) return;
  release();
  lane_->owner.store(0);
}

bool SmLane::acquire(std::uint32_t width, Deadline deadline) {
  member_.board().require_owner();
  if (width == 0 || width > sms_)
    throw std::invalid_argument("a kernel of width " + std::to_string(width) + " on a device of " +
                                std::to_string(sms_) + " SMs");
  if (held() > 0) throw std::logic_error("the lane holds SM tokens already");
  raise_lanes_high();  // both may be damaged: requests must see each other, and reapers the owner
  if (lane_->owner.load(std::memory_order_relaxed) != member_.slot() + 1) lane_->owner.store(member_.slot() + 1);
  for (;;) {
    const LaneWord request = enqueue(width);
    if (my_turn(request) && begin(request)) return true;
    switch (wait_for_turn(request, deadline)) {
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

LaneWord SmLane::enqueue(std::uint32_t width) {
  std::uint64_t seen = queue_.tail.load();
  for (;;) {
    const TailWord tail = TailWord::unpack(seen);
    publish_ticket(queue_, tail);
    LaneWord word{LanePhase::choosing, width, tail.ticket + 1, member_.in_deadline_class()};
    lane_->word.store(word.pack(), std::memory_order_release);
    if (!queue_.tail.compare_exchange_weak(seen, TailWord{index_, word.ticket}.pack())) continue;
    publish_ticket(queue_, {index_, word.ticket});
    ticket_ = word.ticket;
    width_ = width;
    word.phase = LanePhase::ticket;
    return word;
  }
}

bool SmLane::my_turn(const LaneWord& request) const {
  const std::uint32_t before = width_before(queue_, request);
  return before == 0 || before + request.width <= sms_of(queue_);
}

/// Begins the request if it fits beside those that run and go before it. When it does not, another lane may have seen
/// it as running and have gone to sleep for it, so those that fit are woken.
bool SmLane::begin(const LaneWord& request) {
  std::uint64_t seen = lane_->word.load();
  const LaneWord before = LaneWord::unpack(seen);
  LaneWord word = before;
  word.phase = LanePhase::running;
  if (!before.queued() || before.ticket != request.ticket) return false;
  if (!lane_->word.compare_exchange_strong(seen, word.pack())) return false;
  if (my_turn(request)) return held() > 0;
  seen = word.pack();
  lane_->word.compare_exchange_strong(seen, before.pack());
  wake_ready_lanes(queue_);
  return false;
}

/// Spins for a moment, but only on a core that no token holder needs: when all requests ahead run and an SM is left
/// over. Only the first waiter can be in that place. The moment grows when it pays and shrinks when it does not.
bool SmLane::spin_for_turn(const LaneWord& request) {
  if (!cores_for_all_ || width_before(queue_, request) >= sms_of(queue_)) return false;
  const std::uint64_t start = now_ns();
  do {
    for (int count = 0; count < 32; ++count) pause_core();
    if (my_turn(request)) {
      spin_ns_ = std::min(spin_ns_ * 2, kLongestSpin_ns);
      return begin(request);
    }
  } while (now_ns() - start < spin_ns_);
  spin_ns_ = std::max(spin_ns_ / 2, kShortestSpin_ns);
  return false;
}

SmLane::Turn SmLane::wait_for_turn(const LaneWord& request, Deadline deadline) {
  BoardLayout& board = member_.board().layout();
  if (spin_for_turn(request)) return Turn::mine;
  std::uint64_t head = 0;
  Deadline head_since;
  for (;;) {
    // Order: epoch, then the sleeping mark, then the look. A releaser empties its word, then looks for the mark.
    const std::uint32_t epoch = lane_->wake.load();
    std::uint64_t seen = lane_->word.load();
    LaneWord word = LaneWord::unpack(seen);
    if (!word.queued() || word.ticket != request.ticket) return Turn::lost;
    word.phase = LanePhase::asleep;
    if (!lane_->word.compare_exchange_strong(seen, word.pack())) return Turn::lost;
    const Deadline now = std::chrono::steady_clock::now();
    if (my_turn(request)) {
      if (begin(request)) return Turn::mine;
      if (now < deadline) continue;  // look again: while it was marked as running, nobody would have woken it
    }
    if (now >= deadline) return Turn::late;
    futex_wait(lane_->wake, epoch, std::min(deadline, now + member_.board().patience()), Reach::all_processes);
    if (lane_->wake.load() != epoch) continue;
    if (TailWord::unpack(queue_.tail.load()).ticket < request.ticket) return Turn::lost;  // one of the two was damaged
    if (pass_stopped_lanes(board, queue_, request)) member_.board().reap();
    if (head_ticket(queue_) != head) {
      head = head_ticket(queue_);
      head_since = now;
    } else if (head != request.ticket && now - head_since > kLongestKernel) {
      pass_lane(queue_, head);
    }
    wake_ready_lanes(queue_);
  }
}

void SmLane::release() {
  member_.board().require_owner();
  ticket_ = 0;
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
  const LaneWord mine = LaneWord::unpack(lane_->word.load());
  if (mine.deadline != member_.in_deadline_class()) return false;
  const FirstInLine first = first_in_line(queue_, mine.ticket);
  if (spare >= first.lacks) return false;
  if (mine.deadline != first.deadline) return mine.deadline;
  if (turn_ns == 0) return false;
  const std::uint64_t now = now_ns();
  if (first.ticket != std::exchange(first_in_line_, first.ticket)) seen_there_ns_ = now;
  return now - seen_there_ns_ < (first.served_by_elders ? 2 * turn_ns : turn_ns);
}

std::uint32_t SmLane::held() const {
  member_.board().require_owner();
  const LaneWord word = LaneWord::unpack(lane_->word.load(std::memory_order_relaxed));
  return ticket_ != 0 && word.running() && word.ticket == ticket_ ? width_ : 0;
}

}  // namespace neaptide::soft
