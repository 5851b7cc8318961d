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

/// The queue in the order in which requests are served. Only the requests that were in it all the time it took are
/// certain to be there.
class QueueView {
 public:
  explicit QueueView(const SmRegion& queue) {
    for (std::uint32_t lane = 0, high = lanes_high(queue); lane < high; ++lane) {
      const LaneWord word = LaneWord::unpack(queue.lanes[lane].word.load());
      if (word.queued()) entries_[size_++] = {word, lane};
    }
    std::sort(begin(), end(), [](auto& a, auto& b) { return a.word.goes_before(b.word); });
  }
  Queued* begin() { return entries_.data(); }
  Queued* end() { return entries_.data() + size_; }
  /// End of the requests that fit the SMs together: those run or may begin.
  Queued* fitting_end(std::uint32_t sms) {
    std::uint32_t width = 0;
    return std::find_if(begin(), end(), [&](auto& entry) { return (width += entry.word.width) > sms; });
  }

 private:
  std::array<Queued, kLanes> entries_;
  std::uint32_t size_ = 0;
};

constexpr std::uint64_t kLongestLine_ns = 60'000'000'000;  // a longer line at the link is damage

constexpr LaneWord kLast{LanePhase::ticket, 0, ~std::uint64_t{0} >> 16};  // a request behind all others

bool any_asleep(const SmRegion& queue) {
  for (std::uint32_t lane = 0, high = lanes_high(queue); lane < high; ++lane)
    if (LaneWord::unpack(queue.lanes[lane].word.load()).phase == LanePhase::asleep) return true;
  return false;
}

/// Takes a request out of the queue. A ticket is never used twice, so this cannot hit a later request of the same lane.
void pass(SmRegion& queue, const Queued& entry) {
  Word64& word = queue.lanes[entry.lane].word;
  std::uint64_t seen = word.load();
  if (LaneWord::unpack(seen).ticket == entry.word.ticket) word.compare_exchange_strong(seen, LaneWord{}.pack());
}

SmRegion& as_queue(void* region) { return *static_cast<SmRegion*>(region); }

void initialise(void* region, std::uint64_t sms) {
  if (sms == 0 || sms > kMaximumSms)
    throw BoardError(std::to_string(sms) + " SMs; 1 to " + std::to_string(kMaximumSms) + " are possible");
  as_queue(region).sms.store(static_cast<std::uint32_t>(sms));
}

void vacate(void* region, std::uint32_t slot) {
  for (LaneLayout& lane : as_queue(region).lanes) {
    if (lane.owner.load() != slot + 1) continue;
    lane.word.store(LaneWord{}.pack());
    lane.owner.store(0);
  }
}

void wake(void* region) { wake_ready_lanes(as_queue(region)); }

constexpr DeviceRegion kRegion{"soft", 1, sizeof(SmRegion), &initialise, &vacate, &wake};
const LinkedRegion linked(kRegion);

}  // namespace

BoardConfig soft_board(std::uint64_t capacity_bytes, std::uint32_t sms) { return {capacity_bytes, &kRegion, sms}; }

SmRegion& sm_region(const Board& board) {
  BoardLayout& layout = board.layout();
  if (board.region() != &kRegion) throw BoardError("board " + board.path() + ": of another device");
  return as_queue(region_of(layout));
}

void publish_ticket(SmRegion& queue, TailWord tail) {
  if (tail.lane >= kLanes) return;
  Word64& word = queue.lanes[tail.lane].word;
  std::uint64_t seen = word.load();
  LaneWord lane = LaneWord::unpack(seen);
  if (lane.phase != LanePhase::choosing || lane.ticket != tail.ticket) return;
  lane.phase = LanePhase::ticket;
  word.compare_exchange_strong(seen, lane.pack());
}

