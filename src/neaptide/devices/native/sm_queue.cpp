#include "sm_queue.h"

#include <algorithm>

#include "futex.h"
#include "process.h"

namespace neaptide {
namespace {

struct Queued {
  LaneWord word;
  std::uint32_t lane = 0;
};

/// The queue in ticket order. Only the requests that were in it all the time it took are certain to be there.
class QueueView {
 public:
  explicit QueueView(const BoardLayout& board) {
    for (std::uint32_t lane = 0, high = board.lanes_high.load(); lane < high; ++lane) {
      const LaneWord word = LaneWord::unpack(board.lanes[lane].word.load());
      if (word.queued()) entries_[size_++] = {word, lane};
    }
    std::sort(begin(), end(), [](auto& a, auto& b) { return a.word.ticket < b.word.ticket; });
  }
  Queued* begin() { return entries_.data(); }
  Queued* end() { return entries_.data() + size_; }
  /// End of the requests that fit the SMs together: those run.
  Queued* running_end(std::uint32_t sms) {
    std::uint32_t width = 0;
    return std::find_if(begin(), end(), [&](auto& entry) { return (width += entry.word.width) > sms; });
  }

 private:
  std::array<Queued, kLanes> entries_;
  std::uint32_t size_ = 0;
};

constexpr std::uint64_t kNoTicket = ~std::uint64_t{0};  // later than all

bool any_asleep(const BoardLayout& board) {
  for (std::uint32_t lane = 0, high = board.lanes_high.load(); lane < high; ++lane)
    if (LaneWord::unpack(board.lanes[lane].word.load()).phase == LanePhase::asleep) return true;
  return false;
}

}  // namespace

void publish_ticket(BoardLayout& board, TailWord tail) {
  Word64& word = board.lanes[tail.lane].word;
  std::uint64_t seen = word.load();
  LaneWord lane = LaneWord::unpack(seen);
  if (lane.phase != LanePhase::choosing || lane.ticket != tail.ticket) return;
  lane.phase = LanePhase::ticket;
  word.compare_exchange_strong(seen, lane.pack());
}

std::uint32_t width_before(const BoardLayout& board, std::uint64_t ticket) {
  std::uint32_t width = 0;
  const std::uint32_t sms = board.sms.load(std::memory_order_relaxed);
  for (std::uint32_t lane = 0, high = board.lanes_high.load(); lane < high && width <= sms; ++lane) {
    const LaneWord word = LaneWord::unpack(board.lanes[lane].word.load());
    if (word.queued() && word.ticket < ticket) width += word.width;
  }
  return width;
}

void wake_ready_lanes(BoardLayout& board) {
  if (!any_asleep(board)) return;
  QueueView queue(board);
  Queued* const running_end = queue.running_end(board.sms.load());
  for (Queued* entry = queue.begin(); entry != running_end; ++entry)
    if (entry->word.phase == LanePhase::asleep) futex_wake(board.lanes[entry->lane].wake, Reach::all_processes);
}

bool any_lane_waits(const BoardLayout& board) { return width_before(board, kNoTicket) > board.sms.load(); }

FirstInLine first_in_line(const BoardLayout& board, std::uint64_t running_ticket) {
  QueueView queue(board);
  const std::uint32_t sms = board.sms.load();
  Queued* const first = queue.running_end(sms);
  if (first == queue.end()) return {};
  std::uint32_t free = sms;
  std::uint32_t elders = 0;
  for (const Queued* entry = queue.begin(); entry != first; ++entry) {
    free -= entry->word.width;
    if (entry->word.ticket < running_ticket) elders += entry->word.width;
  }
  const std::uint32_t lacks = first->word.width - free;
  return {first->word.ticket, lacks, elders >= lacks};
}

bool any_sm_free(const BoardLayout& board) { return width_before(board, kNoTicket) < board.sms.load(); }

bool pass_stopped_lanes(BoardLayout& board, std::uint64_t ticket) {
  bool found_dead = false;
  QueueView queue(board);
  for (const Queued& entry : queue) {
    if (entry.word.ticket >= ticket) break;
    LaneLayout& lane = board.lanes[entry.lane];
    const std::uint32_t owner = lane.owner.load();
    if (owner == 0) continue;
    const SlotLayout& slot = board.slots[owner - 1];
    const ProcessState state = probe({slot.pid.load(), slot.start_time.load()});
    found_dead |= state == ProcessState::gone;
    // A ticket is never used twice, so this cannot hit a later request of the same lane.
    std::uint64_t seen = lane.word.load();
    if (state == ProcessState::stopped && LaneWord::unpack(seen).ticket == entry.word.ticket)
      lane.word.compare_exchange_strong(seen, LaneWord{}.pack());
  }
  return found_dead;
}

std::uint32_t tokens_granted(const BoardLayout& board, std::uint32_t slot) {
  QueueView queue(board);
  Queued* const running_end = queue.running_end(board.sms.load());
  std::uint32_t tokens = 0;
  for (Queued* entry = queue.begin(); entry != running_end; ++entry)
    if (slot == kNoSlot || board.lanes[entry->lane].owner.load() == slot + 1) tokens += entry->word.width;
  return tokens;
}

}  // namespace neaptide
