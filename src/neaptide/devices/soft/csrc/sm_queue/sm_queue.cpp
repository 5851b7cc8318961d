#include "sm_queue.h"

#include <algorithm>
#include <string>

#include "../../../native/futex.h"
#include "../../../native/process.h"

namespace neaptide::soft {
namespace {

struct Queued {
  LaneWord word;
  std::uint32_t lane = 0;
};

/// The queue in ticket order. Only the requests that were in it all the time it took are certain to be there.
class QueueView {
 public:
  explicit QueueView(const SmRegion& queue) {
    for (std::uint32_t lane = 0, high = queue.lanes_high.load(); lane < high; ++lane) {
      const LaneWord word = LaneWord::unpack(queue.lanes[lane].word.load());
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

bool any_asleep(const SmRegion& queue) {
  for (std::uint32_t lane = 0, high = queue.lanes_high.load(); lane < high; ++lane)
    if (LaneWord::unpack(queue.lanes[lane].word.load()).phase == LanePhase::asleep) return true;
  return false;
}

SmRegion& as_queue(void* region) { return *static_cast<SmRegion*>(region); }

void initialise(void* region, std::uint64_t sms) {
  if (sms == 0 || sms > kMaximumSms)
    throw BoardError(std::to_string(sms) + " SMs; 1 to " + std::to_string(kMaximumSms) + " are possible");
  as_queue(region).sms.store(static_cast<std::uint32_t>(sms));
}

void vacate(void* region, std::uint32_t slot) {
  SmRegion& queue = as_queue(region);
  for (std::uint32_t lane = 0, high = queue.lanes_high.load(); lane < high; ++lane) {
    if (queue.lanes[lane].owner.load() != slot + 1) continue;
    queue.lanes[lane].word.store(LaneWord{}.pack());
    queue.lanes[lane].owner.store(0);
  }
}

void wake(void* region) { wake_ready_lanes(as_queue(region)); }

constexpr DeviceRegion kRegion{"soft", 1, sizeof(SmRegion), &initialise, &vacate, &wake};
const LinkedRegion linked(kRegion);

}  // namespace

BoardConfig soft_board(std::uint64_t capacity_bytes, std::uint32_t sms) { return {capacity_bytes, &kRegion, sms}; }

SmRegion& sm_region(const Board& board) {
  BoardLayout& layout = board.layout();
  if (layout.region_kind.load() != kRegion.kind) throw BoardError("board " + board.path() + ": of another device");
  return as_queue(region_of(layout));
}

void publish_ticket(SmRegion& queue, TailWord tail) {
  Word64& word = queue.lanes[tail.lane].word;
  std::uint64_t seen = word.load();
  LaneWord lane = LaneWord::unpack(seen);
  if (lane.phase != LanePhase::choosing || lane.ticket != tail.ticket) return;
  lane.phase = LanePhase::ticket;
  word.compare_exchange_strong(seen, lane.pack());
}

std::uint32_t width_before(const SmRegion& queue, std::uint64_t ticket) {
  std::uint32_t width = 0;
  const std::uint32_t sms = queue.sms.load(std::memory_order_relaxed);
  for (std::uint32_t lane = 0, high = queue.lanes_high.load(); lane < high && width <= sms; ++lane) {
    const LaneWord word = LaneWord::unpack(queue.lanes[lane].word.load());
    if (word.queued() && word.ticket < ticket) width += word.width;
  }
  return width;
}

void wake_ready_lanes(SmRegion& queue) {
  if (!any_asleep(queue)) return;
  QueueView view(queue);
  Queued* const running_end = view.running_end(queue.sms.load());
  for (Queued* entry = view.begin(); entry != running_end; ++entry)
    if (entry->word.phase == LanePhase::asleep) futex_wake(queue.lanes[entry->lane].wake, Reach::all_processes);
}

bool any_lane_waits(const SmRegion& queue) { return width_before(queue, kNoTicket) > queue.sms.load(); }

FirstInLine first_in_line(const SmRegion& queue, std::uint64_t running_ticket) {
  QueueView view(queue);
  const std::uint32_t sms = queue.sms.load();
  Queued* const first = view.running_end(sms);
  if (first == view.end()) return {};
  std::uint32_t free = sms;
  std::uint32_t elders = 0;
  for (const Queued* entry = view.begin(); entry != first; ++entry) {
    free -= entry->word.width;
    if (entry->word.ticket < running_ticket) elders += entry->word.width;
  }
  const std::uint32_t lacks = first->word.width - free;
  return {first->word.ticket, lacks, elders >= lacks};
}

bool any_sm_free(const SmRegion& queue) { return width_before(queue, kNoTicket) < queue.sms.load(); }

bool pass_stopped_lanes(const BoardLayout& board, SmRegion& queue, std::uint64_t ticket) {
  bool found_dead = false;
  QueueView view(queue);
  for (const Queued& entry : view) {
    if (entry.word.ticket >= ticket) break;
    LaneLayout& lane = queue.lanes[entry.lane];
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

std::uint32_t tokens_granted(const SmRegion& queue, std::uint32_t slot) {
  QueueView view(queue);
  Queued* const running_end = view.running_end(queue.sms.load());
  std::uint32_t tokens = 0;
  for (Queued* entry = view.begin(); entry != running_end; ++entry)
    if (slot == kNoSlot || queue.lanes[entry->lane].owner.load() == slot + 1) tokens += entry->word.width;
  return tokens;
}

}  // namespace neaptide::soft