std::uint32_t width_before(const SmRegion& queue, const LaneWord& request) {
  LaneWord waiting = request;
  waiting.phase = LanePhase::ticket;  // one that looks whether it may begin goes before no other that runs
  std::uint32_t width = 0;
  const std::uint32_t sms = sms_of(queue);
  for (std::uint32_t lane = 0, high = lanes_high(queue); lane < high && width <= sms; ++lane) {
    const LaneWord word = LaneWord::unpack(queue.lanes[lane].word.load());
    if (word.queued() && word.ticket != request.ticket && word.goes_before(waiting)) width += word.width;
  }
  return width;
}

void wake_ready_lanes(SmRegion& queue) {
  if (!any_asleep(queue)) return;
  QueueView view(queue);
  Queued* const fitting_end = view.fitting_end(sms_of(queue));
  for (Queued* entry = view.begin(); entry != fitting_end; ++entry)
    if (entry->word.phase == LanePhase::asleep) futex_wake(queue.lanes[entry->lane].wake, Reach::all_processes);
}

bool any_lane_waits(const SmRegion& queue) { return width_before(queue, kLast) > sms_of(queue); }

FirstInLine first_in_line(const SmRegion& queue, std::uint64_t running_ticket) {
  QueueView view(queue);
  const std::uint32_t sms = sms_of(queue);
  Queued* const first = view.fitting_end(sms);
  if (first == view.end()) return {};
  std::uint32_t free = sms;
  std::uint32_t elders = 0;
  for (const Queued* entry = view.begin(); entry != first; ++entry) {
    free -= entry->word.width;
    if (entry->word.ticket < running_ticket) elders += entry->word.width;
  }
  const std::uint32_t lacks = first->word.width - std::min(free, first->word.width);
  return {first->word.ticket, first->word.deadline, lacks, elders >= lacks};
}

bool any_sm_free(const SmRegion& queue) { return width_before(queue, kLast) < sms_of(queue); }

bool pass_stopped_lanes(const BoardLayout& board, SmRegion& queue, const LaneWord& request) {
  bool found_dead = false;
  QueueView view(queue);
  for (const Queued& entry : view) {
    if (!entry.word.goes_before(request)) break;
    const std::uint32_t owner = queue.lanes[entry.lane].owner.load();
    if (owner == 0 || owner > kSlots) {
      pass(queue, entry);
      continue;
    }
    const SlotLayout& slot = board.slots[owner - 1];
    const ProcessState state = probe({slot.pid.load(), slot.start_time.load()});
    found_dead |= state == ProcessState::gone;
    if (state == ProcessState::stopped) pass(queue, entry);
  }
  return found_dead;
}

std::uint64_t head_ticket(const SmRegion& queue) {
  QueueView view(queue);
  return view.begin() == view.end() ? 0 : view.begin()->word.ticket;
}

void pass_lane(SmRegion& queue, std::uint64_t ticket) {
  QueueView view(queue);
  for (const Queued& entry : view)
    if (entry.word.ticket == ticket) pass(queue, entry);
}

std::uint64_t take_link(SmRegion& queue, std::uint64_t now_ns, std::uint64_t takes_ns) {
  std::uint64_t free_ns = queue.link_free_ns.load(), done_ns = 0;
  do {
    const std::uint64_t begins_ns = free_ns > now_ns + kLongestLine_ns ? now_ns : std::max(free_ns, now_ns);
    done_ns = begins_ns + std::min(takes_ns, kLongestLine_ns / 2);
  } while (!queue.link_free_ns.compare_exchange_weak(free_ns, done_ns));
  return done_ns;
}

std::uint32_t tokens_granted(const SmRegion& queue, std::uint32_t slot) {
  QueueView view(queue);
  std::uint32_t tokens = 0;
  for (const Queued& entry : view)
    if (entry.word.running() && (slot == kNoSlot || queue.lanes[entry.lane].owner.load() == slot + 1))
      tokens += entry.word.width;
  return tokens;
}

}  // namespace neaptide::soft
