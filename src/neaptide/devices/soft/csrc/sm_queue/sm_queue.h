// The queue for the device's SMs: its words in the board's device region, and what can be read off them. sm_lane.h says
// what the queue guarantees. Nothing here needs torch: a daemon reaps the region too.
//
// SM tokens. A lane's word holds its ticket, width and phase. Tickets come from `tail`, which names the lane that took
// the newest one. A lane that wants the next ticket first writes the newest ticket into its owner's word, in case that
// owner has not. So all earlier tickets are visible before a later one exists, even if their owners stop or die
// half-way.
//
// Classes. Requests of deadline jobs go before those of other jobs that have not begun, so a request that begins says
// so in its word. It does that before it looks whether it fits, and takes it back if not. Of two requests that do not
// fit together, at least one therefore sees the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "../../../native/board.h"
#include "../../../native/board_layout.h"
#include "../../../native/device_region.h"

namespace neaptide::soft {

inline constexpr std::uint32_t kLanes = 256;

struct alignas(64) LaneLayout {
  Word64 word;
  Word32 wake;   // futex
  Word32 owner;  // slot + 1; 0: the lane is free
};

/// The device's region of the board.
struct SmRegion {
  Word32 sms;
  Word32 lanes_high;                // lanes from here on were never used
  alignas(64) Word64 tail;          // newest ticket and its lane
  alignas(64) Word64 link_free_ns;  // when the link to host memory has carried what kernels asked of it so far
  std::array<LaneLayout, kLanes> lanes;
};

/// What a new board of the software GPU gets.
BoardConfig soft_board(std::uint64_t capacity_bytes, std::uint32_t sms);
/// The queue of a board. Throws BoardError when the board belongs to another device.
SmRegion& sm_region(const Board& board);

/// idle: no request. choosing: the ticket in the word is wanted, and taken once `tail` names it. ticket: in the queue,
/// waiting. asleep: as ticket, and its thread sleeps on the lane's futex. running: its kernel has begun, or its thread
/// looks whether it may begin.
enum class LanePhase : std::uint64_t { idle, choosing, ticket, asleep, running };

/// A lane's word: phase in 3 bits, class in 1, width in 12, ticket in 48.
struct LaneWord {
  LanePhase phase = LanePhase::idle;
  std::uint32_t width = 0;
  std::uint64_t ticket = 0;
  bool deadline = false;  // of a deadline job

  static LaneWord unpack(std::uint64_t word) {
    return {static_cast<LanePhase>(word & 7), static_cast<std::uint32_t>(word >> 4 & 0xfff), word >> 16,
            (word & 8) != 0};
  }
  std::uint64_t pack() const {
    return static_cast<std::uint64_t>(phase) | std::uint64_t{deadline} << 3 | std::uint64_t{width} << 4 | ticket << 16;
  }
  bool queued() const { return phase >= LanePhase::ticket; }
  bool running() const { return phase >= LanePhase::running; }
  /// Whether this request is served before the other: those that run, then those of deadline jobs, then by ticket.
  bool goes_before(const LaneWord& other) const {
    if (running() != other.running()) return running();
    if (!running() && deadline != other.deadline) return deadline;
    return ticket < other.ticket;
  }
};

inline constexpr std::uint32_t kMaximumSms = 0xfff;

// Numbers of the region, bounded: the words may be damaged.
inline std::uint32_t sms_of(const SmRegion& queue) {
  return std::clamp(queue.sms.load(std::memory_order_relaxed), 1U, kMaximumSms);
}
inline std::uint32_t lanes_high(const SmRegion& queue) { return std::min(queue.lanes_high.load(), kLanes); }

/// The newest ticket and its lane: lane in 16 bits, ticket in 48.
struct TailWord {
  std::uint32_t lane = 0;
  std::uint64_t ticket = 0;

  static TailWord unpack(std::uint64_t word) { return {static_cast<std::uint32_t>(word & 0xffff), word >> 16}; }
  std::uint64_t pack() const { return lane | ticket << 16; }
};

/// Makes the ticket that `tail` names visible in its lane, in case its owner has not come to it.
void publish_ticket(SmRegion& queue, TailWord tail);
/// Sum of the widths of the other requests that run, or go before this one if it has not begun; stops counting above
/// the number of SMs.
std::uint32_t width_before(const SmRegion& queue, const LaneWord& request);
/// Wakes the sleeping lanes whose turn it is.
void wake_ready_lanes(SmRegion& queue);
/// Whether a request in the queue has to wait for its turn.
bool any_lane_waits(const SmRegion& queue);

/// The head of the line, as a running request sees it.
struct FirstInLine {
  std::uint64_t ticket = 0;       // 0: no request waits
  bool deadline = false;          // of a deadline job
  std::uint32_t lacks = 0;        // tokens, besides those that are free
  bool served_by_elders = false;  // the tokens of the requests that run longer are enough for it
};
FirstInLine first_in_line(const SmRegion& queue, std::uint64_t running_ticket);
/// Whether an SM is left that no request runs on or waits for.
bool any_sm_free(const SmRegion& queue);
/// Takes the requests before this one that belong to a stopped process, or to none, out of the queue, and reports
/// whether one belongs to a dead process. The stopped process finds out when it goes on: it queues again, or finishes
/// its kernel without tokens.
bool pass_stopped_lanes(const BoardLayout& board, SmRegion& queue, const LaneWord& request);
/// The ticket of the first request in the queue; 0: it is empty.
std::uint64_t head_ticket(const SmRegion& queue);
/// Takes the lane with this ticket out of the queue, as pass_stopped_lanes() does.
void pass_lane(SmRegion& queue, std::uint64_t ticket);
/// Has the link carry bytes that take it so long, after those of others; when that is done. What a process that dies
/// has asked of the link stays asked. Times are on the steady clock.
std::uint64_t take_link(SmRegion& queue, std::uint64_t now_ns, std::uint64_t takes_ns);
/// Tokens of the requests that run now, of one slot or (kNoSlot) of all.
std::uint32_t tokens_granted(const SmRegion& queue, std::uint32_t slot);

}  // namespace neaptide::soft
